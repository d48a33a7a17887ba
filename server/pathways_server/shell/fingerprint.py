"""Which build runs since which start of the machine: what one of them wrote down for itself, no other can go on with.

Decisions are the same only where the sources are, and times only where the clock is.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import pathways_common.model

import pathways_server

_BOOT = Path("/proc/sys/kernel/random/boot_id")


def fingerprint() -> str:
    """A digest of the sources that decide, and of the start of the machine."""
    digest = hashlib.sha256()
    for package in (pathways_server, pathways_common.model):
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)}\0".encode())
            digest.update(path.read_bytes())
    digest.update(_BOOT.read_bytes() if _BOOT.exists() else b"")
    return digest.hexdigest()
