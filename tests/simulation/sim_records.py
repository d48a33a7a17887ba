"""What a simulated client knows of its arrays and executables."""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.failure import Reason

from tests.simulation.sim_arithmetic import Program
from tests.simulation.sim_fused import Fused


@dataclass
class Array:
    """`buffers` name the logical buffer of each shard, `history` the islands that its value depends on.

    `since`: it lies on each of these islands since an epoch, so that any one of them is enough; 0: it was not there.
    """

    id: int
    expected: list[int]
    devices: tuple[int, ...]
    buffers: tuple[int, ...]
    size: int
    history: tuple[str, ...]
    may_fail: tuple[Reason, ...] = ()
    must_fail: Reason | None = None
    since: tuple[tuple[str, int], ...] = ()


@dataclass
class Compilation:
    id: int
    devices: tuple[int, ...]
    program: Program | Fused
    ok: bool = False
    gone: bool = False  # its slice was released
    uses: int = 0
