"""Sessions and hosts without a connection: how long they live on, what counts, and what is left of them."""

from __future__ import annotations

import pytest
from pathways_common.model.failure import Reason
from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events, why

from tests.unit.core.core_driver import Driver, only, sent

SECOND_NS = 1_000_000_000
SESSION, HOST = SessionNumber(1), HostName("a1")
LEASE_S, GRACE_S = 3, 2


def driver() -> Driver:
    made = Driver(lease_ns=LEASE_S * SECOND_NS, grace_ns=GRACE_S * SECOND_NS)
    made.open(1)
    return made


def listen(made: Driver, seconds: float) -> list[out.Effect]:
    """Ticks as a controller that listens has them."""
    seen: list[out.Effect] = []
    for _ in range(round(seconds * 10)):
        made.now_ns += SECOND_NS // 10
        seen += made.step(events.TimePassed())
    return seen


def of(effects: list[out.Effect], kind: type) -> list[out.Effect]:
    return [effect for effect in effects if isinstance(effect, kind)]


def test_a_session_without_a_connection_lives_for_its_lease_and_then_frees_everything() -> None:
    made = driver()
    made.put(5)
    made.step(events.SessionDetached(SESSION, "the connection broke"))
    assert of(listen(made, LEASE_S - 0.2), out.LeaseEnded) == []
    ended = listen(made, 0.4)
    (lease,) = of(ended, out.LeaseEnded)
    assert isinstance(lease, out.LeaseEnded)
    assert (lease.session, lease.failure.reason) == (SESSION, Reason.UNAVAILABLE)
    assert lease.failure.message == "its lease of 3 s ended without its connection coming back (the connection broke)"
    assert [host for host, _ in sent(ended, out.Free)] == ["a0", "a1"]
    assert made.core.state.sessions == {}
    assert of(listen(made, 2 * LEASE_S), out.LeaseEnded) == []


def test_who_comes_back_within_its_lease_has_a_whole_one_again() -> None:
    made = driver()
    for _ in range(3):
        made.step(events.SessionDetached(SESSION, "the connection broke"))
        assert of(listen(made, LEASE_S - 0.2), out.LeaseEnded) == []
        made.step(events.SessionResumed(SESSION))
        assert of(listen(made, LEASE_S - 0.2), out.LeaseEnded) == []


def test_time_in_which_the_controller_was_stopped_does_not_count() -> None:
    made = driver()
    made.step(events.SessionDetached(SESSION, "the connection broke"))
    made.step(events.HostDetached(HOST, made.core.state.hosts[HOST].incarnation, "the connection broke"))
    seen = listen(made, GRACE_S - 0.6)
    made.now_ns += 100 * SECOND_NS
    seen += made.step(events.TimePassed())
    assert of(seen, out.LeaseEnded) + of(seen, out.HostGivenUp) == []
    assert of(listen(made, 0.2), out.HostGivenUp) != []
    assert of(listen(made, LEASE_S - GRACE_S + 0.2), out.LeaseEnded) != []


@pytest.mark.parametrize("since_tick_s", [0, 0.09, 0.4, 100])
def test_a_lease_and_a_grace_begin_with_the_break_and_not_with_the_tick_before_it(since_tick_s: float) -> None:
    made = driver()
    listen(made, 0.1)
    made.now_ns += round(since_tick_s * SECOND_NS)  # 100: the controller was stopped, and hears of the breaks when it goes on
    began_ns = made.now_ns
    made.step(events.SessionDetached(SESSION, "the connection broke"))
    made.step(events.HostDetached(HOST, made.core.state.hosts[HOST].incarnation, "the connection broke"))
    made.now_ns += SECOND_NS // 100
    made.step(events.TimePassed())
    for kind, limit_s in ((out.HostGivenUp, GRACE_S), (out.LeaseEnded, LEASE_S)):
        while not of(listen(made, 0.1), kind):
            assert made.now_ns - began_ns <= (limit_s + 0.2) * SECOND_NS
        assert 0 <= made.now_ns - began_ns - limit_s * SECOND_NS <= 0.2 * SECOND_NS


def test_a_host_is_lost_when_its_grace_is_over_and_not_before() -> None:
    made = driver()
    incarnation = made.core.state.hosts[HOST].incarnation
    made.step(events.HostDetached(HOST, incarnation, "the connection broke"))
    assert listen(made, GRACE_S - 0.2) == []
    assert HOST in made.core.state.hosts
    effects = listen(made, 0.4)
    given_up = only(of(effects, out.HostGivenUp))
    assert given_up == out.HostGivenUp(HOST, incarnation, "the connection broke, and it did not come back within 2 s")
    assert HOST not in made.core.state.hosts
    # The shell lets go of the host before anything else of this step is carried out.
    assert next(type(effect) for effect in effects if not isinstance(effect, out.Log)) is out.HostGivenUp


def test_a_host_that_comes_back_is_the_one_that_it_was() -> None:
    made = driver()
    host = made.core.state.hosts[HOST]
    made.step(events.HostDetached(HOST, host.incarnation, "the connection broke"))
    listen(made, GRACE_S - 0.2)
    made.step(events.HostResumed(HOST, host.incarnation))
    assert of(listen(made, 3 * GRACE_S), out.HostGivenUp) == []
    assert made.core.state.hosts[HOST] is host
    assert host.island.epoch == 1


def test_news_of_an_older_incarnation_of_a_host_are_ignored() -> None:
    made = driver()
    made.step(events.HostDetached(HOST, made.core.state.hosts[HOST].incarnation - 1, "the connection broke"))
    assert of(listen(made, 3 * GRACE_S), out.HostGivenUp) == []


def test_why_says_that_a_session_has_no_connection_and_how_long_it_lives() -> None:
    made = driver()
    made.step(events.SessionDetached(SESSION, "the connection broke"))
    listen(made, 1)
    (sentence, *_) = why.of_session(made.core.state, made.now_ns, SESSION, None).sentences
    assert "which has no connection (the connection broke 1.0 s ago; its lease has 2.0 s left)" in sentence
