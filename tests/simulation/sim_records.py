"""What a simulated client knows of its arrays and executables."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from pathways_common.model.failure import Reason

from tests.simulation.sim_arithmetic import Program
from tests.simulation.sim_fused import Fused


@dataclass
class Array:
    """`buffers` name the logical buffer of each shard, `history` the islands that its value depends on.

    `is_copied`: it lies on each of those, so that any one of them is enough.
    """

    id: int
    expected: list[int]
    devices: tuple[int, ...]
    buffers: tuple[int, ...]
    size: int
    history: tuple[str, ...]
    may_fail: tuple[Reason, ...] = ()
    must_fail: Reason | None = None
    is_copied: bool = False

    def is_hurt(self, lost: Container[str]) -> bool:
        """Whether so many islands were lost that the value may be."""
        return (all if self.is_copied else any)(name in lost for name in self.history)


@dataclass
class Compilation:
    id: int
    devices: tuple[int, ...]
    program: Program | Fused
    ok: bool = False
    gone: bool = False  # its slice was released
    uses: int = 0
