"""Whose load is next: sessions take turns, their own stay in order, and members of a gang never wait for one another."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from pathways_common.model.ids import SessionNumber
from pathways_worker.core.turns import Turns

A, B, C = SessionNumber(1), SessionNumber(2), SessionNumber(3)


def turns(*jobs: tuple[SessionNumber, str]) -> Turns[str]:
    """Those with a capital are tuned by hosts together."""
    found: Turns[str] = Turns()
    for session, job in jobs:
        found.put(session, job, job[0].isupper())
    return found


def taken(found: Turns[str], count: int) -> list[str]:
    return [found.take() for _ in range(count)]


def test_sessions_take_turns_however_much_one_of_them_has_in_line() -> None:
    found = turns((A, "a1"), (A, "a2"), (A, "a3"), (A, "a4"), (B, "b1"), (B, "b2"), (C, "c1"))
    assert taken(found, 7) == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]


def test_who_comes_later_waits_for_one_of_each_other_session_at_most() -> None:
    found = turns((A, "a1"), (A, "a2"), (A, "a3"), (B, "b1"), (B, "b2"))
    assert taken(found, 2) == ["a1", "b1"]
    found.put(C, "c1", False)
    assert taken(found, 3) == ["a2", "b2", "c1"]


def test_who_was_through_and_comes_again_takes_its_turn_behind_those_in_line() -> None:
    found = turns((A, "a1"), (B, "b1"), (B, "b2"))
    assert found.take() == "a1"
    found.put(A, "a2", False)
    assert taken(found, 3) == ["b1", "a2", "b2"]


def test_what_hosts_tune_together_goes_in_the_order_in_which_it_came() -> None:
    found = turns((A, "a1"), (A, "A2"), (B, "B1"), (B, "b2"), (C, "c1"))
    assert taken(found, 5) == ["a1", "c1", "A2", "B1", "b2"]


@pytest.mark.parametrize("seed", range(200))
def test_members_that_meet_at_what_they_tune_together_all_come_to_an_end(seed: int) -> None:
    """Three hosts hear of the same loads in one order, at moments of their own, and have others of their own between them."""
    draw = random.Random(seed)
    shared = [(SessionNumber(draw.randrange(4)), f"together {number}") for number in range(8)]
    hosts = [_Host(draw, shared) for _ in range(3)]
    for _ in range(1000):
        draw.choice(hosts).hear()
        for host in hosts:
            host.begin()
        _meet(hosts)
    assert all(not host.coming and host.at is None for host in hosts), [host.at for host in hosts]
    for host in hosts:
        assert [job for job in host.done if job.startswith("together")] == [job for _, job in shared]


class _Host:
    def __init__(self, draw: random.Random, shared: list[tuple[SessionNumber, str]]) -> None:
        self.coming = [(session, job, True) for session, job in shared]
        for number in range(draw.randrange(12)):
            self.coming.insert(draw.randrange(len(self.coming) + 1), (SessionNumber(draw.randrange(4)), f"own {number}", False))
        self.turns: Turns[str] = Turns()
        self.waiting = 0
        self.at: str | None = None
        self.done: list[str] = []

    def hear(self) -> None:
        if self.coming:
            self.turns.put(*self.coming.pop(0))
            self.waiting += 1

    def begin(self) -> None:
        if self.at is None and self.waiting:
            self.at = self.turns.take()
            self.waiting -= 1

    def end(self) -> None:
        assert self.at is not None
        self.done.append(self.at)
        self.at = None


def _meet(hosts: list[_Host]) -> None:
    """What a host has alone ends; what all have ends when all are at it."""
    _each(hosts, lambda host: host.at is not None and host.at.startswith("own"))
    if len({host.at for host in hosts}) == 1:
        _each(hosts, lambda host: host.at is not None)


def _each(hosts: list[_Host], may_end: Callable[[_Host], bool]) -> None:
    for host in hosts:
        if may_end(host):
            host.end()
