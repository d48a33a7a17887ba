"""What a traced program consists of: blocks of equations, each a node, in scopes, each a graph.

An irregular block is one equation, a branch or a loop, with the scopes it chooses from or repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pathways import _jax_programs as jp

BRANCH, LOOP = "branch", "loop"


@dataclass(slots=True, eq=False)
class Block:
    """The equations of one node, by position. `main` names the devices; without it arrays do that insist on them."""

    number: int
    devices: tuple[Any, ...]
    place: jp.Place
    main: int | None
    members: set[int] = field(default_factory=set)
    # Filled at the end: what it reads from outside, constants that become part of it, and what others read of it.
    inputs: list[Any] = field(default_factory=list)
    constants: dict[Any, Any] = field(default_factory=dict)
    outputs: list[Any] = field(default_factory=list)
    # How outputs have to lie of which the equations say nothing, because a loop or a branch returns them.
    demands: dict[Any, Any] = field(default_factory=dict)
    irregular: Irregular | None = None


@dataclass(slots=True, eq=False)
class Scope:
    """A body: a graph of its own. `lies` says how each argument lies; `label` is for people."""

    label: str
    equations: list[Any]
    blocks: list[Block]
    arguments: list[Any]
    results: list[Any]
    lies: dict[Any, Any]


@dataclass(slots=True, eq=False)
class Irregular:
    """A branch (input 0 chooses a scope) or a loop (scope 0 is the condition, scope 1 the body), and how its values lie."""

    kind: str
    scopes: list[Scope]
    limits: tuple[int, ...]
    max_iterations: int
    taken: list[Any]
    returned: list[Any]

    @property
    def first(self) -> int:
        """The input that is the first argument of the scopes."""
        return 1 if self.kind == BRANCH else 0


def wishes_of(block: Block, equations: Sequence[Any]) -> jp.Wishes:
    """What the equations of a block demand, out of those of its scope; the one that names the devices has the last word."""
    found = jp.Wishes()
    last = [] if block.main is None else [block.main]
    for position in [*(each for each in sorted(block.members) if each != block.main), *last]:
        said = jp.wishes(equations[position])
        found.read.update(said.read)
        found.written.update(said.written)
    return found
