"""Limits of tenants: who waits behind whom and for what, who fails, what a change of a limit does, and what is booked."""

from __future__ import annotations

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.records import Buffer
from pathways_server.core.tenant_figures import take
from pathways_server.core.tenant_records import Declared, Tenant, TenantName

from tests.unit.core.core_driver import Driver, facts, gid, only, replies, sent
from tests.unit.core.core_runs import A, chain, put, run

ADS = TenantName("ads")


def tenants(driver: Driver, **limits: object) -> None:
    driver.step(events.TenantSet(ADS, Declared(**limits)))  # type: ignore[arg-type]


def ready(sessions: int = 1, **limits: object) -> Driver:
    """Sessions of tenant ads on island a, each with executable 100 (one result of 8 bytes on each of two devices) and array 1."""
    driver = Driver()
    driver.open(9)
    tenants(driver, **limits)
    for number in range(1, sessions + 1):
        driver.open(number, tenant="ads")
        driver.compile(100, session=number)
        driver.put(1, session=number)
    return driver


def tenant(driver: Driver) -> Tenant:
    return driver.core.state.tenants[ADS]


def granted(effects: list[out.Effect]) -> list[int]:
    """Local ids of the executions that host a0 was given."""
    return [prepare.execution_id & 0xFFFF for host, prepare in sent(effects, out.Prepare) if host == "a0"]


def blocked_on(driver: Driver, session: int = 1) -> str:
    lane = driver.core.state.sessions[SessionNumber(session)].lanes["a"]  # type: ignore[index]
    return lane.blocked_on if lane.blocked else ""


def failure_of(driver: Driver, number: int, session: int = 1) -> Failure:
    buffer = driver.core.state.sessions[SessionNumber(session)].handles[gid(number, session)]
    assert isinstance(buffer, Buffer)
    assert buffer.failure is not None
    return buffer.failure


# ---- programs ---------------------------------------------------------------------------------------------------------


def test_programs_beyond_the_limit_wait_in_the_order_in_which_they_came_from_whatever_session() -> None:
    driver = ready(sessions=3, programs_max=1)
    assert granted(driver.execute(100, (1,), 10)) == [5010]
    assert granted(driver.execute(100, (1,), 20, session=3)) == []
    assert granted(driver.execute(100, (1,), 30, session=2)) == []
    assert granted(driver.execute(100, (1,), 40)) == []
    words = "room in the quota of tenant ads: 1 programs at once (max_programs, set by its administrator)"
    assert [blocked_on(driver, number) for number in (1, 2, 3)] == [words] * 3
    for sequence, expected in ((1, 5020), (2, 5030), (3, 5040)):
        driver.finish("a0", sequence)
        assert granted(driver.finish("a1", sequence)) == [expected]
    assert (tenant(driver).running, tenant(driver).queued) == (1, 0)


def test_a_limit_is_of_its_tenant_alone() -> None:
    driver = ready(programs_max=1)
    driver.compile(100, session=9)
    driver.put(1, session=9)
    driver.execute(100, (1,), 10)
    assert granted(driver.execute(100, (1,), 11)) == []
    assert granted(driver.execute(100, (1,), 12, session=9)) == [5012]
    assert granted(driver.execute(100, (1,), 13, session=9)) == [5013]


def test_a_tenant_that_has_it_so_fails_at_the_limit_with_figures() -> None:
    driver = ready(programs_max=2, waits=False)
    for result in (10, 11, 12):
        driver.execute(100, (1,), result)
    failure = failure_of(driver, 12)
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert failure.retryable
    assert failure.message == (
        "tenant ads has 2 programs in flight and its administrator allows 2 (max_programs); wait for results first,"
        " or let work wait for room: pathways tenants set ads --over wait"
    )
    driver.finish("a0", 1)
    driver.finish("a1", 1)
    assert granted(driver.execute(100, (1,), 13)) == [5013]


def test_raising_a_limit_lets_those_who_wait_go_and_lowering_takes_nothing_away() -> None:
    driver = ready(programs_max=1)
    for result in (10, 11, 12, 13):
        driver.execute(100, (1,), result)
    assert granted(driver.step(events.TenantSet(ADS, Declared(programs_max=3)))) == [5011, 5012]
    assert granted(driver.step(events.TenantSet(ADS, Declared(programs_max=1)))) == []
    assert tenant(driver).running == 3
    for sequence in (1, 2):
        driver.finish("a0", sequence)
        assert granted(driver.finish("a1", sequence)) == []
    driver.finish("a0", 3)
    assert granted(driver.finish("a1", 3)) == [5013]
    driver.execute(100, (1,), 14)
    assert granted(driver.step(events.TenantSet(ADS, Declared()))) == [5014]
    assert not tenant(driver).program_line


def test_whoever_comes_to_wait_for_something_else_leaves_the_line() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]})
    tenants(driver, programs_max=1)
    driver.open(1, ("a",), tenant="ads")
    driver.open(2, ("b",), tenant="ads")
    driver.open(3, ("a",), tenant="ads")
    for number in (1, 2, 3):
        driver.compile(100, (0,), session=number)
        driver.put(1, (0,), session=number)
    driver.execute(100, (1,), 10)
    driver.execute(100, (1,), 11, session=2)
    driver.execute(100, (1,), 12, session=3)
    assert len(tenant(driver).program_line) == 2
    driver.kill_executor("b0")  # its argument is gone, so the execution on b will never go
    assert granted(driver.finish("a0", 1)) == [5012]


def test_work_of_a_session_that_ends_gives_its_places_back() -> None:
    driver = ready(sessions=3, programs_max=1)
    for number in (1, 2, 3):
        driver.execute(100, (1,), 10, session=number)
    driver.close(2)
    assert len(tenant(driver).program_line) == 1
    driver.finish("a0", 1)
    assert granted(driver.finish("a1", 1)) == [5010]
    driver.close(1)
    driver.close(3)
    driver.finish("a0", 2)
    driver.finish("a1", 2)
    assert (tenant(driver).running, tenant(driver).queued, tenant(driver).held_bytes) == (0, 0, 0)


def test_a_lost_executor_ends_what_its_tenant_had_running() -> None:
    driver = ready(programs_max=2)
    driver.execute(100, (1,), 10)
    driver.execute(100, (1,), 11)
    driver.kill_executor("a1")
    assert (tenant(driver).running, tenant(driver).held_bytes) == (0, 0)


def test_waiting_for_a_limit_ends_with_a_sentence() -> None:
    driver = ready(programs_max=1)
    driver.core.state.config = type(driver.core.state.config)(quota_wait_ns=5 * 10**9)
    driver.execute(100, (1,), 10)
    driver.execute(100, (1,), 11)
    driver.pass_time(6)
    failure = failure_of(driver, 11)
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert failure.message == (
        "no room in the quota of tenant ads: 1 programs at once (max_programs, set by its administrator) came free within 5 s;"
        " delete arrays or wait for results, then try again"
    )
    assert not tenant(driver).program_line


def test_runs_of_programs_wait_and_count_as_one_each() -> None:
    driver = Driver({"a": ["a0", "a1"], "b": ["b0", "b1"]})
    tenants(driver, programs_max=1)
    driver.open(1, ("*",), tenant="ads")
    chain(driver, A, A, A)
    put(driver, 300, A)
    run(driver, (300,), 310)  # loads the plan
    driver.finish("a0", 3)
    driver.finish("a1", 3)
    assert len(sent(run(driver, (300,), 320), out.RunPlan)) == 2
    assert not sent(run(driver, (300,), 330), out.RunPlan)
    assert blocked_on(driver).startswith("room in the quota of tenant ads: 1 programs at once")
    assert (tenant(driver).running, tenant(driver).queued) == (1, 1)
    driver.finish("a0", 6)
    assert len(sent(driver.finish("a1", 6), out.RunPlan)) == 2
    assert (tenant(driver).running, tenant(driver).queued) == (1, 0)


# ---- memory -----------------------------------------------------------------------------------------------------------


def test_bytes_are_held_over_all_devices_until_they_are_freed() -> None:
    driver = ready()
    assert tenant(driver).held_bytes == 16
    driver.execute(100, (1,), 10)
    assert tenant(driver).held_bytes == 32
    driver.view(20, (10, 0, 1))
    assert tenant(driver).held_bytes == 32
    driver.release(10)
    assert tenant(driver).held_bytes == 32
    driver.release(20)
    assert tenant(driver).held_bytes == 16
    driver.delete(1)
    assert tenant(driver).held_bytes == 0


def test_work_that_finds_no_room_waits_for_it_in_order_and_what_needs_none_goes() -> None:
    driver = ready(sessions=2, memory_bytes_max=48)
    driver.facts["keep"] = facts(outputs=1, donated=(0,), parameters=1)
    driver.compile(200, program="keep")
    assert granted(driver.execute(100, (1,), 10)) == [5010]
    assert tenant(driver).held_bytes == 48
    assert granted(driver.execute(100, (1,), 11, session=2)) == []
    assert blocked_on(driver, 2) == "room in the quota of tenant ads: 48 B of memory (max_memory, set by its administrator)"
    # Its donated argument gives the bytes that its result needs.
    assert granted(driver.execute(200, (10,), 12)) == [5012]
    assert tenant(driver).held_bytes == 48
    assert granted(driver.execute(100, (1,), 13)) == []
    assert granted(driver.release(12)) == [5011]
    assert granted(driver.release(11, session=2)) == [5013]


def test_a_donated_argument_that_another_argument_is_a_view_of_gives_nothing() -> None:
    driver = ready(memory_bytes_max=48)
    driver.facts["keep"] = facts(outputs=1, donated=(0,), parameters=3)
    driver.compile(200, program="keep")
    driver.execute(100, (1,), 10)
    driver.view(11, (10, 0, 2))
    uploads = sent(driver.upload(13, upload=1), out.ExpectUpload)
    assert granted(driver.execute(200, (10, 11, 13), 12)) == []
    driver.release(10)  # the view still reads it
    effects = [each for host, expected in uploads for each in driver.landed(host, expected.transfer_id)]
    assert granted(effects) == []
    assert tenant(driver).held_bytes == 48
    assert "48 B" in blocked_on(driver)


def test_small_work_does_not_pass_large_work_that_waits_for_room() -> None:
    driver = ready(sessions=2, memory_bytes_max=64)
    driver.facts["wide"] = facts(outputs=2)
    driver.compile(200, program="wide")
    driver.put(2)
    assert granted(driver.execute(200, (1,), 10)) == []  # 48 bytes are held and it needs 32
    assert granted(driver.execute(100, (1,), 20, session=2)) == []  # 16 would fit
    assert granted(driver.release(2)) == [5010]
    assert granted(driver.release(10)) == [5020]


def test_a_limit_that_is_set_anew_while_work_waits_for_it_keeps_it_in_line() -> None:
    driver = ready(memory_bytes_max=24)
    driver.facts["giving"] = facts(outputs=2, donated=frozenset({0}))
    driver.compile(200, program="giving")
    assert granted(driver.execute(200, (1,), 10)) == []  # 16 are held; of its 32 it is given 16 by its argument
    driver.fetch(1)  # somebody reads it: nothing is given
    tenants(driver, memory_bytes_max=40)
    assert "40 B" in blocked_on(driver)
    driver.now_ns += 1
    driver.step(events.TenantSet(ADS, Declared()))
    assert (tenant(driver).running, tenant(driver).queued) == (1, 0)


def test_work_that_has_its_turn_among_programs_and_waits_for_memory_holds_up_no_other_program() -> None:
    driver = ready(sessions=3, programs_max=1, memory_bytes_max=112)
    driver.facts["wide"] = facts(outputs=4)
    driver.facts["nothing"] = facts(outputs=0)
    driver.compile(200, program="wide")
    driver.compile(300, session=2, program="nothing")
    driver.execute(100, (1,), 10, session=3)  # 48 and 16 are held
    driver.execute(200, (1,), 20)  # needs 64
    driver.execute(300, (1,), 30, session=2)
    assert list(map(len, (tenant(driver).program_line, tenant(driver).memory_line))) == [2, 0]
    driver.finish("a0", 1)
    assert granted(driver.finish("a1", 1)) == [5030]
    assert list(map(len, (tenant(driver).program_line, tenant(driver).memory_line))) == [0, 1]
    driver.finish("a0", 2)
    driver.finish("a1", 2)
    assert granted(driver.release(10, session=3)) == [5020]


def test_what_is_larger_than_the_whole_limit_fails_at_once_whether_work_waits_or_not() -> None:
    driver = ready(memory_bytes_max=24)
    driver.facts["wide"] = facts(outputs=2)
    driver.compile(200, program="wide")
    driver.execute(200, (1,), 10)
    failure = failure_of(driver, 11)
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert not failure.retryable
    assert failure.message == (
        "this needs 32 B and tenant ads may hold 24 B over all devices (max_memory, set by its administrator); make it smaller,"
        " or have the quota raised"
    )


def test_a_tenant_that_has_it_so_fails_for_want_of_memory() -> None:
    driver = ready(memory_bytes_max=24, waits=False)
    driver.execute(100, (1,), 10)
    driver.put(2)
    for number in (10, 2):
        failure = failure_of(driver, number)
        assert failure.reason is Reason.RESOURCE_EXHAUSTED
        assert failure.message.startswith("this needs 16 B; tenant ads holds 16 B of 24 B (max_memory, set by its administrator)")


@pytest.mark.parametrize("how", ["inline", "upload"])
def test_arrays_wait_for_room_before_their_bytes_are_asked_for(how: str) -> None:
    driver = ready(memory_bytes_max=24)
    effects = driver.put(2) if how == "inline" else driver.upload(2, 7)
    assert not sent(effects, out.PlaceArray)
    assert not replies(effects, out.UploadGrant)
    driver.execute(100, (2,), 10)
    effects = driver.release(1)
    assert len(sent(effects, out.PlaceArray)) == 2
    assert bool(replies(effects, out.UploadGrant)) == (how == "upload")
    assert tenant(driver).held_bytes == 16
    assert driver.core.state.islands["a"].keeping.total == 0  # type: ignore[index]


def test_an_array_that_is_dropped_while_it_waits_leaves_the_line() -> None:
    driver = ready(memory_bytes_max=24)
    driver.put(2)
    driver.put(3)
    driver.release(2)
    assert len(tenant(driver).memory_line) == 1
    assert len(sent(driver.release(1), out.PlaceArray)) == 2
    driver.close()
    assert (len(tenant(driver).memory_line), tenant(driver).held_bytes) == (0, 0)


def test_copies_wait_for_room() -> None:
    driver = ready(memory_bytes_max=24)
    assert not sent(driver.copy(2, 1, (1, 0)), out.PlaceArray)
    driver.release(1)  # the copy still reads it
    assert len(tenant(driver).memory_line) == 1
    assert sent(driver.step(events.TenantSet(ADS, Declared(memory_bytes_max=32))), out.PlaceArray)
    assert not tenant(driver).memory_line


def test_bytes_are_integrated_over_time() -> None:
    driver = ready()
    start = tenant(driver).byte_ns
    driver.pass_time(10)
    assert tenant(driver).byte_ns - start == 16 * 10 * 10**9
    driver.execute(100, (1,), 10)
    driver.pass_time(5)
    assert tenant(driver).byte_ns - start == 16 * 10 * 10**9 + 32 * 5 * 10**9


# ---- sessions and devices ---------------------------------------------------------------------------------------------


def test_sessions_beyond_the_limit_wait_until_one_ends() -> None:
    driver = Driver()
    tenants(driver, sessions_max=1)
    assert replies(driver.open(1, tenant="ads"), out.WelcomeSession)
    assert not replies(driver.open(2, tenant="ads"), out.WelcomeSession)
    assert replies(driver.open(3), out.WelcomeSession)
    assert not replies(driver.open(4, tenant="ads"), out.WelcomeSession)
    closed = driver.close(1)
    assert [send.session for send in closed if isinstance(send, out.SendToSession)] == [2]
    assert take(driver.core.state, ADS).sessions == 2
    refused = only(replies(driver.pass_time(130), out.RefuseSession))
    assert refused.failure.reason is Reason.RESOURCE_EXHAUSTED
    assert "it waits for room in the quota of tenant ads: 1 sessions at once (max_sessions" in refused.failure.message


def test_sessions_beyond_the_limit_are_refused_if_the_tenant_has_it_so() -> None:
    driver = Driver()
    tenants(driver, sessions_max=1, waits=False)
    driver.open(1, tenant="ads")
    failure = only(replies(driver.open(2, tenant="ads"), out.RefuseSession)).failure
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert "1 sessions at once (max_sessions, set by its administrator); close a session" in failure.message


def test_a_session_is_shown_no_more_devices_than_its_tenant_may_have() -> None:
    driver = Driver({"a": ["a0", "a1"], "b": ["b0", "b1"]}, devices=2)
    tenants(driver, devices_max=5)
    welcome = only(replies(driver.open(1, ("*",), tenant="ads"), out.WelcomeSession))
    assert [(device.island, device.host) for device in welcome.devices] == [
        ("a", "a0"), ("a", "a0"), ("a", "a1"), ("a", "a1"), ("b", "b0")
    ]  # fmt: skip
    assert not replies(driver.open(2, ("a",), tenant="ads"), out.WelcomeSession)
    assert replies(driver.step(events.TenantSet(ADS, Declared(devices_max=9))), out.WelcomeSession)
    driver.compile(100, (0, 1, 2, 3), session=1)
    driver.put(1, (0, 1, 2, 3))
    assert granted(driver.execute(100, (1,), 10)) == [5010]


def test_slices_count_and_wait_for_devices() -> None:
    driver = Driver({"a": ["a0", "a1"]}, devices=1, pool_slices=8)
    tenants(driver, devices_max=4)
    driver.open(1, tenant="ads")
    assert only(replies(driver.add_slice(1, 2), out.SliceAdded)).failure is None
    never = only(replies(driver.add_slice(2, 3, wait=True), out.SliceAdded)).failure
    assert never is not None
    assert take(driver.core.state, ADS).devices == 4
    waiting = only(replies(driver.add_slice(3, 1, wait=True), out.SliceWaiting))
    assert "room in the quota of tenant ads: 4 devices (max_devices, set by its administrator), of which 4" in waiting.text
    refused = only(replies(driver.add_slice(4, 1), out.SliceAdded)).failure
    assert refused is not None
    assert refused.reason is Reason.RESOURCE_EXHAUSTED
    assert only(replies(driver.release_slice(1), out.SliceAdded)).failure is None
