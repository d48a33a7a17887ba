"""The order of gangs: grants, sequences and previous, lanes taking turns, donation, poison before the grant."""

from __future__ import annotations

import pytest
from pathways_common.model.failure import Reason
from pathways_server.core import effects as out

from tests.unit.core.core_driver import Driver, facts, gid, only, replies, sent


def ready(**options: object) -> Driver:
    driver = Driver(**options)  # type: ignore[arg-type]
    driver.open()
    driver.compile(1)
    driver.put(10)
    return driver


def test_a_gang_goes_to_every_member_with_its_grant() -> None:
    driver = ready()
    prepares = sent(driver.execute(1, (10,), 20), out.Prepare)
    assert [host for host, _ in prepares] == ["a0", "a1"]
    assert prepares[0][1] == prepares[1][1]
    prepare = prepares[0][1]
    assert (prepare.sequence, prepare.previous, prepare.epoch) == (1, 0, 1)
    assert (prepare.arguments, prepare.first_result_id) == ((gid(10),), gid(20))


def test_previous_is_the_last_sequence_of_that_host() -> None:
    driver = ready()
    driver.compile(2, devices=(0,))
    driver.put(11, devices=(0,))
    driver.execute(1, (10,), 20)
    driver.execute(2, (11,), 21)
    prepares = sent(driver.execute(1, (10,), 22), out.Prepare)
    assert [(host, prepare.sequence, prepare.previous) for host, prepare in prepares] == [("a0", 3, 2), ("a1", 3, 1)]


def test_an_id_that_came_before_is_refused_since_hosts_would_take_it_for_a_repetition() -> None:
    driver = ready()
    assert len(sent(driver.execute(1, (10,), 20, execution=70), out.Prepare)) == 2
    for result, execution in ((21, 70), (22, 69)):
        assert driver.execute(1, (10,), result, execution=execution) == []
        failure = only(replies(driver.fetch(result), out.FetchFailed)).failure
        assert failure.message == f"execution {execution} came after execution 70; ids of executions and runs must rise"
    assert len(sent(driver.execute(1, (10,), 23, execution=71), out.Prepare)) == 2


def test_an_execution_waits_for_its_bytes_and_keeps_its_session_behind_it() -> None:
    driver = ready()
    driver.open(2)
    driver.compile(1, session=2)
    driver.put(10, session=2)
    targets = only(replies(driver.upload(11, upload=1), out.UploadGrant)).targets
    assert sent(driver.execute(1, (11,), 20), out.Prepare) == []
    assert sent(driver.execute(1, (10,), 21), out.Prepare) == []
    assert len(sent(driver.execute(1, (10,), 20, session=2), out.Prepare)) == 2
    driver.landed(*targets[0])
    prepares = sent(driver.landed(*targets[1]), out.Prepare)
    assert [prepare.first_result_id for _, prepare in prepares] == [gid(20), gid(20), gid(21), gid(21)]
    assert [prepare.sequence for _, prepare in prepares] == [2, 2, 3, 3]


def test_sessions_take_turns_when_the_window_is_full() -> None:
    driver = ready(window_gangs=1)
    driver.open(2)
    driver.compile(1, session=2)
    driver.put(10, session=2)
    driver.execute(1, (10,), 20)
    for index in range(3):
        driver.execute(1, (10,), 30 + index)
    for index in range(3):
        driver.execute(1, (10,), 40 + index, session=2)
    order = []
    for sequence in range(1, 7):
        driver.finish("a0", sequence)
        order += [prepare.first_result_id for _, prepare in sent(driver.finish("a1", sequence), out.Prepare)][:1]
    assert order == [gid(30), gid(40, 2), gid(31), gid(41, 2), gid(32), gid(42, 2)]


def test_a_poisoned_argument_poisons_the_results_with_the_first_cause_and_sends_nothing() -> None:
    driver = ready()
    failure = only(replies(driver.fetch(99), out.FetchFailed)).failure
    assert failure.reason is Reason.INVALID_ARGUMENT
    assert sent(driver.execute(1, (99,), 20), out.Prepare) == []
    assert sent(driver.execute(1, (20,), 21), out.Prepare) == []
    first = only(replies(driver.fetch(20), out.FetchFailed)).failure
    assert only(replies(driver.fetch(21), out.FetchFailed)).failure is first


@pytest.mark.parametrize(("arguments", "words"), [((11,), "does not lie on"), ((10, 10), "takes 1 arguments and got 2")])
def test_wrong_arguments_are_answered_where_the_result_is_read(arguments: tuple[int, ...], words: str) -> None:
    driver = Driver()
    driver.facts["p"] = facts(parameters=1)
    driver.open()
    driver.compile(1)
    driver.put(10)
    driver.put(11, devices=(1, 0))
    assert sent(driver.execute(1, arguments, 20), out.Prepare) == []
    failure = only(replies(driver.fetch(20), out.FetchFailed)).failure
    assert failure.reason is Reason.INVALID_ARGUMENT
    assert words in failure.message


def test_a_donated_argument_is_gone_after_the_grant() -> None:
    driver = Driver()
    driver.facts["p"] = facts(donated=(0,))
    driver.open()
    driver.compile(1)
    driver.put(10)
    assert sent(driver.execute(1, (10,), 20), out.Prepare)[0][1].non_donatable == ()
    assert only(replies(driver.fetch(10), out.FetchFailed)).failure.reason is Reason.DELETED
    assert sent(driver.execute(1, (10,), 21), out.Prepare) == []
    freed = sent(driver.release(10), out.Free)
    assert [command.ids for _, command in freed] == [(gid(10),)] * 2


@pytest.mark.parametrize("reader", ["fetch", "copy", "view", "twice"])
def test_an_argument_that_somebody_else_reads_is_not_donated(reader: str) -> None:
    driver = Driver()
    driver.facts["p"] = facts(donated=(0,))
    driver.open()
    driver.compile(1)
    driver.put(10)
    if reader == "fetch":
        driver.fetch(10)
    elif reader == "copy":
        driver.copy(11, 10, (1, 0))
    elif reader == "view":
        driver.view(11, (10, 0, 1))
    arguments = (10, 10) if reader == "twice" else (10,)
    assert sent(driver.execute(1, arguments, 20), out.Prepare)[0][1].non_donatable == (0,)
    assert replies(driver.fetch(10, fetch=2), out.FetchFailed) == []


def test_a_view_is_made_on_hosts_once_and_freed_there() -> None:
    driver = ready()
    driver.compile(2, devices=(1,))
    driver.view(12, (10, 1, 1))
    effects = driver.execute(2, (12,), 20)
    host, placed = only(sent(effects, out.PlaceView))
    assert (host, placed.view_id, placed.shards) == ("a1", gid(12), (out.LocalShard(gid(10), 0),))
    assert only(sent(effects, out.Prepare))[1].arguments == (gid(12),)
    assert sent(driver.execute(2, (12,), 21), out.PlaceView) == []
    assert sent(driver.release(12), out.Free) == [("a1", out.Free((gid(12),)))]


def test_a_view_released_before_its_launch_is_freed_behind_it() -> None:
    driver = ready(window_gangs=1)
    driver.compile(2, devices=(1,))
    driver.view(12, (10, 1, 1))
    driver.execute(1, (10,), 19)
    driver.execute(2, (12,), 20)
    assert sent(driver.release(12), out.Free) == []
    driver.finish("a0", 1)
    effects = driver.finish("a1", 1)
    assert [type(e.command) for e in effects if isinstance(e, out.SendToHost)] == [out.PlaceView, out.Prepare, out.Free]


def test_a_view_of_a_whole_buffer_needs_nothing_on_hosts() -> None:
    driver = ready()
    driver.view(12, (10, 0, 2))
    effects = driver.execute(1, (12,), 20)
    assert sent(effects, out.PlaceView) == []
    assert sent(effects, out.Prepare)[0][1].arguments == (gid(10),)


def test_a_view_assembled_from_single_buffers_runs_on_their_devices() -> None:
    driver = ready()
    driver.put(13, devices=(0,))
    driver.put(14, devices=(1,))
    driver.view(15, (13, 0, 1), (14, 0, 1))
    placed = sent(driver.execute(1, (15,), 20), out.PlaceView)
    assert [(host, command.shards) for host, command in placed] == [
        ("a0", (out.LocalShard(gid(13), 0),)),
        ("a1", (out.LocalShard(gid(14), 0),)),
    ]


def test_a_release_leaves_behind_the_launch_that_uses_the_value() -> None:
    driver = ready()
    targets = only(replies(driver.upload(11, upload=1), out.UploadGrant)).targets
    driver.execute(1, (11,), 20)
    assert sent(driver.release(11, 20), out.Free) == []
    driver.landed(*targets[0])
    effects = driver.landed(*targets[1])
    commands = [type(effect.command) for effect in effects if isinstance(effect, out.SendToHost)]
    assert commands == [out.Prepare, out.Prepare, out.Free, out.Free]
    assert set(sent(effects, out.Free)[0][1].ids) == {gid(11), gid(20)}


def test_what_was_asked_before_a_delete_still_gets_the_value() -> None:
    driver = ready()
    targets = only(replies(driver.upload(11, upload=1), out.UploadGrant)).targets
    driver.execute(1, (11,), 20)
    driver.delete(11)
    assert only(replies(driver.fetch(11), out.FetchFailed)).failure.reason is Reason.DELETED
    driver.landed(*targets[0])
    assert len(sent(driver.landed(*targets[1]), out.Prepare)) == 2


def test_work_for_an_island_that_does_not_come_back_fails_saying_so() -> None:
    driver = ready()
    driver.lose("a1")
    driver.compile(2)
    driver.execute(1, (), 20)
    driver.fetch(20)
    assert replies(driver.pass_time(59), out.FetchFailed) == []
    failure = only(replies(driver.pass_time(1), out.FetchFailed)).failure
    assert failure.reason is Reason.UNAVAILABLE
    assert "host a1" in failure.message
