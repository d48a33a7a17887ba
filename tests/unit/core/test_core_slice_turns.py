"""A large exclusive request among small ones without end: what it would take is kept for it in every other span of its wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.tenant_records import Declared, TenantName
from pathways_server.core.transitions import SliceState

from tests.unit.core.core_driver import Driver, only, replies

TURN_S = 10
ADS = TenantName("ads")
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


def test_jobs_that_last_longer_than_a_turn_end_in_a_longer_one() -> None:
    driver, job_s = cluster(), 25
    begun = {1: 0, 2: -12}
    for session in begun:
        driver.add_slice(1, 1, session=session, exclusive=True, wait=True)
    driver.add_slice(1, 2, session=3, exclusive=True, wait=True)
    numbers = {1: 1, 2: 1}
    for second in range(1, 80):
        driver.pass_time(1)
        for session, number in numbers.items():
            if states(driver)[session, number] is WAITING:
                begun[session] = second
            elif second - begun[session] >= job_s:
                numbers[session], begun[session] = number + 1, second
                one_after_the_other(driver, session, number + 1)
        if states(driver)[3, 1] is BOUND:
            break
    # Kept from 40 to 80 s: whatever runs at 40 has ended 25 s later.
    assert states(driver)[3, 1] is BOUND
    assert 40 < second <= 40 + job_s


def test_what_is_kept_in_vain_goes_to_others_for_as_long_in_the_next_span() -> None:
    driver = cluster()
    driver.add_slice(1, 1, session=1, exclusive=True)  # it never ends
    driver.add_slice(1, 2, session=3, exclusive=True, wait=True)
    driver.add_slice(9, 1, session=2, exclusive=True)
    driver.pass_time(TURN_S)
    driver.release_slice(9, session=2)
    had = []
    for number in range(1, 16 * TURN_S):
        driver.add_slice(number, 1, session=2, exclusive=True)
        had.append((2, number) in states(driver))
        driver.release_slice(number, session=2)
        driver.pass_time(1)
    spans = [10, 20, 40, 80]
    assert had == [turn % 2 == 1 for turn, length in enumerate(spans) for _ in range(length)] + [False] * 9


@pytest.mark.parametrize("lacks", ["quota", "slices", "devices alone"])
def test_nothing_is_kept_for_what_lacks_more_than_devices_of_others(lacks: str) -> None:
    driver = cluster(devices=4)
    driver.step(events.TenantSet(ADS, Declared(devices_max=4 + 1 + 2 if lacks == "quota" else 0)))  # it shows four itself
    driver.open(5, tenant="ads")
    for number in range(1, 5 if lacks == "slices" else 2):  # four are the most
        driver.add_slice(number, 1, session=5, island="a", with_slices=(1,) if number > 1 else ())
    for number in (1, 2, 3):
        driver.add_slice(number, 1, session=1, exclusive=True)
    driver.add_slice(9, 3, session=5, exclusive=True, wait=True)
    driver.pass_time(TURN_S)
    driver.release_slice(1, session=1)
    assert states(driver)[5, 9] is WAITING
    driver.add_slice(1, 1, session=2, exclusive=True)
    assert ((2, 1) in states(driver)) == (lacks != "devices alone")


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
