"""What every page says of itself: on which machine, with which versions, of which commit, and whether it was a quick run."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from tests.cluster import ROOT

VERSIONS = ("pathways", "jax", "jaxlib", "grpcio", "uvloop", "numpy")


def facts(quick: bool) -> list[str]:
    """Lines for the head of a page; taken before the measurement, so that the load is what was found."""
    information = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in information if line.startswith("model name")), platform.machine())
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in VERSIONS)
    lines = [
        f"machine: {model}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, Linux {platform.release()}, everything on loopback",
        f"versions: Python {platform.python_version()}, {versions}",
        f"commit: {commit()}",
        f"date: {datetime.datetime.now().isoformat(' ', 'minutes')}, load before the run {os.getloadavg()[0]:.2f}",
    ]
    if os.nice(0):
        lines.append(f"all processes of both sides at nice {os.nice(0)}: the machine was shared")
    return [*lines, "**quick: too few samples for a verdict**"] if quick else lines


def commit() -> str:
    """The commit of the tree, and whether something in it was changed since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=20).stdout.strip()

    # What a benchmark itself writes is no change.
    changed = git("status", "--porcelain", "--", ":!docs/benchmarks")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")
