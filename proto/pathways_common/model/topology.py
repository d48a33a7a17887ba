"""How an island's devices lie, as people write it: 4, 2x2 or 4x2x2, and coordinates 0,1:1,1, one for each device of a host."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod

DIMENSIONS_MAX = 3
SIZE_MAX = 4096
TOPOLOGY_WORDS = f"one to three sizes from 1 to {SIZE_MAX}, like 4, 2x2 or 4x2x2"
COORDINATES_WORDS = "one coordinate for each device, like 0,1 or 0,0:0,1"


def parse_topology(text: str) -> tuple[int, ...]:
    """The sizes; raises ValueError if they are none."""
    sizes = tuple(_number(part) for part in text.split("x"))
    if not is_topology(sizes):
        raise ValueError(text)
    return sizes


def is_topology(sizes: tuple[int, ...]) -> bool:
    """Whether the sizes make a topology."""
    return 1 <= len(sizes) <= DIMENSIONS_MAX and all(1 <= size <= SIZE_MAX for size in sizes)


def parse_coordinates(text: str) -> tuple[tuple[int, ...], ...]:
    """One coordinate per device; raises ValueError if the text holds something else. Whether they fit is not looked at."""
    return tuple(tuple(_number(index) for index in part.split(",")) for part in text.split(":"))


def coordinates_text(coordinates: tuple[tuple[int, ...], ...]) -> str:
    """What `parse_coordinates` reads."""
    return ":".join(",".join(map(str, coordinate)) for coordinate in coordinates)


def places_in_turn(topology: tuple[int, ...], device_count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Host after host, the row-major coordinates of its devices; the topology has a multiple of them."""
    places = list(product(*(range(size) for size in topology)))
    for first in range(0, prod(topology), device_count):
        yield tuple(places[first : first + device_count])


def _number(text: str) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(SIZE_MAX))):
        raise ValueError(text)
    return int(text)
