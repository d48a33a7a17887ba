"""What goes wrong with runs: failed nodes and lost islands, named by the node; what depends on it fails, what is whole stays."""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import IslandName
from pathways_server.core import effects as out
from pathways_server.core.transitions import BufferState

from tests.unit.core.core_driver import Driver, gid, replies, sent
from tests.unit.core.core_graphs import Writer
from tests.unit.core.core_runs import (
    A0,
    A1,
    B0,
    PROGRAM,
    A,
    B,
    buffer,
    chain,
    define,
    driver_of,
    kill,
    node_failed,
    put,
    run,
)

BROKEN = Failure(Reason.EXECUTION_ERROR, "library call failed", host="a0", id="h1")


def fork(driver: Driver) -> None:
    """Node 1 on a makes result 0, node 2 on b result 1 from it; node 3 on b makes result 2 from an argument of its own."""
    writer = Writer(driver, (A, B), first_executable=PROGRAM + 1)
    first = writer.node(writer.computation((A,), (A,)), (0, 0), name="forward")
    second = writer.node(writer.computation((B,), (B,)), (first, 0), name="middle")
    third = writer.node(writer.computation((B,), (B,)), (0, 1), name="apart")
    define(driver, writer.program((first, 0), (second, 0), (third, 0)))
    put(driver, 10, A)
    put(driver, 11, B)


def test_a_failed_node_is_named_with_its_place_in_the_program() -> None:
    driver = driver_of()
    fork(driver)
    run(driver, (10, 11), 20)
    node_failed(driver, "a0", 20, 1, BROKEN)
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.message == "node 1 of 3 (forward, called at train.py:1) of program train failed: library call failed"
    assert (failure.reason, failure.host, failure.id) == (Reason.EXECUTION_ERROR, "a0", "h1")
    named = {name: failure.metadata[name] for name in ("node", "node_count", "program", "source")}
    assert named == {"node": "1", "node_count": "3", "program": "train", "source": "train.py:1"}


def test_results_that_need_the_failed_node_fail_on_every_island_and_the_others_stay() -> None:
    driver = driver_of()
    fork(driver)
    run(driver, (10, 11), 20)
    effects = node_failed(driver, "a0", 20, 1, BROKEN)
    assert buffer(driver, 21).failure is buffer(driver, 20).failure is not None
    assert buffer(driver, 22).state is BufferState.PRESENT
    assert sent(effects, out.EndRun) == [], "all of it was granted"
    assert [host for host, _ in sent(effects, out.Poison)] == ["a1", "b0", "b1"]


def test_what_was_computed_on_another_island_from_a_failed_result_fails_too() -> None:
    driver = driver_of()
    fork(driver)
    driver.compile(1, devices=(2, 3))
    run(driver, (10, 11), 20)
    driver.execute(1, (21,), 30)
    driver.execute(1, (22,), 31)
    driver.finish("b0", 4, "b")
    driver.finish("b1", 4, "b")
    assert len(driver.core.state.islands[IslandName("b")].inflight) == 3, "what b made may still turn out to be wrong"
    node_failed(driver, "a0", 20, 1, BROKEN)
    assert buffer(driver, 30).failure is buffer(driver, 20).failure
    assert buffer(driver, 31).state is BufferState.PRESENT
    driver.finish("a0", 1)
    driver.finish("a1", 1)
    assert len(driver.core.state.islands[IslandName("b")].inflight) == 0


def test_a_run_that_takes_a_failed_result_hands_it_on() -> None:
    driver = driver_of()
    fork(driver)
    chain(driver, B, A, program=800)
    run(driver, (10, 11), 20)
    run(driver, (21,), 30, program=800)
    node_failed(driver, "a0", 20, 1, BROKEN)
    assert buffer(driver, 30).failure is buffer(driver, 20).failure is not None


def test_a_value_is_in_doubt_until_every_island_of_its_run_has_ended() -> None:
    driver = driver_of()
    fork(driver)
    run(driver, (10, 11), 20)
    assert sent(driver.fetch(21, size=128), out.FetchShard) == []
    driver.finish("b0", 2, "b")
    assert sent(driver.finish("b1", 2, "b"), out.FetchShard) == []
    driver.finish("a0", 1)
    assert [host for host, _ in sent(driver.finish("a1", 1), out.FetchShard)] == ["b0"]


def test_a_run_whose_gangs_have_one_member_each_is_read_at_once() -> None:
    driver = driver_of()
    chain(driver, A0, B0)
    put(driver, 10, A0)
    run(driver, (10,), 20)
    assert [host for host, _ in sent(driver.fetch(20, size=256), out.FetchShard)] == ["b0"]


def test_nothing_more_is_granted_of_a_run_with_a_failed_node() -> None:
    driver = driver_of(window_gangs=8)
    chain(driver, *[A, B] * 10)
    put(driver, 10, A)
    run(driver, (10,), 20)
    effects = node_failed(driver, "a0", 20, 2, BROKEN)
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.message.startswith("node 3 of 20 (step 3, called at train.py:3) of program train failed")
    assert [(host, end.failure) for host, end in sent(effects, out.EndRun)] == [
        (host, failure) for host in ("a0", "a1", "b0", "b1")
    ]
    for host in ("a0", "a1", "b0", "b1"):
        assert sent(driver.finish(host, 8, host[0]), out.GrantRun) == []
    assert len(driver.core.state.islands[IslandName("a")].runs) == 0


def test_a_kill_at_node_57_of_128_names_node_57() -> None:
    driver = driver_of()
    chain(driver, *[A, B] * 64)
    put(driver, 10, A)
    run(driver, (10,), 20)
    effects = kill(driver, "a1", finished=28)  # nodes 1, 3, ... 55 of a
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.message.startswith("node 57 of 128 (step 57, called at train.py:57) of program train failed: host a1 of")
    assert (failure.reason, failure.host) == (Reason.SLICE_LOST, "a1")
    assert [(host, end.failure) for host, end in sent(effects, out.EndRun)] == [("b0", failure), ("b1", failure)]


def test_what_was_made_whole_on_the_other_island_survives_a_loss() -> None:
    driver = driver_of()
    chain(driver, A0, B0, A0)
    writer = Writer(driver, (A0,), first_executable=700)
    first = writer.node(writer.computation((B0,), (B0,)), (0, 0))
    second = writer.node(writer.computation((A0,), (A0,)), (first, 0))
    third = writer.node(writer.computation((B0,), (B0,)), (second, 0))
    define(driver, writer.program((first, 0), (third, 0)), 600)
    put(driver, 10, A0)
    run(driver, (10,), 20, program=600)
    driver.finish("b0", 1, "b")
    kill(driver, "a0", finished=0)
    assert buffer(driver, 20).state is BufferState.PRESENT
    assert buffer(driver, 21).state is BufferState.POISONED
    assert len(sent(driver.fetch(20, size=256), out.FetchShard)) == 1


def test_gangs_that_wait_for_a_lost_island_leave_the_window_with_it_although_nothing_of_theirs_failed() -> None:
    driver = driver_of()
    writer = Writer(driver, (A,), first_executable=PROGRAM + 1)
    first = writer.node(writer.computation((A,), (A,)), (0, 0))
    second = writer.node(writer.computation((B,), (B,)), (first, 0))
    third = writer.node(writer.computation((A,), (A,)), (second, 0))
    define(driver, writer.program((third, 0)))
    put(driver, 10, A)
    run(driver, (10,), 20)
    driver.finish("b0", 1, "b")
    driver.finish("b1", 1, "b")
    island = driver.core.state.islands[IslandName("b")]
    assert island.inflight_gangs == 1, "what it computed is in doubt until a has ended its part"
    kill(driver, "a0", finished=0)
    assert (island.inflight_gangs, list(island.inflight)) == (0, [])


def test_a_queued_run_survives_a_loss_and_goes_in_the_next_epoch() -> None:
    driver = driver_of()
    chain(driver, A, B)
    put(driver, 10, A, upload=1)
    run(driver, (10,), 20)
    put(driver, 12, A)
    driver.answer_membership = False
    kill(driver, "b1", finished=0)
    assert buffer(driver, 20).state is BufferState.EXPECTED
    driver.answer_membership = True
    driver.lose("b0")
    driver.join("b0", "b")
    assert buffer(driver, 20).state is BufferState.EXPECTED
    transfers = list(driver.core.state.transfers.values())
    effects = [effect for transfer in transfers for effect in driver.landed(transfer.host.name, transfer.id)]
    assert [host for host, _ in sent(effects, out.RunPlan)] == ["a0", "a1", "b0", "b1"]
    assert all(plan.epoch == driver.epoch(host[0]) for host, plan in sent(effects, out.RunPlan))


def test_a_node_that_lacks_bytes_waits_for_the_loss_behind_it() -> None:
    driver = driver_of()
    fork(driver)
    run(driver, (10, 11), 20)
    broken_pull = Failure(Reason.UNAVAILABLE, "connection reset", host="b0", id="h2")
    node_failed(driver, "b0", 20, 1, broken_pull)
    driver.finish("b0", 2, "b")
    driver.finish("b1", 2, "b")
    assert buffer(driver, 21).state is BufferState.PRESENT
    kill(driver, "a0", finished=0)
    failure = buffer(driver, 21).failure
    assert failure is not None
    assert failure.reason is Reason.SLICE_LOST
    assert failure.message.startswith("node 1 of 3 (forward")


def test_a_node_that_lacks_bytes_for_no_other_reason_fails_with_its_own() -> None:
    driver = driver_of()
    fork(driver)
    run(driver, (10, 11), 20)
    node_failed(driver, "b0", 20, 1, Failure(Reason.UNAVAILABLE, "connection reset", host="b0", id="h2"))
    driver.pass_time(0.2)
    failure = buffer(driver, 21).failure
    assert failure is not None
    assert failure.message == "node 2 of 3 (middle, called at train.py:2) of program train failed: connection reset"
    assert buffer(driver, 20).state is BufferState.PRESENT


def test_a_follow_on_failure_on_the_surviving_island_does_not_end_its_epoch() -> None:
    driver = driver_of()
    fork(driver)
    run(driver, (10, 11), 20)
    kill(driver, "a0", finished=0)
    cause = buffer(driver, 21).failure
    assert cause is not None
    node_failed(driver, "b0", 20, 1, cause)
    driver.pass_time(1)
    assert driver.epoch("b") == 1
    assert buffer(driver, 22).failure is cause, "doubtful: it was not known to be whole"


def test_a_cause_reaches_the_client_unchanged() -> None:
    driver = driver_of()
    fork(driver)
    run(driver, (10, 11), 20)
    node_failed(driver, "a0", 20, 1, BROKEN)
    failed = replies(driver.fetch(21, size=128), out.FetchFailed)
    assert [reply.failure for reply in failed] == [buffer(driver, 20).failure]


def test_devices_of_one_host_take_part_only_where_they_launch() -> None:
    driver = driver_of()
    chain(driver, A0, A1)
    put(driver, 10, A0)
    run(driver, (10,), 20)
    kill(driver, "a1", finished=0)
    failure = buffer(driver, 20).failure
    assert failure is not None
    assert failure.message.startswith("node 2 of 2 (step 2")
    assert gid(20) in driver.core.state.sessions[1].handles  # type: ignore[index]
