"""One launch: arguments by id, the XLA call, results by id. No host skips a gang alone.

A gang over several hosts whose input failed here is launched with zeros of the same shape and reported; a program of one host
is not launched. What may have failed without anybody knowing yet - results of fallible programs and what was computed from
them - is awaited before it enters a gang, and a fallible gang is awaited before the next gang. Why: XLA skips a computation whose
input is an error, on this host only; the other host's gang then meets this host's next one in the same all-reduce and both return
wrong numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pathways_common.model.failure import Reason

from pathways_worker.executor import runtime
from pathways_worker.executor.element_types import TOKEN, dtype_of
from pathways_worker.executor.failures import FailureMessage, execution_failure, make_failure
from pathways_worker.executor.objects import Objects
from pathways_worker.executor.programs import Program
from pathways_worker.executor.window import Entry, Window

# The controller grants only what is present; bytes that are announced and late are a defect, but not ours to hang on.
ARGUMENT_TIMEOUT_S = 10.0


class Launcher:
    """Launches executions in the order it is called. `report(execution_id, sequence, failure, with_zeros)` tells failures."""

    def __init__(
        self,
        machine: runtime.Runtime,
        objects: Objects,
        report: Callable[[int, int, FailureMessage, bool], None],
        await_fallible: bool = True,
    ) -> None:
        self.programs: dict[int, Program] = {}
        self.launched_gangs = 0
        self.window = Window(self._on_failed)
        self._machine = machine
        self._objects = objects
        self._arrays = objects.arrays
        self._report = report
        self._await_fallible = await_fallible
        # Ids whose value may be an error that nobody has seen, with the launch that tells.
        self._suspects: dict[int, Entry] = {}
        self._fallible_gang: Entry | None = None
        self._nothing: runtime.Array | None = None

    def launch(self, prepare: Any, sequence: int) -> None:
        """Launches one execution; never raises for what a program or its inputs did."""
        self.launched_gangs += 1
        program = self.programs.get(prepare.executable_id)
        if program is None:
            text = f"executable {prepare.executable_id:#x} is not loaded on this host"
            self._fail(prepare, 0, sequence, make_failure(Reason.INTERNAL, text, executable=hex(prepare.executable_id)))
            return
        identifiers = prepare.arguments
        if len(identifiers) != len(program.parameters):
            text = f"program {program.name} takes {len(program.parameters)} arguments, {len(identifiers)} were given"
            self._fail(prepare, program.result_count, sequence, make_failure(Reason.INVALID_ARGUMENT, text))
            return
        suspect: Entry | None = None
        cause: FailureMessage | None = None
        if self._fallible_gang is not None and program.spans_hosts and self._await_fallible:
            self.window.settle(self._fallible_gang)
            self._fallible_gang = None
        if self._suspects:
            suspect = self._suspect_among(identifiers, program.spans_hosts)
        try:
            arguments = [self._arrays[identifier] for identifier in identifiers]
        except KeyError:
            arguments, cause = self._incomplete(program, identifiers)
        if cause is not None and not program.spans_hosts:
            self._fail(prepare, program.result_count, sequence, cause)
            return
        if program.donated and cause is None:
            self._protect(program, arguments, prepare)
        try:
            results = program.execute(arguments, True)
            token = results.consume_token()
            outputs = results.consume_with_handlers(program.handlers)
        except Exception as error:
            self._fail(prepare, program.result_count, sequence, execution_failure(error))
            return
        entry = Entry(prepare.execution_id, sequence, prepare.first_result_id, outputs, token)
        self._keep(program, prepare, entry, suspect is not None)
        if not outputs:
            self._keep_end(prepare, entry)
        if cause is not None:
            self._poison_results(prepare, program.result_count, sequence, cause, with_zeros=True)
        self.window.add(entry)
        if program.callbacks:
            self._collect_callbacks(program, prepare, entry)

    def _keep(self, program: Program, prepare: Any, entry: Entry, suspect: bool) -> None:
        arrays = self._arrays
        identifier = prepare.first_result_id
        for output in entry.outputs:
            arrays[identifier] = output
            identifier += 1
        if program.fallible and program.spans_hosts:
            self._fallible_gang = entry
        if program.fallible or suspect:
            for number in range(prepare.first_result_id, identifier):
                self._suspects[number] = entry
        if program.donated:
            kept = prepare.non_donatable
            for index in program.donated:
                if not kept or index not in kept:
                    arrays.pop(prepare.arguments[index], None)

    def _keep_end(self, prepare: Any, entry: Entry) -> None:
        """A program without outputs has one result without bytes: it tells how the program ended."""
        self.window.settle(entry)
        if entry.failure is not None:
            self._objects.poison(prepare.first_result_id, entry.failure)
            return
        if self._nothing is None:
            self._nothing = self._machine.place([np.zeros((0,), np.bool_)], self._machine.local_devices[:1], "")
        self._arrays[prepare.first_result_id] = self._nothing

    # ---- inputs ----------------------------------------------------------------------------------------------------

    def _suspect_among(self, identifiers: Any, wait: bool) -> Entry | None:
        """The last launch whose failure may be hidden in these inputs; with `wait`, all of them are awaited and told first."""
        last: Entry | None = None
        for identifier in identifiers:
            entry = self._suspects.get(identifier)
            if entry is None:
                continue
            if wait and self._await_fallible:
                self.window.settle(entry)
            if entry.settled:
                self._suspects.pop(identifier, None)
                if entry.failure is not None:
                    self._objects.poison(identifier, entry.failure)
            else:
                last = entry
        return last

    def _incomplete(self, program: Program, identifiers: Any) -> tuple[list[runtime.Array], FailureMessage | None]:
        """Arguments of which at least one is not here: zeros in its place, and the first cause."""
        arguments: list[runtime.Array] = []
        cause: FailureMessage | None = None
        for index, identifier in enumerate(identifiers):
            array = self._arrays.get(identifier)
            if array is None:
                self._objects.wait(identifier, ARGUMENT_TIMEOUT_S)
                array = self._arrays.get(identifier)
            if array is None:
                late = make_failure(Reason.INTERNAL, f"the bytes of buffer {identifier:#x} did not reach this host in time")
                cause = cause or self._objects.failure(identifier) or late
                array = self._zeros(program, index) if program.spans_hosts else None
            arguments.append(array)
        return arguments, cause

    def _zeros(self, program: Program, index: int) -> runtime.Array:
        kind = program.parameters[index]
        token = kind.dtype == TOKEN
        value = np.zeros((0,) if token else kind.shape, np.bool_ if token else dtype_of(kind.dtype))
        return self._machine.place([value] * len(program.devices), program.devices, "")

    def _protect(self, program: Program, arguments: list[runtime.Array], prepare: Any) -> None:
        """Copies what must survive its donation: arguments the caller keeps, and those that somebody still reads."""
        kept = prepare.non_donatable
        if not kept and not self._objects.anything_pinned:
            return
        for index in program.donated:
            if index in kept or self._objects.pinned(arguments[index]):
                arguments[index] = self._machine.copy(arguments[index])

    # ---- failures --------------------------------------------------------------------------------------------------

    def _fail(self, prepare: Any, result_count: int, sequence: int, failure: FailureMessage) -> None:
        """An execution that was not launched here."""
        entry = Entry(prepare.execution_id, sequence, prepare.first_result_id, (), None)
        entry.settled = True
        self.window.add(entry)
        self._poison_results(prepare, result_count, sequence, failure, with_zeros=False)

    def _poison_results(self, prepare: Any, result_count: int, sequence: int, failure: FailureMessage, with_zeros: bool) -> None:
        for identifier in range(prepare.first_result_id, prepare.first_result_id + result_count):
            self._objects.poison(identifier, failure)
        self._report(prepare.execution_id, sequence, failure, with_zeros)

    def _on_failed(self, entry: Entry) -> None:
        """A launch turned out to have failed: its results that are still here get the failure."""
        assert entry.failure is not None
        for identifier, output in enumerate(entry.outputs, entry.first_result_id):
            if self._arrays.get(identifier) is output:
                self._objects.poison(identifier, entry.failure)
        self._report(entry.execution_id, entry.sequence, entry.failure, False)

    def _collect_callbacks(self, program: Program, prepare: Any, entry: Entry) -> None:
        """Waits for the launch, so that a callback's failure is told of the execution that made the call."""
        self.window.settle(entry)
        failures = [failure for stand_in in program.callbacks for failure in stand_in.failures]
        for stand_in in program.callbacks:
            stand_in.failures.clear()
        if failures and entry.failure is None:
            self._poison_results(prepare, program.result_count, entry.sequence, failures[0], with_zeros=False)

    def forget(self, identifiers: Any) -> None:
        """Behind the launches before it: buffers that nobody will name again."""
        self._objects.drop(identifiers)
        if self._suspects:
            for identifier in identifiers:
                self._suspects.pop(identifier, None)

    def view_of(self, view_id: int, sources: Any) -> None:
        """A view or copy of a suspect is one, too."""
        for source in sources:
            entry = self._suspects.get(source)
            if entry is not None:
                self._suspects[view_id] = entry
