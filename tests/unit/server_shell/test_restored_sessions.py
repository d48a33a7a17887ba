"""A controller that is killed between any two turns steps what sessions have sent exactly once, in all of its lives together."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from pathways_common.model.ids import SessionNumber
from pathways_proto.v1 import sessions_pb2
from pathways_server.core import events
from pathways_server.core.records import Session
from pathways_server.core.state import State
from pathways_server.core.tenant_records import Declared, Tenant, TenantName
from pathways_server.rpc.attached import LinkTerms
from pathways_server.rpc.decode import OperationDecoder
from pathways_server.rpc.recovery import Recovery, kept_in
from pathways_server.rpc.sessions import SessionsService
from pathways_server.rpc.wire import frame
from pathways_server.rpc.workers import WorkersService
from pathways_server.shell import loop as loop_module
from pathways_server.shell import peer as peer_module
from pathways_server.shell.counters import Counters
from pathways_server.shell.event_log import EventLog
from pathways_server.shell.loop import Loop
from pathways_server.shell.peer import SessionPeer
from pathways_server.shell.programs import Programs
from prometheus_client import Histogram

from tests.unit.server_shell.scripted_core import ScriptedCore

NUMBER = SessionNumber(7)
LEASE_NS = 10**9


class Encoding:
    def forget_last(self) -> None:
        pass


class RestorableCore(ScriptedCore):
    def restore(self, state: State) -> None:
        self.state = state


class Life:
    """A controller without a network. `directory`: where its log is."""

    def __init__(self, directory: Path, number: int) -> None:
        self.core, self.log, self.programs = RestorableCore(), EventLog(directory, "build"), Programs()
        records = list(self.log.read())
        if records:
            self.core.restore(kept_in(records[0]).state)
        counters, terms = Counters(), LinkTerms(number, LEASE_NS, LEASE_NS)
        histogram = Histogram("turn", "", registry=None)
        self.loop = Loop(
            self.core, Encoding(), self.programs, counters, histogram, directory, self.fail, self.log,  # type: ignore[arg-type]
        )  # fmt: skip
        decoder = OperationDecoder(self.programs, counters.operations)
        workers = WorkersService(self.loop, counters, lambda: 1, terms, "")
        self.sessions = SessionsService(self.loop, decoder, counters, lambda: NUMBER, "", None, terms)  # type: ignore[arg-type]
        recovery = self.recovery = Recovery(self.loop, workers, self.sessions, decoder, self.programs, counters, number, b"key")
        self.loop.snapshot = recovery.snapshot
        if records:
            recovery.restore(kept_in(records[0]), records[1:])
        else:
            tenant = Tenant(TenantName("t"), Declared())
            self.core.state.sessions[NUMBER] = Session(NUMBER, tenant, "", (), 0, 0)
            peer = SessionPeer(NUMBER, "id", frame, counters, tenant=tenant.name)
            peer.lease_ns = LEASE_NS
            self.loop.enter_session(peer)
            peer.open(b"welcome")
        self.peer = self.loop.sessions[NUMBER]
        self.stream = self.sessions.stream_of(self.peer) if not records else recovery._streams[NUMBER]

    def fail(self, error: BaseException) -> None:
        raise error

    def stepped(self) -> list[Any]:
        kinds = (events.FenceRequested, events.CompileRequested)
        return [getattr(event, "fence_id", "compile") for event in self.core.seen if isinstance(event, kinds)]


def sent(sequence: int, *numbers: int) -> bytes:
    """A frame of fences; 0 stands for a compilation."""
    operations = [
        sessions_pb2.ClientOperation(fence=sessions_pb2.Fence(fence_id=number))
        if number
        else sessions_pb2.ClientOperation(
            compile=sessions_pb2.Compile(executable_id=1, program=b"program", options=b"options", devices=[0])
        )
        for number in numbers
    ]
    return sessions_pb2.ClientFrame(sequence=sequence, operations=operations).SerializeToString()


def test_every_operation_is_stepped_once_wherever_the_controller_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One slice of 16 events a turn, so most kills come in the middle of a frame."""
    frames = [sent(1, 1, 2), sent(2, *range(3, 10), 0, *range(10, 50)), sent(3), sent(4, *range(50, 53))]
    expected = [*range(1, 10), "compile", *range(10, 53)]

    async def scenario() -> None:
        monkeypatch.setattr(loop_module, "TURN_NS", -(10**12))
        first = Life(tmp_path / "log", 1)
        first.loop.keep()
        for data in frames:
            first.stream.take(data)
        places: set[tuple[int, int]] = set()
        kept = False
        for turn in range(14):
            if first.loop.reading.stepped_of_next(first.peer) and not kept:
                kept = True
                first.loop.keep()  # in the middle of the second frame
            copy = tmp_path / f"turn {turn}"
            shutil.copytree(tmp_path / "log", copy)
            second = Life(copy, 2)
            assert second.peer.link.received == first.peer.link.received
            places.add((second.peer.link.received, second.stream.stepped_before))
            for data in frames[second.peer.link.received :]:
                second.stream.take(data)
            second.loop.settle()
            # What the snapshot holds was stepped before it.
            before = first.stepped()[: len(expected) - len(second.stepped())]
            assert before + second.stepped() == expected, turn
            assert second.peer.link.received == len(frames)
            assert len(second.programs.owned()) == 1
            assert second.programs._holds == {}
            first.loop._turn()
        assert places == {(0, 0), (1, 0), (1, 16), (1, 32), (2, 0), (3, 0), (4, 0)}

    (tmp_path / "log").mkdir()
    asyncio.run(scenario())


def test_what_is_said_again_while_a_session_is_made_again_counts_against_no_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is acknowledged meanwhile, so a busy one would be ended for what it had read long ago."""

    async def scenario() -> None:
        life = Life(tmp_path, 1)
        monkeypatch.setattr(peer_module, "BACKLOG_ITEMS_MAX", 3)
        peer = life.recovery._enter_session(life.peer.identity(), life.peer.link.pushed()).peer
        for _ in range(5):
            peer.push(b"said")
        assert not peer.overloaded
        peer.wait_restored()
        assert not peer.overloaded
        for _ in range(4):
            peer.push(b"new")
        assert peer.overloaded

    asyncio.run(scenario())
