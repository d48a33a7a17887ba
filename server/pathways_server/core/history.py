"""What has happened, for `pathways story`: transitions of records, what was logged of them, what held up work and what failed it.

It is noted where records change their state, so nothing is left out, and kept in two bounded rings: work, of which there is much,
does not push out what happens rarely. Notes hold numbers and words, and no record. Nothing is decided by them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, NamedTuple

from pathways_common.model.failure import Failure

from .records import Executable, Execution, Host, Island, Session, Slice
from .run_records import Run
from .transitions import ExecutionState
from .walk_records import Walk

Fields = tuple[tuple[str, str], ...]


class WorkNote(NamedTuple):
    """Of an execution or a run. `what`: the state it got to, words for what it waits for, or what failed it.

    `program` is the number of an executable or the name of a program; `sequence` of an execution is its gang on island `where`.
    """

    at_ns: int
    what: ExecutionState | str | Failure
    id: int
    tenant: str
    program: int | str
    where: str = ""
    epoch: int = 0
    sequence: int = 0
    requested_ns: int = 0


class EventNote(NamedTuple):
    """A log line of the core, or a move of a record that is not logged."""

    at_ns: int
    phrase: str
    fields: Fields


class History:
    """Both rings. Raw tuples go in, since work is noted for every gang; notes come out."""

    def __init__(self, work_max: int, events_max: int) -> None:
        self._work: deque[tuple[Any, ...]] = deque(maxlen=work_max)
        self._events: deque[tuple[int, str, Fields]] = deque(maxlen=events_max)
        self._tenants: dict[int, str] = {}
        self._causes: dict[str, tuple[int, Failure]] = {}
        # What heads of lines were last said to wait for: they are looked at again and again.
        self._blocked: dict[int, str] = {}
        self._named_max = events_max

    # ---- noting -----------------------------------------------------------------------------------------------------

    def logged(self, now_ns: int, phrase: str, fields: Fields) -> None:
        """The core wrote a line to the log."""
        self._events.append((now_ns, phrase, fields))

    def execution_moved(self, now_ns: int, execution: Execution, target: Enum) -> None:
        """An execution was granted, finished or failed."""
        if self._blocked:
            self._blocked.pop(execution.id, None)
        lane = execution.lane
        island = lane.island
        self._work.append((
            now_ns, target, execution.id, lane.session.tenant.name, execution.executable.id, island.name, island.epoch,
            execution.sequence, execution.requested_ns,
        ))  # fmt: skip

    def run_moved(self, now_ns: int, run: Run, target: Enum) -> None:
        """The same of a run, which is that of its walk if it is a piece of one."""
        self._blocked.pop(_id(run), None)
        islands = ",".join(lane.island.name for lane in run.lanes)
        self._work.append((now_ns, target, _id(run), _tenant(run), _program(run), islands, 0, 0, run.requested_ns))

    def session_moved(self, _now_ns: int, session: Session, _target: Enum) -> None:
        """Whose it is, is remembered longer than the session."""
        self._tenants[session.number] = session.tenant.name
        if len(self._tenants) > self._named_max:
            del self._tenants[next(iter(self._tenants))]

    def host_moved(self, now_ns: int, host: Host, target: Enum) -> None:
        """A host entered an epoch, or left it."""
        self._events.append((now_ns, "host is", (("host", host.name), ("state", target.name))))

    def island_moved(self, now_ns: int, island: Island, target: Enum) -> None:
        """An island changed its state."""
        self._events.append(
            (now_ns, "island is", (("island", island.name), ("state", target.name), ("epoch", str(island.epoch))))
        )

    def slice_moved(self, now_ns: int, held: Slice, target: Enum) -> None:
        """A slice was bound, given back, or ended."""
        fields = (("session", str(held.session.number)), ("slice", str(held.request.slice_id)), ("state", target.name))
        self._events.append((now_ns, "slice is", fields))

    def executable_moved(self, now_ns: int, executable: Executable, target: Enum) -> None:
        """A program is loaded, or not any more."""
        fields = (
            ("session", str(executable.session.number)), ("program", str(executable.id)), ("state", target.name),
            ("island", executable.placement.island.name),
        )  # fmt: skip
        self._events.append((now_ns, "program is", fields))

    def blocked(self, now_ns: int, work: Execution | Run, text: str) -> None:
        """The head of a line waits for this. Told again only if it is something else."""
        identifier = _id(work)
        if text and self._blocked.get(identifier) != text:
            if len(self._blocked) >= self._named_max:
                self._blocked.clear()
            self._blocked[identifier] = text
            self._work.append((now_ns, text, identifier, _tenant(work), _program(work), "", 0, 0, work.requested_ns))

    def caused(self, now_ns: int, failure: Failure) -> None:
        """A failure that many may inherit; the first that is told of it is the cause."""
        if failure.id not in self._causes:
            self._causes[failure.id] = now_ns, failure
            if len(self._causes) > self._named_max:
                del self._causes[next(iter(self._causes))]

    def failed(self, now_ns: int, work: Execution | Run, failure: Failure) -> None:
        """Why a piece of work has no results, or not all."""
        self.caused(now_ns, failure)
        self._work.append((now_ns, failure, _id(work), _tenant(work), _program(work), "", 0, 0, work.requested_ns))

    def walk_over(self, now_ns: int, walk: Walk) -> None:
        """A run with branches or loops has ended as a whole."""
        if walk.failure is not None:
            self.caused(now_ns, walk.failure)
        what = walk.failure or ExecutionState.FINISHED
        self._work.append((now_ns, what, walk.id, walk.session.tenant.name, walk.composite.name, "", 0, 0, walk.asked_ns))

    def refused(self, now_ns: int, identifier: int, session: Session, failure: Failure) -> None:
        """A request for work that never got in line."""
        self.caused(now_ns, failure)
        self._work.append((now_ns, failure, identifier, session.tenant.name, "", "", 0, 0, now_ns))

    # ---- looking ----------------------------------------------------------------------------------------------------

    def work(self) -> Iterator[WorkNote]:
        """Notes of work, the oldest first."""
        return (WorkNote(*note) for note in self._work)

    def events(self) -> Iterator[EventNote]:
        """The other notes, the oldest first."""
        return (EventNote(*note) for note in self._events)

    def granted_ns(self, identifier: int) -> int:
        """When this work was granted; 0: not remembered."""
        for note in reversed(self._work):
            if note[2] == identifier and note[1] is ExecutionState.GRANTED:
                return int(note[0])
        return 0

    def cause(self, identifier: str) -> tuple[int, Failure] | None:
        """A failure by its id, and when it was first met; None: not remembered."""
        return self._causes.get(identifier)

    def tenant_of(self, session: int) -> str:
        """Whose session it is or was; empty if that is not remembered."""
        return self._tenants.get(session, "")

    @property
    def since_ns(self) -> int:
        """From here on nothing is missing in either ring; 0: from the start."""
        full = [ring[0][0] for ring in (self._work, self._events) if len(ring) == ring.maxlen]
        return max(full, default=0)


Moved = Callable[[History, int, Any, Any], None]
# The records whose moves are noted. Buffers are not: there are too many, and their work tells the same.
NOTED: dict[type, Moved] = {
    Execution: History.execution_moved,
    Run: History.run_moved,
    Session: History.session_moved,
    Host: History.host_moved,
    Island: History.island_moved,
    Slice: History.slice_moved,
    Executable: History.executable_moved,
}


def _id(work: Execution | Run) -> int:
    return work.id if isinstance(work, Execution) or work.walk is None else work.walk.id


def _tenant(work: Execution | Run) -> str:
    session = work.lane.session if isinstance(work, Execution) else work.definition.session
    return session.tenant.name


def _program(work: Execution | Run) -> int | str:
    if isinstance(work, Execution):
        return work.executable.id
    if work.walk is None:
        return work.plan.name
    return f"{work.walk.composite.name} ({work.label or 'a piece'})"
