"""The executables of one epoch: programs are loaded, inspected and let go of beside launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pathways_worker.executor.callbacks import CallbackChannel, CallbackStandIn
from pathways_worker.executor.completion import Lane
from pathways_worker.executor.launcher import Launcher
from pathways_worker.executor.loader import AnyProgram, Loader
from pathways_worker.executor.loading import carry_out
from pathways_worker.executor.programs import inspected
from pathways_worker.executor.progress import Progress
from pathways_worker.executor.reports import Reports
from pathways_worker.executor.runtime import Runtime


class Executables:
    """What can be launched, and what is on its way to be. All methods are for the dispatcher.

    `ffi_targets`: what the host's libraries let programs call, and whether it cannot fail. `python`: colocated Python is run.
    """

    def __init__(
        self,
        machine: Runtime,
        launcher: Launcher,
        callbacks: CallbackChannel,
        progress: Progress,
        reports: Reports,
        ffi_targets: Mapping[str, bool],
        python: bool,
    ) -> None:
        self._machine = machine
        self._launcher = launcher
        self._callbacks = callbacks
        self._reports = reports
        self._ffi_targets = ffi_targets
        self._python = python
        self._loader = Loader(
            launcher.programs,
            self._carry_out,
            lambda load: machine.tunes_with_others(load.devices),
            progress,
            lambda answer: reports.post(loaded=answer),
        )
        # The text of a large program takes seconds.
        self._inspections = Lane("inspections")

    def load(self, message: Any) -> None:
        """Begins a Load when its session has its turn."""
        self._loader.load(message)

    def unload(self, message: Any) -> None:
        """Nothing of these is launched any more."""
        self._loader.unload(message.executable_ids)

    def held(self) -> list[int]:
        """Executables that are here or will be."""
        return self._loader.held()

    def inspect(self, message: Any) -> None:
        """Answers what an Inspect asks of a program that is loaded."""
        program = self._launcher.programs.get(message.executable_id)
        self._inspections.put(lambda: self._reports.post(inspected=inspected(program, message)))

    def _carry_out(self, load: Any) -> tuple[AnyProgram | None, Any]:
        def stand_in(callback_id: int, types: Sequence[Any]) -> CallbackStandIn:
            return CallbackStandIn(self._callbacks, load.executable_id, callback_id, types)

        program, answer = carry_out(self._machine, load, stand_in, self._ffi_targets, self._python)
        if program is not None:
            self._launcher.window.log.loaded(load.executable_id, program.name)
        return program, answer
