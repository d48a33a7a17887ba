"""Sizes in words, powers of 1024: 4096, 512M, 2GiB."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def parse_size(text: str) -> int:
    """Bytes; raises ValueError if it is no size."""
    match = re.fullmatch(r"(\d{1,20})\s*([KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE | re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is not a size")
    return int(match.group(1)) * _UNITS[match.group(2).upper()]


def size_text(size_bytes: int) -> str:
    """As people write it: whole numbers stay whole (2 GiB), others get one digit (1.5 GiB)."""
    value = float(size_bytes)
    unit = "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
