"""What controller and hosts must understand alike, as digests by field, so that a difference can be named.

A plan is read by every host for itself: which gangs it joins, and at which place of the order, must be what the controller counts
with. Records of both sides have the same fields in the same order; what only one of them knows is left out here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class FieldDigest(NamedTuple):
    """A field of a description, by the name that a person is told, and the SHA-256 of its value."""

    name: str
    digest: bytes


def digest_of(value: object) -> bytes:
    """Of plain values (numbers, texts, bytes, tuples of them), which are written alike everywhere."""
    return hashlib.sha256(repr(value).encode()).digest()


def first_difference(ours: Sequence[FieldDigest], theirs: Sequence[FieldDigest]) -> str:
    """The name of the first field in which two descriptions differ; empty if in none."""
    others = dict(theirs)
    for name, digest in ours:
        if others.pop(name, None) != digest:
            return name
    return next(iter(others), "")


def plan_fields(
    hosts: Iterable[tuple[str, str, int]],
    specs: Iterable[object],
    steps: Iterable[object],
    slots: tuple[int, int, tuple[int, ...]],
) -> tuple[FieldDigest, ...]:
    """What a plan says to all hosts alike. `hosts`: name, island and epoch; `slots`: arguments, all, and those of results."""
    return (
        FieldDigest("hosts", digest_of(tuple(hosts))),
        FieldDigest("layouts", digest_of(tuple(map(_values, specs)))),
        FieldDigest("steps", digest_of(tuple((type(step).__name__, _values(step)) for step in steps))),
        FieldDigest("results", digest_of(slots)),
    )


def launches_field(launches: Iterable[tuple[int, int, int, int]]) -> FieldDigest:
    """What one host launches: step, node, executable, and how many launches of its island come before."""
    return FieldDigest("launches", digest_of(tuple(launches)))


def _values(record: object) -> tuple[object, ...]:
    names: Iterable[str] = getattr(type(record), "__slots__", ())
    return tuple(getattr(record, name) for name in names)
