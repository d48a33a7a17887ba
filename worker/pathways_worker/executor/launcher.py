"""One launch: arguments by id, the XLA call, results by id. No host skips a gang alone.

A gang over several hosts whose input failed here, or does not fit, is launched with zeros of the right shape and reported; a
program of one host is not launched. What may have failed without anybody knowing yet - results of fallible programs and what was
computed from them - is awaited before it enters a gang, and a fallible gang is awaited before the next gang. Why: XLA skips a
computation whose input is an error, on this host only; the other host's gang then meets this host's next one in the same
all-reduce and both return wrong numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pathways_common.model.failure import Reason

from pathways_worker.executor import runtime
from pathways_worker.executor.clock import now_ns
from pathways_worker.executor.colocated import PythonProgram
from pathways_worker.executor.device_memory import DeviceMemory
from pathways_worker.executor.element_types import TOKEN, dtype_of
from pathways_worker.executor.failures import FailureMessage, execution_failure, make_failure
from pathways_worker.executor.launch_room import LaunchRoom
from pathways_worker.executor.objects import Objects
from pathways_worker.executor.programs import Program
from pathways_worker.executor.progress import ENTERED, ENTERED_NS, LAUNCHED, Progress
from pathways_worker.executor.python_calls import PythonCalls
from pathways_worker.executor.window import Entry, Window

# The controller grants a single execution only when its arguments are present; bytes that are announced and late are a defect,
# but not ours to hang on.
ARGUMENT_TIMEOUT_S = 10.0


class Launcher:
    """Launches executions and the nodes of runs, in the order it is called.

    `report(execution_id, sequence, failure, with_zeros)` tells failures, `wait(identifier, timeout_s)` waits for a pending value.
    """

    def __init__(
        self,
        machine: runtime.Runtime,
        objects: Objects,
        progress: Progress,
        report: Callable[[int, int, FailureMessage, bool], None],
        wait: Callable[[int, float], None],
        await_fallible: bool = True,
        memory: DeviceMemory | None = None,
        python: PythonCalls | None = None,
    ) -> None:
        self.programs: dict[int, Program | PythonProgram] = {}
        self.launched_gangs = 0
        # Set from another thread when the epoch ends: nothing is launched any more.
        self.closed = False
        # The launch that is carried out right now, and what is donated to it. Its results are not known to be right yet.
        self.in_hand: tuple[Entry, Sequence[int]] | None = None
        self.window = Window(self._on_failed, progress)
        self._machine = machine
        self._objects = objects
        self._arrays = objects.arrays
        self._numbers = progress.numbers
        self._report = report
        self._wait = wait
        self._await_fallible = await_fallible
        self._python = python
        self._room = None if memory is None else LaunchRoom(memory, self.window, objects)
        # Ids whose value may be an error that nobody has seen, with the launch that tells.
        self._suspects: dict[int, Entry] = {}
        self._fallible_gang: Entry | None = None
        self._nothing: runtime.Array | None = None

    def launch_prepared(self, prepare: Any, sequence: int) -> None:
        """Launches what a Prepare names; its results have ids in a row. Never raises for what a program or its inputs did."""
        executable_id = prepare.executable_id
        program = self.programs.get(executable_id)
        if program is None:
            self._not_loaded(Entry(prepare.execution_id, sequence, (), timed=prepare.timed), executable_id)
            return
        if isinstance(program, PythonProgram):
            self._begin(prepare, program, sequence)
            return
        first = prepare.first_result_id
        count = program.result_count
        results = (first,) if count == 1 else range(first, first + count)
        entry = Entry(prepare.execution_id, sequence, results, timed=prepare.timed, executable_id=executable_id)
        self._launch(entry, program, prepare.arguments, prepare.non_donatable, ARGUMENT_TIMEOUT_S)

    def launch_node(
        self, entry: Entry, executable_id: int, arguments: Sequence[int], kept: Sequence[int], timeout_s: float
    ) -> None:
        """Launches one node of a run in the same way. Arguments on their way are waited for, `timeout_s` at most."""
        entry.executable_id = executable_id
        program = self.programs.get(executable_id)
        if program is None:
            self._not_loaded(entry, executable_id)
        elif isinstance(program, PythonProgram):
            self._fail(entry, make_failure(Reason.UNSUPPORTED, f"colocated Python {program.name} cannot be a node of a program"))
        else:
            self._launch(entry, program, arguments, kept, timeout_s)

    def _begin(self, prepare: Any, program: PythonProgram, sequence: int) -> None:
        """Colocated Python has been launched when it is in line; how it ends is told of its results."""
        if self.closed:
            return
        self.launched_gangs += 1
        if self._suspects:
            self._suspect_among(prepare.arguments, True)
        entry = Entry(prepare.execution_id, sequence, (), timed=prepare.timed)
        entry.settled = True
        self._numbers[LAUNCHED] = sequence
        self.window.add(entry)
        assert self._python is not None
        self._python.begin(prepare, program)

    def _launch(self, entry: Entry, program: Program, arguments: Sequence[int], kept: Sequence[int], timeout_s: float) -> None:
        """`kept` are positions of arguments that survive."""
        # In this order: whoever closes looks at what is in hand afterwards.
        self.in_hand = entry, [arguments[index] for index in program.donated if index < len(arguments) and index not in kept]
        if not self.closed:
            self._launch_now(entry, program, arguments, kept, timeout_s)
        self.in_hand = None

    def _launch_now(
        self, entry: Entry, program: Program, arguments: Sequence[int], kept: Sequence[int], timeout_s: float
    ) -> None:
        self.launched_gangs += 1
        if len(arguments) != len(program.parameters):
            text = f"program {program.name} takes {len(program.parameters)} arguments, {len(arguments)} were given"
            self._fail(entry, make_failure(Reason.INVALID_ARGUMENT, text))
            return
        suspect: Entry | None = None
        cause: FailureMessage | None = None
        if self._fallible_gang is not None and program.spans_hosts and self._await_fallible:
            self.window.settle(self._fallible_gang)
            self._fallible_gang = None
        if self._suspects:
            suspect = self._suspect_among(arguments, program.spans_hosts)
        try:
            values = [self._arrays[identifier] for identifier in arguments]
        except KeyError:
            values, cause = self._incomplete(program, arguments, timeout_s)
        if cause is not None and not program.spans_hosts:
            self._fail(entry, cause)
            return
        if self._room is not None:
            # A member that skipped would leave the others waiting: it is launched, and its results are void.
            cause = cause or self._room.against(program, arguments, values, kept)
            if cause is not None and not program.spans_hosts:
                self._fail(entry, cause)
                return
        if self.closed:
            return
        row = entry.row
        self._numbers[ENTERED_NS] = entry.began_ns = began_ns = now_ns()
        self._numbers[ENTERED] = entry.sequence
        if row is not None:
            row.launched_ns = began_ns
        try:
            if program.donated:
                self._protect(program, values, kept)
            try:
                outcome = program.execute(values, True)
            except Exception as error:
                fitting = self._fitting(program, values)
                if fitting is None:
                    raise
                cause = cause or execution_failure(error)
                outcome = program.execute(fitting, True)
            entry.handed_ns = now_ns()
            entry.token = outcome.consume_token()
            outputs = entry.outputs = outcome.consume_with_handlers(program.handlers)
        except Exception as error:
            self._fail(entry, execution_failure(error))
            return
        entry.places = program.places
        self._numbers[LAUNCHED] = entry.sequence
        if row is not None:
            row.enqueued_ns = now_ns()
        self._keep(program, arguments, kept, entry, suspect is not None)
        if self._room is not None:
            self._room.take(program, arguments, kept, entry)
        if not outputs and entry.results:
            self._keep_end(entry.results[0], entry)
        if cause is not None:
            self._poison_results(entry, cause, with_zeros=True)
        self.window.add(entry)
        if program.callbacks:
            self._collect_callbacks(program, entry)

    def _keep(self, program: Program, arguments: Sequence[int], kept: Sequence[int], entry: Entry, suspect: bool) -> None:
        arrays = self._arrays
        for identifier, output in zip(entry.results, entry.outputs):  # noqa: B905 - speed; one of them may be empty
            arrays[identifier] = output
        if program.fallible and program.spans_hosts:
            self._fallible_gang = entry
        if program.fallible or suspect:
            for identifier in entry.results:
                self._suspects[identifier] = entry
        if program.donated:
            for index in program.donated:
                if not kept or index not in kept:
                    arrays.pop(arguments[index], None)
                    if self._objects.views.parts:
                        self._objects.views.forget(arguments[index])

    def _keep_end(self, identifier: int, entry: Entry) -> None:
        """A program without outputs has one result without bytes: it tells how the program ended."""
        self.window.settle(entry)
        if entry.failure is not None:
            self._objects.poison(identifier, entry.failure)
            return
        if self._nothing is None:
            self._nothing = self._machine.place([np.zeros((0,), np.bool_)], self._machine.local_devices[:1], "")
        self._arrays[identifier] = self._nothing

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

    def _incomplete(
        self, program: Program, identifiers: Sequence[int], timeout_s: float
    ) -> tuple[list[runtime.Array], FailureMessage | None]:
        """Arguments of which at least one is not here: zeros in its place, and the first cause."""
        deadline_s = time.monotonic() + timeout_s
        arguments: list[runtime.Array] = []
        cause: FailureMessage | None = None
        for index, identifier in enumerate(identifiers):
            array = self._arrays.get(identifier)
            if array is None:
                self._wait(identifier, deadline_s - time.monotonic())
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

    def _fitting(self, program: Program, arguments: Sequence[runtime.Array]) -> list[runtime.Array] | None:
        """Zeros for the arguments of a gang that XLA refuses before it launches anything; None if that was not why it refused.

        The controller knows no types, and a view may join shards of arrays that differ: on other hosts the same argument fits.
        """
        if not program.spans_hosts:
            return None
        fitting = list(arguments)
        for index, (array, kind) in enumerate(zip(arguments, program.parameters, strict=True)):
            if kind.dtype != TOKEN and (tuple(array.shape) != tuple(kind.shape) or array.dtype != dtype_of(kind.dtype)):
                fitting[index] = self._zeros(program, index)
        return fitting if any(mine is not given for mine, given in zip(fitting, arguments, strict=True)) else None

    def _protect(self, program: Program, arguments: list[runtime.Array], kept: Sequence[int]) -> None:
        """Copies what must survive its donation: arguments the caller keeps, and those that somebody still reads."""
        if not kept and not self._objects.anything_pinned:
            return
        for index in program.donated:
            if index in kept or self._objects.pinned(arguments[index]):
                arguments[index] = self._machine.copy(arguments[index])

    # ---- failures --------------------------------------------------------------------------------------------------

    def _not_loaded(self, entry: Entry, executable_id: int) -> None:
        self.launched_gangs += 1
        text = f"executable {executable_id:#x} is not loaded on this host"
        self._fail(entry, make_failure(Reason.INTERNAL, text, executable=hex(executable_id)))

    def _fail(self, entry: Entry, failure: FailureMessage) -> None:
        """An execution that was not launched here."""
        self._numbers[LAUNCHED] = entry.sequence
        entry.settled = True
        self.window.add(entry)
        self._poison_results(entry, failure, with_zeros=False)

    def _poison_results(self, entry: Entry, failure: FailureMessage, with_zeros: bool) -> None:
        for identifier in entry.results:
            self._objects.poison(identifier, failure)
        self._report(entry.execution_id, entry.sequence, failure, with_zeros)

    def _on_failed(self, entry: Entry) -> None:
        """A launch turned out to have failed: its results that are still here get the failure."""
        assert entry.failure is not None
        for identifier, output in zip(entry.results, entry.outputs, strict=False):
            if self._arrays.get(identifier) is output:
                self._objects.poison(identifier, entry.failure)
        self._report(entry.execution_id, entry.sequence, entry.failure, False)

    def _collect_callbacks(self, program: Program, entry: Entry) -> None:
        """Waits for the launch, so that a callback's failure is told of the execution that made the call."""
        self.window.settle(entry)
        failures = [failure for stand_in in program.callbacks for failure in stand_in.failures]
        for stand_in in program.callbacks:
            stand_in.failures.clear()
        if failures and entry.failure is None:
            self._poison_results(entry, failures[0], with_zeros=False)

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
