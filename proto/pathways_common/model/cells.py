"""Names of cells: the executors that one tenant has to itself on the hosts of an island.

The cell of tenant ads on island a is a+ads, its hosts a0+ads. Names of islands and hosts hold no plus sign, and it sorts before
every character that they may hold, so islands and their cells have one order.
"""

from __future__ import annotations

from functools import lru_cache

_MARK = "+"


def cell_name(name: str, tenant: str) -> str:
    """Of an island or host, in the cell of a tenant."""
    return f"{name}{_MARK}{tenant}"


@lru_cache(maxsize=4096)
def plain_name(name: str) -> str:
    """The island or host itself, also where it is called as in a cell."""
    return name.partition(_MARK)[0]


def tenant_in(name: str) -> str:
    """Whose cell a name is of; empty if of none."""
    return name.partition(_MARK)[2]
