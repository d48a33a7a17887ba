"""A trace as a file for Perfetto (the Chrome trace event format): one process per host, one track per kind of work.

Times are microseconds since the first thing that any host remembers. Events of one track never overlap: what runs side by side
gets another track of the same kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

from pathways_common.model.ids import id_text
from pathways_proto.v1 import cluster_pb2, workers_pb2

Event = dict[str, Any]
# Kinds of tracks in the order in which they are shown.
KINDS = ("control", "dispatch", "launches", "moves")
# Names that a launch in place of several nodes lists.
_NAMES_MAX = 6
# Track numbers are kind * this + lane.
_LANES = 1000


def trace_file(answer: cluster_pb2.GetTraceResponse) -> dict[str, Any]:
    """The content of the file, ready for json.dump."""
    origin_ns = first_ns(answer)
    return {
        "traceEvents": host_events(answer, origin_ns, 1),
        "displayTimeUnit": "ms",
        "otherData": {
            "program": answer.program,
            "run": str(answer.execution_id),
            "session": str(answer.session_number),
            "origin_ns": str(origin_ns),
            "requested_ns": str(answer.requested_ns),
            "granted_ns": str(answer.granted_ns),
            "failure": answer.failure.message,
            "late_hosts": ", ".join(answer.late_hosts),
            "lost_hosts": ", ".join(answer.lost_hosts),
        },
    }


def host_events(answer: cluster_pb2.GetTraceResponse, origin_ns: int, first_process: int) -> list[Event]:
    """The tracks of all hosts, numbered from `first_process` on, in microseconds since a moment of the hosts' clocks."""
    names = Names(answer)
    events: list[Event] = []
    for process, traces in enumerate(hosts_of(answer).values(), start=first_process):
        events += _HostTracks(process, traces, names, origin_ns).events()
    return events


def hosts_of(answer: cluster_pb2.GetTraceResponse) -> dict[str, list[cluster_pb2.TraceHost]]:
    """What each host said, of every piece of the run that it was asked about."""
    found: dict[str, list[cluster_pb2.TraceHost]] = {}
    for host in answer.hosts:
        found.setdefault(host.host, []).append(host)
    return found


def pieces_told_of(answer: cluster_pb2.GetTraceResponse) -> int:
    """How many pieces of a run any host remembers."""
    return len({host.trace.execution_id for host in answer.hosts if host.trace.rows})


class Name(NamedTuple):
    """What a row is called, where in a run with loops or branches it is, and the user's line."""

    what: str
    where: str
    source: str


class Names:
    """Names of the rows of one trace."""

    def __init__(self, answer: cluster_pb2.GetTraceResponse) -> None:
        self._nodes = {(node.execution_id, node.node): node for node in answer.nodes}
        self._labels = {piece.execution_id: piece.label for piece in answer.pieces}
        self._executables = {each.executable_id: each.name for host in answer.hosts for each in host.trace.executables}

    def of(self, run: int, row: workers_pb2.TraceRow) -> Name:
        """`run` is the execution id of the run, or of the piece of it."""
        node = self._nodes.get((run, row.node)) if is_launch(row) else None
        return Name(self._what(run, row), self.where(run), node.source if node else "")

    def _what(self, run: int, row: workers_pb2.TraceRow) -> str:
        """What was launched or moved, in words; of a launch in place of several nodes, all their names."""
        if not is_launch(row):
            return "move"
        if row.executable_id:
            return self._executables.get(row.executable_id) or f"executable {id_text(row.executable_id)}"
        names = []
        for number in range(row.node, max(row.node, row.last_node) + 1):
            node = self._nodes.get((run, number))
            names.append(node.name if node and node.name else f"node {number}")
        if not row.last_node:
            return names[0]
        counted = [(name, sum(1 for _ in same)) for name, same in groupby(names)]
        parts = [f"{name} x{count}" if count > 1 else name for name, count in counted]
        if len(parts) > _NAMES_MAX:
            parts = [*parts[: _NAMES_MAX - 1], "...", parts[-1]]
        return f"nodes {row.node}-{row.last_node}: {', '.join(parts)}"

    def where(self, run: int) -> str:
        """Such as "turn 3 of while_loop"."""
        return str(self._labels.get(run, ""))


def first_ns(answer: cluster_pb2.GetTraceResponse) -> int:
    """The earliest time that any host remembers; 0 if there is none."""
    return min((time for host in answer.hosts for time in _times(host.trace) if time), default=0)


def is_launch(row: workers_pb2.TraceRow) -> bool:
    """A launch has a sequence and is a node; node 0 holds the arguments."""
    return bool(row.sequence or row.node)


def begin_ns(row: workers_pb2.TraceRow) -> int:
    """When it began as far as is known: started, else the latest step on the way there; 0 = not at all."""
    return int(row.started_ns or row.enqueued_ns or row.launched_ns or row.granted_ns)


def _times(trace: workers_pb2.TraceCollected) -> Iterator[int]:
    yield trace.received_ns
    yield trace.prepared_ns
    for row in trace.rows:
        yield from (row.granted_ns, row.launched_ns, row.enqueued_ns, row.started_ns, row.finished_ns)


class _HostTracks:
    """The events of one host. `_ends` holds, per kind, where the last event of each of its lanes ends."""

    def __init__(self, process: int, traces: list[cluster_pb2.TraceHost], names: Names, origin_ns: int) -> None:
        self._process = process
        self._traces = traces
        self._host = traces[0]
        self._names = names
        self._origin_ns = origin_ns
        self._ends: dict[str, list[int]] = {kind: [] for kind in KINDS}
        self._events: list[Event] = []

    def events(self) -> list[Event]:
        """Metadata first, then everything in the order of its beginning."""
        for trace in (each.trace for each in self._traces):
            arguments = {"island": self._host.island, "where": self._names.where(trace.execution_id)}
            if trace.received_ns and trace.prepared_ns:
                self._add("control", "prepare", trace.received_ns, trace.prepared_ns, arguments)
            for name, time_ns in (("received", trace.received_ns), ("prepared", trace.prepared_ns)):
                if time_ns:
                    self._add("control", name, time_ns, time_ns, arguments, instant=True)
        rows = [(each.trace.execution_id, row) for each in self._traces for row in each.trace.rows]
        for run, row in sorted(rows, key=lambda pair: begin_ns(pair[1])):
            self._row(run, row)
        self._events.sort(key=lambda event: event["ts"])
        return self._metadata() + self._events

    def _row(self, run: int, row: workers_pb2.TraceRow) -> None:
        launch = is_launch(row)
        what, where, source = self._names.of(run, row)
        begin, finished = begin_ns(row), row.finished_ns
        if not begin and not finished:
            return
        arguments: Event = {
            "step": row.step,
            "node": row.node if launch else None,
            "source": source,
            "where": where,
            "island": self._host.island,
            "sequence": row.sequence,
            "bytes": row.pulled_bytes + row.copied_bytes,
            "pulled_bytes": row.pulled_bytes,
            "copied_bytes": row.copied_bytes,
            "granted_us": self._us(row.granted_ns) if row.granted_ns else None,
            "finished": bool(finished),
        }
        if row.execution_id:
            arguments["execution"] = id_text(row.execution_id)
        if row.last_node:
            arguments["last_node"] = row.last_node
        name = f"{where}: {what}" if where else what
        if launch and row.launched_ns and row.enqueued_ns:
            self._add("dispatch", name, row.launched_ns, row.enqueued_ns, arguments)
        kind = "launches" if launch else "moves"
        self._add(kind, name, begin or finished, finished or begin, arguments, instant=not finished)

    def _add(self, kind: str, name: str, begin_ns: int, end_ns: int, arguments: Event, instant: bool = False) -> None:
        # Clocks may be set back while a program runs.
        end_ns = max(begin_ns, end_ns)
        event: Event = {
            "name": name,
            "cat": kind,
            "ph": "i" if instant else "X",
            "ts": self._us(begin_ns),
            "pid": self._process,
            "tid": self._track(kind, 0 if instant else self._lane(kind, begin_ns, end_ns)),
            "args": arguments,
        }
        if instant:
            event["s"] = "t"
            if not self._ends[kind]:
                self._ends[kind].append(0)
        else:
            event["dur"] = (end_ns - begin_ns) / 1000
        self._events.append(event)

    def _lane(self, kind: str, begin_ns: int, end_ns: int) -> int:
        """The first lane that is free again."""
        ends = self._ends[kind]
        for lane, end in enumerate(ends):
            if end <= begin_ns:
                ends[lane] = end_ns
                return lane
        ends.append(end_ns)
        return len(ends) - 1

    def _us(self, time_ns: int) -> float:
        return (time_ns - self._origin_ns) / 1000

    def _track(self, kind: str, lane: int) -> int:
        return (KINDS.index(kind) + 1) * _LANES + lane

    def _metadata(self) -> list[Event]:
        host = self._host
        made = [self._named(0, "process_name", name=f"{host.host} (island {host.island})")]
        made.append(self._named(0, "process_sort_index", sort_index=self._process))
        for kind in KINDS:
            for lane in range(len(self._ends[kind])):
                track = self._track(kind, lane)
                made.append(self._named(track, "thread_name", name=kind if lane == 0 else f"{kind} {lane + 1}"))
                made.append(self._named(track, "thread_sort_index", sort_index=track))
        return made

    def _named(self, track: int, what: str, **arguments: object) -> Event:
        return {"name": what, "ph": "M", "ts": 0, "pid": self._process, "tid": track, "args": arguments}
