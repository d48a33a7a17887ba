"""Profiles of JAX: the cluster's part goes into JAX's own file on its base of time, and whatever goes wrong is only a warning."""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import pytest
from pathways import _jax, _profiling
from pathways._profiling import with_cluster
from pathways._target import Target
from pathways.cli import query
from pathways_common.model.failure import Reason, fail
from pathways_proto.v1 import cluster_pb2, workers_pb2

NOWHERE = Target("127.0.0.1:1", None, "")


@pytest.fixture
def wrapped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """JAX's profiler as in a session with a controller that cannot be reached."""
    monkeypatch.setattr(_profiling, "_POSITIONS_S", 0.5)
    undo = _jax.wrap_profiler(with_cluster(lambda: (NOWHERE, 3)))
    yield
    undo()


def answer(began_ns: int, *sequences: int) -> cluster_pb2.GetTraceResponse:
    rows = [
        workers_pb2.TraceRow(
            sequence=each, executable_id=5, launched_ns=began_ns, started_ns=began_ns, finished_ns=began_ns + 4000
        )
        for each in sequences
    ]
    named = [workers_pb2.TracedExecutable(executable_id=5, name="jit_f")]
    trace = workers_pb2.TraceCollected(epoch=1, rows=rows, executables=named)
    return cluster_pb2.GetTraceResponse(session_number=3, hosts=[cluster_pb2.TraceHost(host="a0", island="a", trace=trace)])


def profile(folder: Path, **options: Any) -> None:
    with jax.profiler.trace(str(folder), **options), jax.profiler.TraceAnnotation("marked"):
        time.sleep(0.01)


def trace_of(folder: Path, name: str = "*.trace.json.gz") -> dict[str, Any]:
    (path,) = folder.glob(f"plugins/profile/*/{name}")
    content: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return content


def test_a_controller_that_is_gone_is_a_warning_and_the_profile_is_jaxs(
    wrapped: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, logger="pathways"):
        profile(tmp_path)
    (record,) = caplog.records
    assert record.getMessage().startswith("a profile of JAX has not all of the cluster in it: no controller answers at grpc://")
    assert "\n" not in record.getMessage()
    assert any(event.get("name") == "marked" for event in trace_of(tmp_path)["traceEvents"])


def test_launches_are_put_on_the_base_of_time_of_jaxs_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    began = []
    monkeypatch.setattr(_profiling._Recording, "positions", lambda _self: {"a": (1, 2 + 2 * len(began))})

    def launches(_self: Any, _stopped: Any, _wait_s: float) -> cluster_pb2.GetTraceResponse:
        return answer(began[0], 3, 4)

    monkeypatch.setattr(_profiling._Recording, "_launches", launches)
    undo = _jax.wrap_profiler(with_cluster(lambda: (NOWHERE, 3)))
    try:
        with jax.profiler.trace(str(tmp_path), create_perfetto_trace=True):
            began.append(time.time_ns())
            with jax.profiler.TraceAnnotation("marked"):
                time.sleep(0.01)
    finally:
        undo()
    assert not caplog.records
    for name in ("*.trace.json.gz", "perfetto_trace.json.gz"):
        events = trace_of(tmp_path, name)["traceEvents"]
        (marked,) = [event for event in events if event.get("name") == "marked"]
        mine = [event for event in events if event.get("cat") == "launches"]
        assert [(event["name"], event["args"]["sequence"], event["dur"]) for event in mine] == [
            ("jit_f", 3, 4.0),
            ("jit_f", 4, 4.0),
        ]
        # Both began when the annotation did; 5 ms is for a busy machine between the two lines.
        assert all(abs(event["ts"] - marked["ts"]) < 5000 for event in mine), (mine, marked)
        assert not {event["pid"] for event in mine} & {
            event["pid"] for event in events if "cat" not in event and event.get("ph") == "X"
        }


def test_what_was_granted_after_the_stop_is_left_out() -> None:
    host = answer(1, 3, 4, 5, 6).hosts[0]
    _profiling._cut(host, {"a": (1, 4)})
    assert [row.sequence for row in host.trace.rows] == [3, 4]
    _profiling._cut(host, {"a": (2, 1)})
    assert len(host.trace.rows) == 2, "positions of another epoch say nothing of these"


@pytest.mark.parametrize("events", [[], [{"ph": "X"}], [{"ph": "X"}, {}]])
def test_events_are_put_in_front_of_any_number_of_others(tmp_path: Path, events: list[dict[str, Any]]) -> None:
    path = tmp_path / "vm.trace.json.gz"
    content = {"displayTimeUnit": "ns", "metadata": {}, "traceEvents": events}
    path.write_bytes(gzip.compress(json.dumps(content, separators=(",", ":")).encode()))
    _profiling._insert(path, [{"ph": "i"}, {"ph": "M"}])
    _profiling._insert(path, [])
    assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"] == [{"ph": "i"}, {"ph": "M"}, *events]
    path.write_bytes(gzip.compress(b"{}"))
    with pytest.raises(ValueError, match="is not written as JAX's traces were so far"):
        _profiling._insert(path, [{"ph": "i"}])
    assert [each.name for each in tmp_path.iterdir()] == ["vm.trace.json.gz"]
    assert gzip.decompress(path.read_bytes()) == b"{}"


def test_gaps_are_named() -> None:
    recording = _profiling._Recording.__new__(_profiling._Recording)
    recording._started = {"a": (1, 0)}
    whole = answer(1, 3)
    assert recording._gaps(whole) == []
    whole.late_hosts.append("a1")
    whole.lost_hosts.append("a2")
    whole.hosts[0].trace.epoch = 2
    whole.hosts[0].trace.forgotten = True
    whole.hosts[0].trace.rows.add(sequence=4)
    assert recording._gaps(whole) == [
        "no answer came from a1 within 2 s",
        "a2 went away, and what they knew with them",
        "the executors of island a were started again meanwhile and know only of later",
        "there were more launches than a0 can tell of, and the first are missing",
        "1 launches had not ended 5 s after the stop",
    ]


def test_a_door_of_somebody_else_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    undo = _jax.wrap_profiler(with_cluster(lambda: None))
    try:
        profile(tmp_path)
    finally:
        undo()
    assert [record.getMessage().partition(": ")[2] for record in caplog.records] == [
        "the door of this process is somebody else's; `pathways trace --session N` shows what it launches"
    ]


def test_an_interrupted_stop_leaves_nothing_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def positions(_self: Any) -> dict[str, tuple[int, int]]:
        asked.append(1)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return {}

    monkeypatch.setattr(_profiling._Recording, "positions", positions)
    undo = _jax.wrap_profiler(with_cluster(lambda: (NOWHERE, 3)))
    try:
        with pytest.raises(KeyboardInterrupt):
            profile(tmp_path)
        assert list(tmp_path.glob("plugins/profile/*/*.xplane.pb")), "JAX's session was not stopped"
        with suppress(RuntimeError):  # a JAX that has no note of it any more
            jax.profiler.stop_trace()
    finally:
        undo()
    profile(tmp_path / "next")


def test_exports_of_other_processes_and_machines_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine, began_ns = socket.gethostname(), time.time_ns()
    earlier = tmp_path / "earlier"
    profile(earlier)
    (run,) = earlier.glob("plugins/profile/*")
    here = tmp_path / "here"
    others = [
        here / "plugins/profile/9999" / machine,
        here / "plugins/profile/9998" / "another",
        here / "plugins/profile/9997" / machine,
    ]

    def positions(_self: Any) -> dict[str, tuple[int, int]]:
        return {"a": (1, 0)}

    def exports(folder: str, exports: Any = _profiling._exports) -> Any:
        """Between our two looks others write theirs, and last; the other machine's began with ours."""
        if (found := exports(folder)) and not others[0].parent.exists():
            for number, other in enumerate(others):
                other.parent.mkdir(parents=True)
                source = next(iter(found)).parent if number == 1 else run
                for suffix in (".trace.json.gz", ".xplane.pb")[: 1 if number == 2 else 2]:
                    shutil.copy(source / f"{machine}{suffix}", f"{other}{suffix}")
                    os.utime(f"{other}{suffix}", (2e9, 2e9))
            found = exports(folder)
        return found

    monkeypatch.setattr(_profiling, "_exports", exports)
    monkeypatch.setattr(_profiling._Recording, "positions", positions)
    monkeypatch.setattr(_profiling._Recording, "_launches", lambda *_: answer(began_ns, 3))
    undo = _jax.wrap_profiler(with_cluster(lambda: (NOWHERE, 3)))
    try:
        profile(here)
    finally:
        undo()
    assert not caplog.records
    with_launches = {
        path.parent.name: any(
            event.get("cat") == "launches" for event in json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        )
        for path in here.glob("plugins/profile/*/*.trace.json.gz")
    }
    assert len(with_launches) == 4
    assert [name for name, found in with_launches.items() if found] == [
        name for name in with_launches if not name.startswith("999")
    ]


def test_a_stop_asks_no_longer_than_its_time_and_keeps_what_it_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    unfinished = answer(1, 3)
    unfinished.hosts[0].trace.rows[0].finished_ns = 0

    def launches(_self: Any, _session: int, _after: Any, timeout_s: float) -> cluster_pb2.GetTraceResponse:
        given.append(timeout_s)
        if len(given) < 3:
            return unfinished
        time.sleep(timeout_s)
        raise fail(Reason.TIMED_OUT, "it did not answer")

    monkeypatch.setattr(query.Controller, "launches", launches)
    monkeypatch.setattr(_profiling._Recording, "positions", lambda _self: {"a": (1, 0)})
    recording = _profiling._Recording((NOWHERE, 3))
    began_s = time.monotonic()
    assert recording._launches({"a": (1, 9)}, 0.5) is unfinished
    assert time.monotonic() - began_s < 1.0
    assert given == sorted(given, reverse=True)
    assert given[2] < given[0] == 0.5


@pytest.mark.parametrize("missing", ["module", "class"])
def test_a_jax_with_another_profiler_keeps_it(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    from jax._src import lib

    if missing == "module":
        monkeypatch.delattr(lib, "_profiler")
    else:
        monkeypatch.delattr(lib._profiler, "ProfilerSession")
    _jax.wrap_profiler(with_cluster(lambda: None))()
