"""A large exclusive request among small ones without end: what it would take is kept for it once it has waited its turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pathways_server.core import effects as out
from pathways_server.core.transitions import SliceState

from tests.unit.core.core_driver import Driver, only, replies

TURN_S = 10
BOUND, WAITING = SliceState.BOUND, SliceState.WAITING


def cluster(devices: int = 2, sessions: int = 4) -> Driver:
    """One island; each session may hold a few slices."""
    driver = Driver({"a": [f"a{number}" for number in range(devices)]}, pool_slices=4, slice_turn_ns=TURN_S * 10**9)
    for number in range(1, sessions + 1):
        driver.open(number)
    return driver


def states(driver: Driver) -> dict[tuple[int, int], SliceState]:
    """By session and slice."""
    return {(each.session.number, each.request.slice_id): each.state for each in driver.core.state.slices.values()}


def one_after_the_other(driver: Driver, session: int, number: int) -> None:
    driver.release_slice(number - 1, session=session)
    driver.add_slice(number, 1, session=session, exclusive=True, wait=True)


def one_before_the_other(driver: Driver, session: int, number: int) -> None:
    driver.add_slice(number, 1, session=session, exclusive=True, wait=True)
    driver.release_slice(number - 1, session=session)


@pytest.mark.parametrize("job", [one_after_the_other, one_before_the_other])
def test_small_requests_without_end_do_not_pass_a_large_one_for_ever(job: Callable[[Driver, int, int], None]) -> None:
    driver = cluster()
    for session in (1, 2):
        driver.add_slice(1, 1, session=session, exclusive=True, wait=True)
    driver.add_slice(1, 2, session=3, exclusive=True, wait=True)
    number = 1
    for _ in range(TURN_S):  # before its turn they go on as they come
        number += 1
        for session in (1, 2):
            job(driver, session, number)
            assert states(driver)[session, number] is BOUND
        driver.pass_time(1)
    for session in (1, 2):
        job(driver, session, number + 1)
    assert states(driver)[3, 1] is BOUND
    assert [state for (session, _), state in states(driver).items() if session != 3] == [WAITING, WAITING]
    driver.release_slice(1, session=3)
    assert set(states(driver).values()) == {BOUND}


def test_who_waits_behind_it_is_told_so_and_has_other_devices() -> None:
    driver = cluster(devices=3)
    driver.add_slice(1, 2, session=1, exclusive=True)
    driver.add_slice(1, 3, session=3, exclusive=True, wait=True)
    driver.pass_time(TURN_S)
    said = only(replies(driver.add_slice(1, 1, session=2, exclusive=True, wait=True), out.SliceWaiting)).text
    assert said == (
        "virtual slice waits for 1 device more of island a, in use by slice 1 of session 1 (test) and kept for slice 1 of"
        " session 3 (test), which has waited longer"
    )


def test_what_a_smaller_one_leaves_free_may_be_had() -> None:
    driver = cluster(devices=4)
    driver.add_slice(1, 1, session=1, exclusive=True)
    driver.add_slice(2, 1, session=1, exclusive=True)
    driver.add_slice(3, 1, session=1, exclusive=True)
    driver.add_slice(1, 2, session=3, exclusive=True, wait=True)
    driver.pass_time(TURN_S)
    driver.add_slice(1, 1, session=2, exclusive=True, wait=True)
    assert states(driver)[2, 1] is WAITING, "the free one is half of what is waited for"
    driver.release_slice(3, session=1)
    assert states(driver)[3, 1] is BOUND
    driver.release_slice(2, session=1)
    assert states(driver)[2, 1] is BOUND


def test_who_holds_what_is_waited_for_has_what_it_needs_beside_it_in_the_next_turn() -> None:
    driver = cluster()
    driver.add_slice(1, 1, session=1, exclusive=True)
    driver.add_slice(1, 2, session=3, exclusive=True, wait=True)
    driver.pass_time(TURN_S)
    driver.add_slice(2, 1, session=1, exclusive=True, wait=True)
    assert states(driver)[1, 2] is WAITING
    driver.pass_time(TURN_S)
    assert states(driver)[1, 2] is BOUND
    driver.release_slice(1, session=1)
    driver.release_slice(2, session=1)
    assert states(driver) == {(3, 1): BOUND}


@pytest.mark.parametrize("how", ["withdrawn", "closed", "late"])
def test_when_it_does_not_wait_any_more_the_others_go_on(how: str) -> None:
    driver = cluster()
    driver.add_slice(1, 1, session=1, exclusive=True)
    driver.add_slice(1, 2, session=3, exclusive=True, wait=True, timeout_ns=(TURN_S + 2) * 10**9)
    driver.pass_time(TURN_S)
    driver.add_slice(1, 1, session=2, exclusive=True, wait=True)
    assert states(driver)[2, 1] is WAITING
    if how == "withdrawn":
        driver.release_slice(1, session=3)
    elif how == "closed":
        driver.close(3)
    else:
        driver.pass_time(2)
    assert states(driver)[2, 1] is BOUND
