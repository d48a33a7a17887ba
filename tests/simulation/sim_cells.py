"""What a simulated executor holds: shards that come later, and gangs that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pathways_common.model.failure import Failure
from pathways_server.core import effects as out

from tests.simulation.sim_arithmetic import Program
from tests.simulation.sim_fused import Fused


class Cell:
    """One shard: a value or a failure that may come later."""

    def __init__(self) -> None:
        self.value: int | None = None
        self.failure: Failure | None = None
        self.listeners: list[Callable[[], None]] = []

    @property
    def ready(self) -> bool:
        return self.value is not None or self.failure is not None

    def resolve(self, value: int | None, failure: Failure | None) -> None:
        if self.ready:
            return
        self.value, self.failure = value, failure
        listeners, self.listeners = self.listeners, []
        for listener in listeners:
            listener()

    def poison(self, failure: Failure) -> None:
        if self.ready:
            self.failure = failure
        else:
            self.resolve(None, failure)

    def when_ready(self, action: Callable[[], None]) -> None:
        if self.ready:
            action()
        else:
            self.listeners.append(action)


@dataclass(eq=False)
class Gang:
    prepare: out.Prepare
    program: Program | Fused
    devices: tuple[int, ...]
    session: int
    callback_id: int
    arguments: list[list[Cell]]
    results: list[list[Cell]]
    failure: Failure | None = None
    # Filled by sim_memory.py: what its results are called, and what it takes besides them while it runs.
    result_ids: tuple[int, ...] = ()
    besides: tuple[tuple[int, int], ...] = ()
    bases: dict[int, tuple[int, ...]] = field(default_factory=dict)
