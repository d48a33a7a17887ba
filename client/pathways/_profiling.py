"""The cluster's part of a profile of JAX: what the executors of all hosts launched for this session while JAX's profiler ran.

JAX exports its own files as always. Then a track per host is put into its `*.trace.json.gz`, on the base of time that the export
names. Which launches belong to the profile is told by positions in the orders of islands, not by clocks: those that were granted
between start and stop. What cannot be had is one warning and never an error of the script; every wait has a deadline.
"""

from __future__ import annotations

import glob
import gzip
import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pathways_common.model.failure import PathwaysError

from pathways import _jax

if TYPE_CHECKING:
    from pathways_proto.v1 import cluster_pb2

    from pathways._target import Target

_LOG = logging.getLogger("pathways")
# The controller answers at once; its hosts get 2 s. No stop is made longer than this, with all its questions.
_POSITIONS_S = 2.0
_STOP_S = 5.0
_PAUSE_S = 0.02
# JAX's processes have small numbers, and are shown first.
_PROCESSES_FROM = 1_000_001
_SUFFIX = ".trace.json.gz"
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
            before_ns = time.time_ns()
            own = original(*arguments, **options)
            return _ProfilerSession(own, recording, range(before_ns, time.time_ns() + 1))

        return profiler_session

    return wrap


def _warn(error: object) -> None:
    _LOG.warning("%s", f"a profile of JAX has not all of the cluster in it: {error}")


class _ProfilerSession:
    """One of JAX's, whose export has the hosts in it."""

    def __init__(self, own: Any, recording: _Recording, begun_ns: range) -> None:
        self._own = own
        self._recording = recording
        # JAX's profile began in it, by this machine's clock.
        self._begun_ns = begun_ns

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def stop_and_export(self, folder: str) -> None:
        """As JAX's; what the cluster adds never fails."""
        stopped: Positions | None = None
        before: dict[Path, int] = {}
        began_s = time.monotonic()
        try:
            before = _exports(folder)
            stopped = self._recording.positions()
        except Exception as error:
            _warn(error)
        finally:  # also behind Ctrl-C: nobody could profile in this process again
            wait_s = _STOP_S - (time.monotonic() - began_s)
            self._own.stop_and_export(folder)
        if stopped is None:
            return
        try:
            path, origin_ns = _own_export(folder, before, self._begun_ns)
            self._recording.add_to(path, origin_ns, stopped, wait_s)
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

    def add_to(self, path: Path, origin_ns: int, stopped: Positions, wait_s: float) -> None:
        """Puts the launches between start and stop into JAX's export; those on their way have so long to end."""
        from pathways.cli.trace_file import host_events

        answer = self._launches(stopped, wait_s)
        _insert(path, host_events(answer, origin_ns, _PROCESSES_FROM))
        gaps = self._gaps(answer)
        if gaps:
            raise ValueError("; ".join(gaps))

    def _launches(self, stopped: Positions, wait_s: float) -> cluster_pb2.GetTraceResponse:
        """Asks until all launches have ended, or the time is over: who reads a value waits for one host alone."""
        from pathways.cli.query import Controller

        deadline_s, left_s = time.monotonic() + wait_s, wait_s
        pause_s = _PAUSE_S
        answer: cluster_pb2.GetTraceResponse | None = None
        with Controller(self._target.controller, self._target.token) as controller:
            while True:
                try:
                    answer = controller.launches(self._session, self._started, left_s)
                except PathwaysError:
                    if answer is None:
                        raise
                    return answer  # what was told before is better than nothing
                for host in answer.hosts:
                    _cut(host, stopped)
                left_s = deadline_s - time.monotonic()
                over = all(row.finished_ns for host in answer.hosts for row in host.trace.rows)
                if over or answer.late_hosts or left_s <= 0:
                    return answer
                time.sleep(min(pause_s, left_s))
                left_s = max(deadline_s - time.monotonic(), 0.0)
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
            found.append(f"{unfinished} launches had not ended {_STOP_S:g} s after the stop")
        return found


def _cut(host: cluster_pb2.TraceHost, stopped: Positions) -> None:
    """Takes off what was granted after the stop."""
    epoch, sequence = stopped.get(host.island, (0, 0))
    rows = host.trace.rows
    while rows and host.trace.epoch == epoch and rows[-1].sequence > sequence:
        del rows[-1]


def _exports(folder: str) -> dict[Path, int]:
    """JAX's traces for viewers that this machine has below a folder, and when each was written."""
    found = {}
    for path in Path(folder).glob(f"plugins/profile/*/{glob.escape(socket.gethostname())}{_SUFFIX}"):
        try:
            found[path] = path.stat().st_mtime_ns
        except OSError:
            continue
    return found


def _own_export(folder: str, before: dict[Path, int], begun_ns: range) -> tuple[Path, int]:
    """The trace of the profile that began then, and when it did: other processes may export to the same folder meanwhile."""
    found = []
    for path in [path for path, changed_ns in _exports(folder).items() if before.get(path) != changed_ns]:
        try:
            origin_ns = _jax.profile_start_ns(path.with_name(path.name.removesuffix(_SUFFIX) + ".xplane.pb"))
        except Exception:
            continue  # half of somebody else's, or not written as JAX's were so far
        if origin_ns in begun_ns:
            found.append((path, origin_ns))
    if len(found) > 1:
        raise ValueError(f"processes of this machine that began at the same time wrote {len(found)} traces below {folder}")
    if not found:
        raise ValueError(f"JAX wrote no trace below {folder} on this machine that it could be put into")
    return found[0]


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
