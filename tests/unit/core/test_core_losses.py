"""Failures: what is lost with an epoch, what survives, and who is told the first cause."""

from __future__ import annotations

from dataclasses import replace

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, Sequence
from pathways_server.core import effects as out
from pathways_server.core import events, story
from pathways_server.core.tenant_records import TenantName

from tests.unit.core.core_driver import Driver, facts, gid, only, replies, sent


def ready(**options: object) -> Driver:
    driver = Driver(**options)  # type: ignore[arg-type]
    driver.open(1, ("*",))
    driver.compile(1)
    driver.put(10)
    return driver


def test_a_dead_executor_fails_what_it_ran_and_loses_what_it_held() -> None:
    driver = ready()
    driver.execute(1, (10,), 20)
    driver.execute(1, (10,), 21)
    driver.finish("a0", 1)
    driver.finish("a1", 1)
    driver.fetch(21)
    effects = driver.kill_executor("a1", tail="Segmentation fault")
    failure = only(replies(effects, out.FetchFailed)).failure
    assert (failure.reason, failure.host) == (Reason.SLICE_LOST, "a1")
    assert failure.message == "host a1 of island a was lost in epoch 1: its executor ended (signal 9)"
    assert failure.metadata["exit"] == "signal 9"
    lost = only(replies(driver.fetch(20), out.FetchFailed)).failure
    assert (lost.reason, lost.host, lost.id) == (Reason.BUFFER_LOST, "a1", failure.id)
    assert only(replies(driver.fetch(10), out.FetchFailed)).failure is lost


def test_last_words_of_an_executor_are_told_to_administrators_and_to_no_client() -> None:
    driver = ready()
    driver.execute(1, (10,), 20)
    driver.kill_executor("a1", tail="a line of a stranger")
    failures = [only(replies(driver.fetch(array), out.FetchFailed)).failure for array in (10, 20)]
    identifier = failures[0].id
    assert not [effect for effect in driver.log if not isinstance(effect, out.Log) and "stranger" in repr(effect)]
    for tenant, known in ((None, True), (TenantName("default"), False)):
        lines = story.tell(driver.core.state, driver.now_ns, "FAILURE", 0, identifier, tenant)
        assert lines
        assert any("stranger" in line.text for line in lines) == known


def test_survivors_end_the_epoch_and_the_island_forms_again() -> None:
    driver = ready()
    effects = driver.kill_executor("a1")
    assert [(host, command.epoch) for host, command in sent(effects, out.EpochEnd)] == [("a0", 1), ("a1", 1)]
    assert [(host, command.epoch) for host, command in sent(effects, out.EpochBegin)] == [("a0", 2), ("a1", 2)]
    driver.put(30)
    assert [p.sequence for _, p in sent(driver.execute(1, (30,), 31), out.Prepare)] == [1, 1]


def test_what_was_not_granted_and_needs_nothing_lost_runs_in_the_next_epoch() -> None:
    driver = ready(window_gangs=1)
    driver.execute(1, (), 20)
    driver.execute(1, (), 21)
    driver.execute(1, (10,), 22)
    effects = driver.kill_executor("a0")
    assert {p.first_result_id for _, p in sent(effects, out.Prepare)} == {gid(21)}
    assert only(replies(driver.fetch(20), out.FetchFailed)).failure.reason is Reason.SLICE_LOST
    driver.finish("a0", 1)
    driver.finish("a1", 1)
    assert only(replies(driver.fetch(22), out.FetchFailed)).failure.reason is Reason.BUFFER_LOST


def test_an_array_made_while_the_island_forms_is_placed_when_it_is_active() -> None:
    driver = ready()
    driver.lose("a1")
    assert sent(driver.put(30), out.PlaceArray) == []
    driver.execute(1, (30,), 31)
    driver.fetch(31)
    effects = driver.join("a1", "a")
    assert len(sent(effects, out.PlaceArray)) == len(sent(effects, out.Prepare)) == 2
    assert len(sent(effects, out.FetchShard)) == 1


def test_a_read_of_a_value_that_was_freed_meanwhile_ends_too() -> None:
    driver = ready()
    driver.fetch(10)
    driver.release(10)
    assert only(replies(driver.kill_executor("a1"), out.FetchFailed)).failure.reason is Reason.BUFFER_LOST


def test_the_other_island_goes_on() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]})
    driver.open(1, ("*",))
    driver.compile(1, devices=(1,))
    driver.put(10, devices=(1,))
    driver.put(11, devices=(0,))
    pull = only(sent(driver.copy(12, 11, (1,)), out.PullShard))[1]
    effects = driver.kill_executor("a0")
    assert only(sent(effects, out.CancelTransfer)) == ("b0", out.CancelTransfer((pull.transfer_id,)))
    assert only(replies(driver.fetch(12), out.FetchFailed)).failure.reason is Reason.BUFFER_LOST
    assert len(sent(driver.execute(1, (10,), 20), out.Prepare)) == 1


def test_uploads_waits_inspections_and_callbacks_of_a_lost_island_end() -> None:
    driver = ready()
    number = next(iter(driver.core.state.sessions))
    driver.upload(11, upload=5)
    driver.wait(10, wait=6)
    driver.step(events.InspectRequested(number, 7, gid(1), 1))
    driver.step(events.CallbackCalled(HostName("a0"), 8, number, 1, b"", 0))
    effects = driver.kill_executor("a0")
    assert only(replies(effects, out.UploadWithdrawn)).upload_id == 5
    ready_reply = only(replies(effects, out.Ready))
    assert ready_reply.failure is not None
    inspected = only(replies(effects, out.Inspected))
    assert inspected.failure is not None
    assert inspected.failure.reason is Reason.SLICE_LOST
    assert len(replies(effects, out.CallbackCancelled)) == 1
    assert "re-forms" in only(replies(effects, out.Notice)).text


def test_a_failed_node_poisons_its_results_and_everything_computed_from_them() -> None:
    driver = ready()
    driver.execute(1, (10,), 20)
    driver.execute(1, (20,), 21)
    driver.execute(1, (10,), 22)
    driver.fetch(21)
    cause = Failure(Reason.EXECUTION_ERROR, "potrf failed", host="a0")
    effects = driver.step(events.NodeFailed(HostName("a0"), gid(5020), Sequence(1), cause))
    assert only(replies(effects, out.FetchFailed)).failure is cause
    poisons = [(host, command.ids) for host, command in sent(effects, out.Poison)]
    assert ("a1", (gid(20),)) in poisons
    assert ("a0", (gid(20),)) not in poisons
    assert ("a1", (gid(21),)) in poisons
    assert replies(driver.fetch(22, fetch=2), out.FetchFailed) == []
    driver.execute(1, (21,), 23)
    assert only(replies(driver.fetch(23, fetch=3), out.FetchFailed)).failure is cause


def test_a_gang_that_finished_before_its_input_is_known_to_have_failed_is_poisoned_too() -> None:
    driver = Driver()
    driver.facts["f"] = facts(fallible=True, digest=b"f")
    driver.open()
    driver.compile(1, program="f")
    driver.compile(2, devices=(1,))
    driver.put(10)
    driver.execute(1, (10,), 20)
    driver.view(30, (20, 1, 1))
    driver.execute(2, (30,), 31)
    driver.finish("a1", 2)
    assert sent(driver.fetch(31), out.FetchShard) == []
    cause = Failure(Reason.EXECUTION_ERROR, "potrf failed", host="a0")
    effects = driver.step(events.NodeFailed(HostName("a0"), gid(5020), Sequence(1), cause))
    assert only(replies(effects, out.FetchFailed)).failure is cause


def test_a_read_behind_a_fallible_gang_waits_for_its_end_on_every_member() -> None:
    driver = Driver()
    driver.facts["f"] = facts(fallible=True, digest=b"f")
    driver.open()
    driver.compile(1, program="f")
    driver.put(10)
    driver.execute(1, (10,), 20)
    assert sent(driver.fetch(20), out.FetchShard) == []
    driver.finish("a0", 1)
    assert len(sent(driver.finish("a1", 1), out.FetchShard)) == 1


def test_a_missed_gang_is_sent_again_and_an_unknown_one_ends_the_epoch() -> None:
    driver = ready()
    first = sent(driver.execute(1, (10,), 20), out.Prepare)
    again = driver.step(events.SequenceMissed(HostName("a1"), driver.epoch(), Sequence(1)))
    assert sent(again, out.Prepare) == [first[1]]
    driver.step(events.SequenceMissed(HostName("a1"), driver.epoch(), Sequence(9)))
    assert driver.epoch() == 2


def test_hosts_that_miss_the_same_gang_do_not_use_up_each_others_questions() -> None:
    driver = ready()
    driver.execute(1, (10,), 20)
    for _ in range(8):
        for host in ("a0", "a1"):
            again = driver.step(events.SequenceMissed(HostName(host), driver.epoch(), Sequence(1)))
            assert [name for name, _ in sent(again, out.Prepare)] == [host]
    driver.step(events.SequenceMissed(HostName("a1"), driver.epoch(), Sequence(1)))
    assert driver.epoch() == 2, "a host that goes on asking has lost its place"


def test_a_late_report_of_a_missed_gang_is_ignored_when_the_host_has_finished_it() -> None:
    driver = ready()
    driver.execute(1, (10,), 20)
    driver.finish("a0", 1)
    driver.finish("a1", 1)
    again = driver.step(events.SequenceMissed(HostName("a1"), driver.epoch(), Sequence(1)))
    assert sent(again, out.Prepare) == []
    assert driver.epoch() == 1


def test_a_host_that_reports_what_it_was_never_given_ends_the_epoch() -> None:
    driver = ready()
    driver.execute(1, (10,), 20)
    driver.finish("a0", 2)
    assert driver.epoch() == 2


def test_finished_gangs_leave_nothing_behind() -> None:
    driver = ready()
    for index in range(5):
        driver.execute(1, (10,), 20 + index)
        driver.release(20 + index)
    driver.finish("a1", 5)
    driver.finish("a0", 5)
    island = driver.core.state.islands[IslandName("a")]
    assert not island.inflight
    assert not any(host.unfinished for host in island.members)
    assert list(driver.core.state.sessions[next(iter(driver.core.state.sessions))].buffers) == [gid(10)]


def broken_collective(driver: Driver) -> list[out.Effect]:
    """a0 reports that its gang lost the connection to another member, and its read of the result fails with that."""
    driver.execute(1, (10,), 20)
    failure = Failure(Reason.SLICE_LOST, "a collective lost its connection", host="a0", retryable=True)
    effects = driver.step(events.NodeFailed(HostName("a0"), gid(5020), Sequence(1), failure))
    effects += driver.finish("a0", 1)
    (read,) = [command for _, command in sent(driver.fetch(20), out.FetchShard)]
    return effects + driver.step(events.ShardFetched(HostName("a0"), read.fetch_id, b"", failure))


def test_a_broken_collective_is_blamed_on_the_member_that_died() -> None:
    driver = ready()
    assert replies(broken_collective(driver), out.FetchFailed) == []
    failure = only(replies(driver.kill_executor("a1"), out.FetchFailed)).failure
    assert (failure.host, failure.message) == ("a1", "host a1 of island a was lost in epoch 1: its executor ended (signal 9)")


def test_a_broken_collective_is_blamed_on_the_member_that_aborted_though_that_is_heard_of_later() -> None:
    driver = ready()
    assert replies(broken_collective(driver), out.FetchFailed) == []
    driver.pass_time(0.1)
    assert driver.kill_executor("a1", signal=6) == []
    driver.pass_time(0.11)
    driver.fetch(10, fetch=2)
    effects = driver.pass_time(0.1)
    failures = [reply.failure for reply in replies(effects, out.FetchFailed)]
    assert all(
        failure.message.endswith("a1 of island a was lost in epoch 1: its executor ended (signal 6)") for failure in failures
    )
    assert {failure.host for failure in failures} == {"a1"}


def test_an_executor_that_aborts_with_the_coordination_service_is_not_blamed_for_the_host_that_took_it_along() -> None:
    driver = ready()
    driver.fetch(10)
    assert driver.kill_executor("a1", signal=6) == []
    failure = only(replies(driver.lose("a0"), out.FetchFailed)).failure
    assert failure.host == "a0"
    assert "its connection ended" in failure.message
    assert driver.pass_time(0.3) == []


def test_an_executor_that_aborts_alone_is_blamed_after_a_moment_and_that_of_rank_0_at_once() -> None:
    driver = ready()
    driver.fetch(10)
    assert driver.kill_executor("a1", signal=6) == []
    assert driver.pass_time(0.1) == []
    effects = driver.pass_time(0.2)
    assert only(replies(effects, out.FetchFailed)).failure.message.endswith("its executor ended (signal 6)")
    assert [(host, command.epoch) for host, command in sent(effects, out.EpochBegin)] == [("a0", 2), ("a1", 2)]
    assert driver.kill_executor("a0", signal=6) != []


def test_a_broken_collective_is_blamed_on_nobody_while_a_host_has_no_connection() -> None:
    driver = ready()
    broken_collective(driver)
    incarnation = driver.core.state.hosts[HostName("a1")].incarnation
    driver.step(events.HostDetached(HostName("a1"), incarnation, "the connection broke"))
    assert [effect for _ in range(5) for effect in replies(driver.pass_time(0.2), out.FetchFailed)] == []
    assert only(replies(driver.lose("a1"), out.FetchFailed)).failure.host == "a1"
    driver = ready()
    broken_collective(driver)
    driver.step(events.HostDetached(HostName("a1"), incarnation, "the connection broke"))
    driver.pass_time(0.3)
    driver.step(events.HostResumed(HostName("a1"), incarnation))
    assert [reply.failure.host for _ in range(3) for reply in replies(driver.pass_time(0.2), out.FetchFailed)] == ["a0"]


def test_a_broken_collective_without_a_death_ends_the_epoch_since_xla_cannot_mend_the_group() -> None:
    driver = ready()
    broken_collective(driver)
    assert replies(driver.pass_time(0.1), out.FetchFailed) == []
    effects = driver.pass_time(0.2)
    failure = only(replies(effects, out.FetchFailed)).failure
    assert failure.host == "a0"
    assert failure.message.endswith("host a0 of island a was lost in epoch 1: a collective lost its connection")
    assert [(host, command.epoch) for host, command in sent(effects, out.EpochBegin)] == [("a0", 2), ("a1", 2)]


def test_programs_that_a_broken_collective_failed_on_all_members_are_named() -> None:
    driver = ready()
    driver.facts["total"] = replace(facts(1), name="total")
    driver.compile(2, program="total")
    driver.execute(2, (10,), 20)
    driver.execute(2, (10,), 21)
    failure = Failure(Reason.SLICE_LOST, "a collective lost its connection", retryable=True)
    for sequence in (1, 2):
        for host in ("a1", "a0"):
            driver.step(events.NodeFailed(HostName(host), gid(5019 + sequence), Sequence(sequence), replace(failure, host=host)))
            driver.finish(host, sequence)
    driver.fetch(20)
    effects = [*driver.pass_time(0.3), *driver.fetch(21, fetch=2)]
    failures = [reply.failure for reply in replies(effects, out.FetchFailed)]
    assert {each.reason for each in failures} == {Reason.SLICE_LOST}
    wanted = "program total failed: host a1 of island a was lost in epoch 1: a collective lost its connection"
    assert [each.message for each in failures] == [wanted] * 2


def test_a_gang_that_lost_a_host_gets_its_hosts_back_beside_an_endless_stream_of_small_work() -> None:
    driver = Driver(window_gangs=2)
    driver.open(1, ("*",))
    driver.open(2, ("*",))
    driver.compile(1)
    driver.compile(1, devices=(0,), program="small", session=2)
    driver.execute(1, (), 20)
    driver.kill_executor("a1")
    # The stream is there first, and there is always more of it.
    for result in range(100, 140):
        driver.execute(1, (), result, session=2)
    driver.execute(1, (), 21)

    def given() -> list[int]:
        """The results of what a0 was granted in this epoch, in order."""
        prepares = [prepare for host, prepare in sent(driver.log, out.Prepare) if host == "a0" and prepare.epoch == 2]
        return [prepare.first_result_id for prepare in prepares]

    for sequence in range(1, 40):
        for host in ("a0", "a1"):
            if driver.core.state.hosts[HostName(host)].last_sequence >= sequence:
                driver.finish(host, sequence)
        driver.execute(1, (), 200 + sequence, session=2)
    assert len(given()) >= 39
    assert gid(21) in given()[:6], "the stream was served first"
