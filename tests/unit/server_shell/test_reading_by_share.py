"""Sessions are read in slices and by share: who asks for little is heard soon, whatever others have sent."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pathways_common.model.bounds import AHEAD_OPERATIONS_MAX, AHEAD_PACE_NS, SLICE_EVENTS, TURN_NS
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import IslandName, SessionNumber
from pathways_server.core import events
from pathways_server.core.config import CoreConfig
from pathways_server.core.records import Session
from pathways_server.core.state import State
from pathways_server.core.tenant_records import Declared, Tenant, TenantName
from pathways_server.rpc.wire import frame
from pathways_server.shell import reading as reading_module
from pathways_server.shell.counters import Counters
from pathways_server.shell.peer import SessionPeer
from pathways_server.shell.reading import Reading, ReadingTurns

EVENT_NS = 10_000


class Readers:
    """Turns over sessions that are made here; every event takes `EVENT_NS` of a clock that only events move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 1
        self.stepped: list[events.FenceRequested] = []
        self.woken = 0
        self.state = State(CoreConfig())
        self.turns = ReadingTurns(self.state, self._step, self._wake)
        monkeypatch.setattr(reading_module, "time", SimpleNamespace(monotonic_ns=lambda: self.now_ns))

    def _wake(self) -> None:
        self.woken += 1

    def _step(self, batch: Sequence[events.Event], _reading: Reading, _peer: SessionPeer) -> None:
        self.stepped += cast("Sequence[events.FenceRequested]", batch)
        self.now_ns += EVENT_NS * len(batch)

    def tenant(self, weight: int = 1) -> Tenant:
        return Tenant(TenantName(f"t{len(self.state.sessions)}"), Declared(weight=weight))

    def session(self, tenant: Tenant) -> SessionPeer:
        number = SessionNumber(len(self.state.sessions) + 1)
        self.state.sessions[number] = Session(number, tenant, "", (), 0, 0)
        return SessionPeer(number, "id", frame, Counters())

    def ask(self, peer: SessionPeer, count: int, **more: Any) -> None:
        self.turns.add(peer, Reading([events.FenceRequested(peer.number, index) for index in range(count)], **more))

    def had(self, peer: SessionPeer) -> int:
        return sum(event.session == peer.number for event in self.stepped)


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> Readers:
    return Readers(monkeypatch)


def test_a_small_request_waits_for_one_slice_of_a_large_one(readers: Readers) -> None:
    greedy, small = readers.session(readers.tenant()), readers.session(readers.tenant())
    readers.ask(greedy, 100_000)
    readers.turns.serve(readers.now_ns + TURN_NS)
    assert 0 < readers.had(greedy) * EVENT_NS <= TURN_NS + SLICE_EVENTS * EVENT_NS
    assert readers.turns.again()
    before = readers.had(greedy)
    readers.ask(small, 1)
    readers.turns.serve(readers.now_ns + TURN_NS)
    place = next(index for index, event in enumerate(readers.stepped[before:]) if event.session == small.number)
    assert place <= SLICE_EVENTS


def test_tenants_share_the_reading_by_weight_whatever_the_number_of_their_sessions(readers: Readers) -> None:
    heavy, light = readers.tenant(weight=3), readers.tenant()
    one, two, three = readers.session(heavy), readers.session(light), readers.session(light)
    for peer in (one, two, three):
        readers.ask(peer, 100_000)
    readers.turns.serve(readers.now_ns + 20_000 * EVENT_NS)
    assert readers.had(one) == pytest.approx(15_000, rel=0.02)
    assert readers.had(two) == pytest.approx(2_500, rel=0.02)
    assert readers.had(three) == pytest.approx(2_500, rel=0.02)


def test_who_was_away_gets_nothing_for_it(readers: Readers) -> None:
    early, late = readers.session(readers.tenant()), readers.session(readers.tenant())
    readers.ask(early, 100_000)
    readers.turns.serve(readers.now_ns + 10_000 * EVENT_NS)
    readers.ask(late, 100_000)
    before = readers.had(early)
    readers.turns.serve(readers.now_ns + 2_000 * EVENT_NS)
    assert readers.had(late) == pytest.approx(1_000, abs=2 * SLICE_EVENTS)
    assert readers.had(early) - before == pytest.approx(1_000, abs=2 * SLICE_EVENTS)


def far_ahead(readers: Readers, peer: SessionPeer, blocked: bool) -> None:
    """Work in a lane of the session, and so much in line that it is read on slowly."""
    session = readers.state.sessions[peer.number]
    session.lanes[IslandName("a")] = cast(Any, SimpleNamespace(queue=[None], blocked=blocked))
    session.ungranted = dict.fromkeys(range(AHEAD_OPERATIONS_MAX), ())


def test_a_session_far_ahead_is_read_on_slowly_but_is_read_on(readers: Readers) -> None:
    async def scenario() -> None:
        peer = readers.session(readers.tenant())
        far_ahead(readers, peer, blocked=False)
        readers.ask(peer, 10 * SLICE_EVENTS)
        for slices in range(1, 4):
            readers.turns.serve(readers.now_ns + 100 * TURN_NS)
            assert readers.had(peer) == slices * SLICE_EVENTS
            assert not readers.turns.again()  # a timer wakes it
            readers.now_ns += AHEAD_PACE_NS
        woken = readers.woken
        while readers.woken == woken:
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scenario(), 20))


def test_a_session_whose_head_waits_is_read_on_since_the_release_it_waits_for_may_be_behind(readers: Readers) -> None:
    peer = readers.session(readers.tenant())
    far_ahead(readers, peer, blocked=True)
    readers.ask(peer, 10 * SLICE_EVENTS)
    readers.turns.serve(readers.now_ns + 100 * TURN_NS)
    assert readers.had(peer) == 10 * SLICE_EVENTS


def test_the_end_of_a_session_far_ahead_does_not_wait_for_its_pace(readers: Readers) -> None:
    async def scenario() -> None:
        peer = readers.session(readers.tenant())
        far_ahead(readers, peer, blocked=False)
        readers.ask(peer, 10 * SLICE_EVENTS)
        readers.turns.serve(readers.now_ns + 100 * TURN_NS)
        assert not readers.turns.again()
        readers.turns.add(peer, Reading([events.SessionClosed(peer.number, "gone")]), ending=True)
        readers.turns.serve(readers.now_ns + 1000 * TURN_NS)
        assert isinstance(readers.stepped[-1], events.SessionClosed)
        assert not readers.turns.waiting(peer)

    asyncio.run(scenario())


def test_nothing_of_a_frame_that_is_malformed_far_behind_reaches_the_core_and_the_end_still_does(readers: Readers) -> None:
    peer = readers.session(readers.tenant())

    def slices() -> Any:
        yield [events.FenceRequested(peer.number, 1)]
        raise PathwaysError(Failure(Reason.INVALID_ARGUMENT, "malformed message: no"))

    told: list[Failure] = []
    readers.turns.add(peer, Reading([], slices(), failed=told.append))
    readers.ask(peer, 5)
    readers.turns.add(peer, Reading([events.SessionClosed(peer.number, "gone")]), ending=True)
    readers.turns.serve(readers.now_ns + 100 * TURN_NS)
    assert [failure.message for failure in told] == ["malformed message: no"]
    assert [type(event) for event in readers.stepped] == [events.SessionClosed]
