"""What a controller writes down for its next life: whole or not at all, before it acts, and read by nobody else."""

from __future__ import annotations

import asyncio
import os
import tracemalloc
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

import pytest
from pathways_common.model.bounds import LOG_BYTES_MIN
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import IslandName, SessionNumber
from pathways_proto.v1 import workers_pb2
from pathways_server.app import App
from pathways_server.config import Config
from pathways_server.core import events
from pathways_server.core.config import CoreConfig
from pathways_server.core.records import Ground, Island, Placement
from pathways_server.core.state import State
from pathways_server.rpc.attached import LinkTerms
from pathways_server.rpc.workers import WorkersService
from pathways_server.shell.counters import Counters
from pathways_server.shell.event_log import EventLog, Kind, Record
from pathways_server.shell.fingerprint import fingerprint
from pathways_server.shell.loop import Loop
from pathways_server.shell.object_graph import dumps, loads
from pathways_server.shell.programs import Programs
from prometheus_client import Histogram

from tests.unit.server_shell.scripted_core import ScriptedCore

BUILD = "this build"


def records(directory: Path, build: str = BUILD) -> list[Record]:
    return list(EventLog(directory, build).read())


# ---- the file -------------------------------------------------------------------------------------------------------


def test_what_was_flushed_is_read_and_what_was_not_is_not(tmp_path: Path) -> None:
    log = EventLog(tmp_path, BUILD)
    log.begin(5, b"snapshot")
    log.add(Kind.SLICE, 7, 3, 2)
    log.add(Kind.HOST_FRAME, 8, 4, payload=b"frame")
    log.flush()
    log.add(Kind.TICK, 9)
    expected = [
        Record(Kind.SNAPSHOT, 5, 0, 0, b"snapshot"), Record(Kind.SLICE, 7, 3, 2, b""), Record(Kind.HOST_FRAME, 8, 4, 0, b"frame"),
    ]  # fmt: skip
    assert records(tmp_path) == expected


def test_a_write_that_was_cut_off_anywhere_is_as_if_it_had_not_been(tmp_path: Path) -> None:
    log = EventLog(tmp_path, BUILD)
    log.begin(1, b"snapshot")
    before = log.paths()[0].stat().st_size
    log.add(Kind.EVENTS, 2, payload=b"some events")
    log.add(Kind.TICK, 3)
    log.flush()
    (path,) = log.paths()
    whole = path.read_bytes()
    for length in range(before, len(whole)):
        path.write_bytes(whole[:length])
        assert [record.kind for record in records(tmp_path)] == [Kind.SNAPSHOT], length
    path.write_bytes(whole[:-1] + bytes((whole[-1] ^ 1,)))
    assert [record.kind for record in records(tmp_path)] == [Kind.SNAPSHOT], "a byte that is wrong was believed"
    path.write_bytes(whole)
    assert [record.kind for record in records(tmp_path)] == [Kind.SNAPSHOT, Kind.EVENTS, Kind.TICK]


def test_another_build_reads_nothing(tmp_path: Path) -> None:
    EventLog(tmp_path, "another build").begin(1, b"snapshot")
    with pytest.raises(ValueError, match="another build"):
        records(tmp_path)


def test_the_log_is_bounded_by_new_snapshots_and_the_old_file_stays_until_then(tmp_path: Path) -> None:
    log = EventLog(tmp_path, BUILD)
    log.begin(1, b"first")
    while not log.full:
        log.add(Kind.HOST_FRAME, 2, 1, payload=bytes(1 << 16))
        log.flush()
    (old,) = log.paths()
    assert LOG_BYTES_MIN < old.stat().st_size < LOG_BYTES_MIN + (1 << 18)
    log.begin(3, b"second")
    assert not log.full
    assert [record.payload for record in records(tmp_path)] == [b"second"]
    assert [path.name for path in tmp_path.iterdir()] == [log.paths()[0].name]


def test_a_snapshot_that_was_not_finished_is_not_read(tmp_path: Path) -> None:
    EventLog(tmp_path, BUILD).begin(1, b"first")

    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        EventLog(tmp_path, BUILD, killed).begin(2, b"second")
    assert [record.payload for record in records(tmp_path)] == [b"first"]


def test_a_log_that_cannot_be_written_is_given_up_and_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = EventLog(tmp_path, BUILD)
    log.begin(1, b"snapshot")

    def full(_file: int, _data: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        log.add(Kind.TICK, 2)
        log.flush()
    assert not log.kept
    log.add(Kind.TICK, 3)
    log.flush()
    assert records(tmp_path) == []
    assert not log.full


@pytest.mark.parametrize(("owner", "name"), [(os, "open"), (Path, "rename")])
def test_a_log_that_cannot_be_begun_anew_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str
) -> None:
    log = EventLog(tmp_path, BUILD)
    log.begin(1, b"snapshot")

    def full(*_arguments: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, full)
        log.begin(2, b"another")
    assert not log.kept
    assert records(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_controller_starts_as_new_behind_a_log_of_another_build(tmp_path: Path) -> None:
    EventLog(tmp_path, "another build").begin(1, b"snapshot")

    async def scenario() -> None:
        app = App(Config(listen="127.0.0.1:0", state_dir=tmp_path, metrics_port=-1))
        await app.start()
        assert not app.loop.sessions
        assert [record.kind for record in EventLog(tmp_path, fingerprint()).read()][:1] == [Kind.SNAPSHOT]
        app.stop("over")
        await app.run()

    asyncio.run(scenario())


def test_a_life_that_writes_no_log_leaves_none_of_an_earlier_life_to_a_later_one(tmp_path: Path) -> None:
    EventLog(tmp_path, fingerprint()).begin(1, b"snapshot")

    async def scenario() -> None:
        app = App(Config(listen="127.0.0.1:0", state_dir=tmp_path, metrics_port=-1, orphan_ns=0))
        await app.start()
        assert records(tmp_path, fingerprint()) == []
        app.stop("over")
        await app.run()

    asyncio.run(scenario())


# ---- objects --------------------------------------------------------------------------------------------------------


def again(value: Any) -> Any:
    return loads(dumps(value))


def test_cycles_shared_records_and_keys_by_content_come_back_as_they_were() -> None:
    state = State(CoreConfig())
    island = Island("a", Ground("a"))  # type: ignore[arg-type]
    state.islands[island.name] = island
    placement = Placement(island, (0, 1))
    island.placements[(0, 1), ()] = placement
    failure = Failure(Reason.BUFFER_LOST, "gone", metadata=MappingProxyType({"size": "8"}))
    detached = events.SessionDetached(SessionNumber(3), "why")
    value = (state, placement, {(detached, 1): failure}, deque([1, 2], 2))
    found, same, told, last = again(value)
    assert found.islands["a"].placements[(0, 1), ()] is same
    assert same.island is found.islands["a"]
    assert isinstance(found.islands["a"].placements, WeakValueDictionary)
    assert told == {(detached, 1): failure}
    assert type(told[detached, 1].metadata) is MappingProxyType
    assert (last, last.maxlen) == (deque([1, 2]), 2)
    assert found.config == state.config


def test_to_write_a_graph_takes_less_than_eleven_times_the_room_of_its_text() -> None:
    # All its nodes as lists at once, and the text behind them, are fifteen times.
    root = {number: (number, "name", [number, (number, number)]) for number in range(30_000)}
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        text = dumps(root)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert loads(text) == root
    assert peak < 11 * len(text), peak / len(text)


@pytest.mark.parametrize("value", [b"\x00\xff", float("inf"), 1 << 80, "ä\ud800", None, True, frozenset({3}), {1, 2}, [[]], ()])
def test_plain_values_keep_their_kind(value: Any) -> None:
    found = again(value)
    assert (type(found), found) == (type(value), value)


@dataclass
class Foreign:
    field: list[int] = field(default_factory=list)


def test_only_classes_of_the_core_and_the_model_are_written_or_read() -> None:
    for value in (Foreign(), print, open):
        with pytest.raises(TypeError, match="cannot be kept"):
            dumps([value])
    for name in ("os:system", "subprocess:Popen", "pathways_server.app:App"):
        with pytest.raises(ValueError, match="is not read"):
            loads(f'[[0],["{name}"]]'.encode())
    with pytest.raises(ValueError, match="no class"):
        loads(b'[[0],["pathways_server.core.controller:leases.on_link_event"]]')


# ---- before it acts -------------------------------------------------------------------------------------------------


class Encoding:
    def command(self, command: Any) -> bytes:
        raise AssertionError(command)

    def forget_last(self) -> None:
        pass


def frame_of(sequence: int) -> bytes:
    missing = workers_pb2.HostEvent(missing=workers_pb2.Missing(epoch=1, sequence=sequence))
    return workers_pb2.WorkerFrame(sequence=sequence, incarnation=1, events=[missing]).SerializeToString()


def test_a_host_is_told_that_a_frame_came_only_when_that_is_written(tmp_path: Path) -> None:
    async def scenario() -> None:
        core, log = ScriptedCore(), EventLog(tmp_path, BUILD)
        histogram = Histogram("turn", "", registry=None)
        defects: list[BaseException] = []
        loop = Loop(core, Encoding(), Programs(), Counters(), histogram, tmp_path, defects.append, log)  # type: ignore[arg-type]
        workers = WorkersService(loop, Counters(), lambda: 1, LinkTerms(1, 10**9, 10**9), "")
        hello = workers_pb2.WorkerHello(host="a0", island="a", device_count=1, data_address="127.0.0.1:1", resumable=True)
        stream = workers.admit(workers_pb2.WorkerFrame(hello=hello).SerializeToString(), lambda peer: peer.attach(lambda: None))
        assert not isinstance(stream, bytes)
        loop.settle()
        loop.snapshot = lambda: b"snapshot"
        loop.keep()
        written: list[int] = []
        for sequence in (1, 2, 3):
            stream.take(frame_of(sequence))
            assert stream.peer.link.received == sequence - 1, "it is accepted and nowhere written down"
            loop.settle()
            assert stream.peer.link.received == sequence
            written = [record.number or record.whom for record in records(tmp_path) if record.kind is Kind.HOST_FRAME]
            assert len(written) == sequence
        stream.take(frame_of(2))  # comes again, because the acknowledgement was lost
        loop.settle()
        assert len([record for record in records(tmp_path) if record.kind is Kind.HOST_FRAME]) == 3
        assert [event.sequence for event in core.of(events.SequenceMissed)] == [1, 2, 3]
        assert defects == []

    asyncio.run(scenario())


def test_a_core_that_cannot_be_kept_runs_on_and_no_later_life_reads_what_is_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        core, log = ScriptedCore(), EventLog(tmp_path, BUILD)
        histogram = Histogram("turn", "", registry=None)
        loop = Loop(core, Encoding(), Programs(), Counters(), histogram, tmp_path, print, log)  # type: ignore[arg-type]
        loop.keep()
        assert records(tmp_path) != []
        loop.snapshot = lambda: dumps(Foreign())
        loop.keep()
        assert records(tmp_path) == []
        loop.post((events.WindowDue(IslandName("a")),))
        loop.settle()
        assert core.seen == [events.WindowDue(IslandName("a"))]

    asyncio.run(scenario())
