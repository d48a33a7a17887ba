"""Work that waits fails as soon as an argument of it is lost, whatever it waits for: one kind of wait after the other."""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, Sequence, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.failed_inputs import LOOKS
from pathways_server.core.tenant_records import Declared, TenantName

from tests.unit.core.core_driver import Driver, gid, replies, sent
from tests.unit.core.core_runs import A, B, chain, driver_of, put, run

ADS = TenantName("ads")


def ready(**options: object) -> Driver:
    driver = Driver(**options)  # type: ignore[arg-type]
    driver.open(1, ("*",))
    driver.compile(1)
    return driver


def failures(effects: list[out.Effect]) -> dict[int, Failure]:
    """By wait, why what it waited for never comes."""
    return {ready.wait_id: ready.failure for ready in replies(effects, out.Ready) if ready.failure is not None}


def blocked_on(driver: Driver) -> str:
    lane = driver.core.state.sessions[SessionNumber(1)].lanes[IslandName("a")]
    return lane.blocked_on if lane.blocked else ""


def test_work_whose_argument_was_on_its_way_to_a_lost_host_fails_with_it_and_so_does_what_comes_from_that() -> None:
    driver = ready()
    driver.upload(10, upload=1)
    driver.execute(1, (10,), 20)
    driver.execute(1, (20,), 21)
    driver.wait(20, wait=1)
    driver.wait(21, wait=2)
    found = failures(driver.lose("a1"))  # the island does not form again: a1 stays away
    assert {wait: (failure.reason, failure.host) for wait, failure in found.items()} == {
        1: (Reason.BUFFER_LOST, "a1"),
        2: (Reason.BUFFER_LOST, "a1"),
    }
    assert found[1].id == found[2].id


def test_work_whose_program_is_loaded_again_fails_with_its_argument() -> None:
    driver = ready()
    driver.kill_executor("a1")
    driver.answer_loads = False
    driver.put(10)
    driver.execute(1, (10,), 20)
    driver.wait(20)
    assert blocked_on(driver) == "loading of program 1"
    assert failures(driver.lose("a1"))[1].reason is Reason.BUFFER_LOST


def test_work_that_waits_for_its_tenants_quota_fails_with_its_argument() -> None:
    driver = Driver({"a": ["a0", "a1"], "b": ["b0"]})
    driver.step(events.TenantSet(ADS, Declared(programs_max=1)))
    for number, devices in ((1, (0, 1)), (2, (2,))):
        driver.open(number, ("*",), tenant="ads")
        driver.compile(1, devices, session=number)
        driver.put(10, devices, session=number)
    driver.execute(1, (10,), 20, session=2)
    driver.execute(1, (10,), 20)
    driver.wait(20)
    assert "program" in blocked_on(driver)
    assert failures(driver.lose("a1"))[1].reason is Reason.BUFFER_LOST
    assert not driver.core.state.tenants[ADS].program_line


def test_work_that_needs_nothing_lost_waits_for_its_island_and_what_stands_behind_it_does_not() -> None:
    driver = ready(window_gangs=1)
    driver.put(10)
    driver.execute(1, (), 20)
    driver.execute(1, (), 21)
    driver.execute(1, (10,), 22)
    driver.wait(21, wait=1)
    driver.wait(22, wait=2)
    assert list(failures(driver.lose("a1"))) == [2]
    assert not failures(driver.pass_time(59))
    prepared = sent(driver.join("a1", "a"), out.Prepare)
    assert {prepare.first_result_id for _, prepare in prepared} == {gid(21)}


def test_work_for_an_array_in_a_store_fails_with_the_host_of_that_store() -> None:
    driver = ready()
    driver.compile(2, (0,))
    driver.put(10, (0,))
    driver.lose("a1")  # the array outlives the epoch in the store of a0
    driver.execute(2, (10,), 20)
    driver.wait(20)
    found = failures(driver.lose("a0"))[1]
    assert (found.reason, found.host) == (Reason.BUFFER_LOST, "a0")


def test_work_fails_with_an_argument_that_failed_while_another_one_is_on_its_way() -> None:
    driver = ready()
    driver.put(10)
    driver.execute(1, (10,), 20)
    driver.upload(11, upload=1)
    driver.execute(1, (11, 20), 21)
    driver.wait(21)
    cause = Failure(Reason.USER_ERROR, "no", host="a1")
    effects = driver.step(events.NodeFailed(HostName("a1"), gid(5020), Sequence(1), cause))
    assert failures(effects)[1].message == "no"


def test_one_error_beside_a_long_queue_is_found_in_its_turn_and_a_loss_at_once() -> None:
    driver = ready()
    driver.put(10)
    driver.execute(1, (10,), 20)
    driver.upload(11, upload=1)
    driver.execute(1, (11,), 21)  # what waits stands behind it
    driver.execute(1, (20,), 22)
    for number in range(8 * LOOKS):
        driver.execute(1, (), 30 + number)
    driver.wait(22, wait=1)
    driver.wait(30, wait=2)
    cause = Failure(Reason.USER_ERROR, "no", host="a1")
    assert not failures(driver.step(events.NodeFailed(HostName("a1"), gid(5020), Sequence(1), cause)))
    found = failures(driver.lose("a1"))
    assert {wait: failure.message for wait, failure in found.items()} == {1: "no"}


def test_a_program_over_two_islands_fails_with_an_argument_on_one_of_them() -> None:
    driver = driver_of()
    chain(driver, A, B)
    put(driver, 10, A, upload=1)
    run(driver, (10,), 20)
    driver.wait(20)
    found = failures(driver.lose("a1"))
    assert (found[1].reason, found[1].host) == (Reason.BUFFER_LOST, "a1")
