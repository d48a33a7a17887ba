"""The cluster's part of a profile of JAX: what the executors of all hosts launched for this session while JAX's profiler ran.

JAX exports its own files as always. Then a track per host is put into its `*.trace.json.gz`, on the base of time that the export
names. Which launches belong to the profile is told by positions in the orders of islands, not by clocks: those that were granted
between start and stop. What cannot be had is one warning and never an error of the script; every wait has a deadline.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathways import _jax

if TYPE_CHECKING:
    from pathways_proto.v1 import cluster_pb2

    from pathways._target import Target

_LOG = logging.getLogger("pathways")
# The controller answers at once; its hosts get 2 s, and launches that are on their way when the profile stops get the rest.
_POSITIONS_S = 2.0
_LAUNCHES_S = 5.0
_PAUSE_S = 0.02
# JAX's processes have small numbers, and are shown first.
_PROCESSES_FROM = 1_000_001
_BEGIN = b'"traceEvents":['
_HEAD_BYTES = 1 << 20
# Names of islands and the epoch and sequence up to which they have granted.
Positions = dict[str, tuple[int, int]]
Session = Callable[[], "tuple[Target, int] | None"]


def with_cluster(session: Session) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Wraps the constructor of JAX's profiler sessions. `session()` is where the controller is, and the number of the session."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def profiler_session(*arguments: Any, **options: Any) -> Any:
            try:
                recording = _Recording(session())
            except Exception as error:
                _warn(error)
                return original(*arguments, **options)
            return _ProfilerSession(original(*arguments, **options), recording)

        return profiler_session

    return wrap


def _warn(error: object) -> None:
    _LOG.warning("%s", f"a profile of JAX has not all of the cluster in it: {error}")


class _ProfilerSession:
    """One of JAX's, whose export has the hosts in it."""

    def __init__(self, own: Any, recording: _Recording) -> None:
        self._own = own
        self._recording = recording

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def stop_and_export(self, folder: str) -> None:
        """As JAX's; what the cluster adds never fails."""
        stopped: Positions | None = None
        try:
            stopped = self._recording.positions()
        except Exception as error:
            _warn(error)
        before = _exports(folder)
        self._own.stop_and_export(folder)
        if stopped is None:
            return
        try:
            self._recording.add_to(folder, before, stopped)
        except Exception as error:
            _warn(error)


class _Recording:
    """What a session launches from now on."""

    def __init__(self, session: tuple[Target, int] | None) -> None:
        if session is None:
            raise ValueError("the door of this process is somebody else's; `pathways trace --session N` shows what it launches")
        self._target, self._session = session
        self._started = self.positions()

    def positions(self) -> Positions:
        """How far every island has granted."""
        from pathways.cli.query import Controller

        with Controller(self._target.controller, self._target.token) as controller:
            status = controller.status(_POSITIONS_S)
        return {island.name: (island.epoch, island.granted_through) for island in status.islands}

    def add_to(self, folder: str, before: dict[Path, int], stopped: Positions) -> None:
        """Puts the launches between start and stop into what JAX has exported since `before`."""
        from pathways.cli.trace_file import host_events

        made = [(changed_ns, path) for path, changed_ns in _exports(folder).items() if before.get(path) != changed_ns]
        if not made:
            raise ValueError(f"JAX wrote no trace below {folder} on this machine that it could be put into")
        path = max(made)[1]
        origin_ns = _jax.profile_start_ns(path.with_name(path.name.replace(".trace.json.gz", ".xplane.pb")))
        answer = self._launches(stopped)
        _insert(path, host_events(answer, origin_ns, _PROCESSES_FROM))
        gaps = self._gaps(answer)
        if gaps:
            raise ValueError("; ".join(gaps))

    def _launches(self, stopped: Positions) -> cluster_pb2.GetTraceResponse:
        """Asks until all launches have ended, or the time is over: who reads a value waits for one host alone."""
        from pathways.cli.query import Controller

        deadline_s = time.monotonic() + _LAUNCHES_S
        pause_s = _PAUSE_S
        with Controller(self._target.controller, self._target.token) as controller:
            while True:
                answer = controller.launches(self._session, self._started, _LAUNCHES_S)
                for host in answer.hosts:
                    _cut(host, stopped)
                left_s = deadline_s - time.monotonic()
                over = all(row.finished_ns for host in answer.hosts for row in host.trace.rows)
                if over or answer.late_hosts or left_s <= 0:
                    return answer
                time.sleep(min(pause_s, left_s))
                pause_s *= 2

    def _gaps(self, answer: cluster_pb2.GetTraceResponse) -> list[str]:
        """What is missing and why."""
        found = []
        if answer.late_hosts:
            found.append(f"no answer came from {', '.join(answer.late_hosts)} within 2 s")
        if answer.lost_hosts:
            found.append(f"{', '.join(answer.lost_hosts)} went away, and what they knew with them")
        again = {host.island for host in answer.hosts if self._started.get(host.island, (0, 0))[0] != host.trace.epoch}
        if again:
            found.append(
                f"the executors of island {', '.join(sorted(again))} were started again meanwhile and know only of later"
            )
        forgotten = [host.host for host in answer.hosts if host.trace.forgotten]
        if forgotten:
            found.append(f"there were more launches than {', '.join(forgotten)} can tell of, and the first are missing")
        unfinished = sum(not row.finished_ns for host in answer.hosts for row in host.trace.rows)
        if unfinished:
            found.append(f"{unfinished} launches had not ended {_LAUNCHES_S:g} s after the stop")
        return found


def _cut(host: cluster_pb2.TraceHost, stopped: Positions) -> None:
    """Takes off what was granted after the stop."""
    epoch, sequence = stopped.get(host.island, (0, 0))
    rows = host.trace.rows
    while rows and host.trace.epoch == epoch and rows[-1].sequence > sequence:
        del rows[-1]


def _exports(folder: str) -> dict[Path, int]:
    """JAX's traces for viewers below a folder, and when each was written."""
    found = {}
    for path in Path(folder).glob("plugins/profile/*/*.trace.json.gz"):
        try:
            found[path] = path.stat().st_mtime_ns
        except OSError:
            continue
    return found


def _insert(path: Path, events: Iterable[dict[str, Any]]) -> None:
    """Puts events in front of those of a trace, which may be too large to be held."""
    added = json.dumps(list(events))[1:-1].encode()
    part = path.with_name(path.name + ".part")
    try:
        with gzip.open(path, "rb") as source, gzip.open(part, "wb", compresslevel=6) as target:
            head, begin, rest = source.read(_HEAD_BYTES).partition(_BEGIN)
            if not begin:
                raise ValueError(f"{path} is not written as JAX's traces were so far, so nothing was put into it")
            comma = b"" if not added or rest.lstrip().startswith(b"]") else b","
            target.write(head + begin + added + comma + rest)
            shutil.copyfileobj(source, target)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
