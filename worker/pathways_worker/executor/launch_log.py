"""The last launches of every session, single executions and nodes of runs alike: written down always, told when somebody asks.

A launch is packed into its session's ring when its time is booked, which costs a fraction of a microsecond; nobody has to say
beforehand that it will ask. What is in flight is told from the window. A session is told its own launches only.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pathways_common.model.bounds import PROGRAM_NAME_MAX
from pathways_common.model.ids import SESSION_SHIFT
from pathways_proto.v1 import workers_pb2

from pathways_worker.executor.clock import wall_ns

if TYPE_CHECKING:
    from pathways_worker.executor.window import Entry

# Of each session; about 120 bytes each, so a megabyte.
LAUNCHES_MAX = 8192
# That are remembered; the one that has not launched for longest goes.
SESSIONS_MAX = 16
# Names of what was loaded last; an executable may be gone while its launches are still asked for.
NAMES_MAX = 16_384
# Execution, executable, sequence, when granted (of a node), handed over from and to, started and finished, node and last node.
_LAUNCH = struct.Struct("<8Q2I")
_PACK = _LAUNCH.pack
_SEQUENCE, _FINISHED = 2, 7


class LaunchLog:
    """What one executor launched."""

    __slots__ = ("_dropped_through", "_names", "_rings")

    def __init__(self) -> None:
        self._rings: dict[int, deque[bytes]] = {}
        self._names: dict[int, str] = {}
        # The highest sequence of any ring that went; whose it was is not remembered.
        self._dropped_through = 0

    def loaded(self, executable_id: int, name: str) -> None:
        """What the launches of an executable are called."""
        if len(self._names) >= NAMES_MAX:
            del self._names[next(iter(self._names))]
        self._names[executable_id] = name[:PROGRAM_NAME_MAX]

    def add(self, entry: Entry, started_ns: int, finished_ns: int) -> None:
        """A launch has ended."""
        try:
            ring = self._rings[entry.execution_id >> SESSION_SHIFT]
        except KeyError:
            ring = self._begin(entry.execution_id >> SESSION_SHIFT)
        ring.append(_packed(entry, started_ns, finished_ns))

    def _begin(self, session: int) -> deque[bytes]:
        if len(self._rings) >= SESSIONS_MAX:
            rings = self._rings
            dropped = rings.pop(min(rings, key=lambda number: _LAUNCH.unpack(rings[number][-1])[_FINISHED]))
            self._dropped_through = max(self._dropped_through, _LAUNCH.unpack(dropped[-1])[_SEQUENCE])
        ring = self._rings[session] = deque(maxlen=LAUNCHES_MAX)
        return ring

    def collect(self, message: Any, epoch: int, in_flight: Iterable[Entry]) -> Callable[[], Any]:
        """What makes the answer to a CollectTrace about a session, on any thread: thousands of rows take some 50 ms."""
        session, after, rows_max = message.session_number, message.after_sequence, message.rows_max or LAUNCHES_MAX
        launches = list(self._rings.get(session, ()))
        lost = len(launches) == LAUNCHES_MAX or after < self._dropped_through
        own = (entry for entry in in_flight if entry.execution_id >> SESSION_SHIFT == session and entry.places)
        launches += [_packed(entry, 0, 0) for entry in own]
        answer = workers_pb2.TraceCollected(trace_id=message.trace_id, epoch=epoch)
        return lambda: self._fill(answer, launches, lost, after, rows_max)

    def _fill(self, answer: Any, launches: list[bytes], lost: bool, after: int, rows_max: int) -> Any:
        """The last launch first; `lost`: those before the first of these are not remembered."""
        found: list[tuple[int, ...]] = []
        for launch in reversed(launches):
            values = _LAUNCH.unpack(launch)
            if values[_SEQUENCE] <= after:
                break
            if len(found) == rows_max:
                answer.forgotten = True
                break
            found.append(values)
        else:
            answer.forgotten = lost
        found.reverse()
        answer.rows.extend(_row(values) for values in found)
        for executable_id in dict.fromkeys(values[1] for values in found):
            answer.executables.add(executable_id=executable_id, name=self._names.get(executable_id, ""))
        return answer


def _packed(entry: Entry, started_ns: int, finished_ns: int) -> bytes:
    row = entry.row
    if row is None:
        return _PACK(
            entry.execution_id, entry.executable_id, entry.sequence, 0, entry.began_ns, entry.handed_ns,
            started_ns, finished_ns, 0, 0,
        )  # fmt: skip
    step: Any = row.step
    return _PACK(
        entry.execution_id, entry.executable_id, entry.sequence, row.granted_ns, entry.began_ns, entry.handed_ns,
        started_ns, finished_ns, step.node, step.last_node,
    )  # fmt: skip


def _row(values: tuple[int, ...]) -> Any:
    execution_id, executable_id, sequence, granted_ns, began_ns, handed_ns, started_ns, finished_ns, node, last_node = values
    return workers_pb2.TraceRow(
        execution_id=execution_id,
        executable_id=executable_id,
        sequence=sequence,
        granted_ns=wall_ns(granted_ns),
        launched_ns=wall_ns(began_ns),
        enqueued_ns=wall_ns(handed_ns),
        started_ns=wall_ns(started_ns),
        finished_ns=wall_ns(finished_ns),
        node=node,
        last_node=last_node,
    )
