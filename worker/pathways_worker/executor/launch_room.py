"""Room for launches on devices with a limit: results, temporary bytes, and the copies that spare donated arguments.

What is in flight ends by itself, so a launch that does not fit waits for those before it, as it would in a device's own queue;
if it still does not fit then, it is refused. Nothing waits for what comes later.
"""

from __future__ import annotations

from collections.abc import Sequence

from pathways_worker.executor import runtime
from pathways_worker.executor.device_memory import DeviceMemory
from pathways_worker.executor.failures import FailureMessage
from pathways_worker.executor.objects import Objects
from pathways_worker.executor.programs import Program
from pathways_worker.executor.window import Entry, Window


class LaunchRoom:
    """Asked before each launch, and told of it."""

    def __init__(self, memory: DeviceMemory, window: Window, objects: Objects) -> None:
        self._memory = memory
        self._window = window
        self._objects = objects

    def against(
        self, program: Program, arguments: Sequence[int], values: Sequence[runtime.Array], kept: Sequence[int]
    ) -> FailureMessage | None:
        """Why a launch does not fit, also when everything before it has ended; None if it does."""
        given_up = sum(
            program.parameter_bytes[index]
            for index in program.donated
            if index not in kept and self._memory.charged(arguments[index]) and not self._objects.pinned(values[index])
        )
        needed_bytes = sum(program.result_bytes) - given_up + program.info.memory.temporary_bytes
        sizes = [(device, needed_bytes) for device in program.local_indices]
        while (failure := self._memory.against(f"program {program.name}", sizes)) is not None:
            if not self._window.settle_oldest():
                return failure
        return None

    def take(self, program: Program, arguments: Sequence[int], kept: Sequence[int], entry: Entry) -> None:
        """The program is launched: its arguments that were donated are gone, its results are there."""
        if program.donated:
            self._memory.release([arguments[index] for index in program.donated if index not in kept])
        for identifier, size_bytes in zip(entry.results, program.result_bytes, strict=False):
            self._memory.charge(identifier, [(device, size_bytes) for device in program.local_indices])
        temporary_bytes = program.info.memory.temporary_bytes
        if temporary_bytes:
            entry.free = self._memory.hold([(device, temporary_bytes) for device in program.local_indices])
