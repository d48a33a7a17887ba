"""The order of names in which a2 comes before a10: of hosts in an island (their ranks) and of islands in a device list."""

from __future__ import annotations

import re
from functools import lru_cache

_DIGITS = re.compile(r"(\d+)")


@lru_cache(maxsize=4096)  # names of hosts and islands, which are sorted again and again
def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key that compares runs of digits as numbers."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(name) if part)
