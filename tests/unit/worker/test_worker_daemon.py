"""The worker daemon between a fake controller and a fake executor: what goes through, in which order, and how things end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest
from pathways_common.model.failure import PathwaysError, Reason
from pathways_common.process.child import start_time
from pathways_proto.v1 import types_pb2, workers_pb2

from tests.cluster import free_port
from tests.unit.worker.fake_controller import FakeController, daemon, joined, run, until

Command = workers_pb2.HostCommand


def prepare(sequence: int) -> Command:
    return Command(prepare=workers_pb2.Prepare(execution_id=sequence, sequence=sequence, previous=sequence - 1, epoch=1))


def free(identifier: int) -> Command:
    return Command(free=workers_pb2.Free(ids=[identifier]))


def wait(identifier: int) -> Command:
    return Command(await_ready=workers_pb2.AwaitReady(wait_id=identifier))


def executor_pid(controller: FakeController, count: int = 1) -> int:
    return int([line for line in controller.log_lines() if line.startswith("pid=")][count - 1].removeprefix("pid="))


def test_the_hello_says_who_the_host_is(tmp_path: Path) -> None:
    async def scenario() -> None:
        place = {"topology": (1, 3), "coordinates": ((0, 0), (0, 2), (0, 1)), "device_kind": "fast"}
        async with joined(tmp_path, devices=3, device_memory=1 << 20, **place) as (controller, app):
            hello = controller.hellos[0]
            assert (list(hello.topology), list(hello.coordinates), hello.device_kind) == ([1, 3], [0, 0, 0, 2, 0, 1], "fast")
            assert (hello.host, hello.island, hello.device_count, hello.device_memory_bytes) == ("a0", "a", 3, 1 << 20)
            assert hello.data_address == app.data_address
            assert hello.pid == os.getpid()
            assert hello.jaxlib_version

    run(scenario())


def test_a_probe_is_answered_also_for_an_executor_that_is_stopped(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, _):
            await controller.enter()
            await controller.send(*(prepare(sequence) for sequence in range(1, 4)))
            await until(lambda: controller.frames[-1].finished_through == 3, "the progress")
            pid = executor_pid(controller)
            os.kill(pid, signal.SIGSTOP)
            try:
                for number in (1, 2):
                    await controller.send(Command(probe=workers_pb2.Probe(number=number)), urgent=True)
                    await until(lambda number=number: len(controller.of("pulse")) == number, "the answer")  # type: ignore[misc]
                # What it is told now, it has not handled.
                await controller.send(free(5))
                await controller.send(Command(probe=workers_pb2.Probe(number=3)), urgent=True)
                await until(lambda: len(controller.of("pulse")) == 3, "the last answer")
            finally:
                os.kill(pid, signal.SIGCONT)
            first, second, third = controller.of("pulse")
            assert (first.number, first.epoch, first.entered_through, first.finished_through) == (1, 1, 3, 3)
            assert 0 < first.silent_ns < second.silent_ns < third.silent_ns
            assert 0 < first.entered_ago_ns < second.entered_ago_ns
            assert (first.idle, second.idle, third.idle) == (True, True, False)
            assert first.waits_for == workers_pb2.EXECUTOR_WAIT_UNSPECIFIED
            os.kill(pid, signal.SIGKILL)
            await controller.event("executor_died")
            await controller.send(Command(probe=workers_pb2.Probe(number=4)), urgent=True)
            await until(lambda: len(controller.of("pulse")) == 4, "an answer without an executor")
            assert controller.of("pulse")[-1].epoch == 0

    run(scenario())


def test_commands_go_through_in_order_and_events_come_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(*(prepare(sequence) for sequence in range(1, 200)))
            frame = await controller.send(prepare(200), wait(7))
            assert (await controller.event("became_ready")).wait_id == 7
            launched = [line for line in controller.log_lines() if line.startswith("launched")]
            assert launched == [f"launched {sequence}" for sequence in range(1, 201)]
            await until(lambda: controller.frames[-1].acknowledged == frame, "the acknowledgement")
            await until(lambda: controller.frames[-1].finished_through == 200, "the progress")
            assert app.counters.gangs_launched == 200

    run(scenario())


def test_a_frame_is_acknowledged_only_after_the_executor_handled_it_and_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, _):
            await controller.enter()
            before = await controller.send(wait(1))
            await until(lambda: controller.acknowledged == before, "the acknowledgement of the first frame")
            await controller.send(free(15), wait(2))
            daemon_only = await controller.send(Command(drain=workers_pb2.Drain()))
            await controller.event("became_ready", 2)
            assert controller.acknowledged == before, "the executor holds an earlier frame back"
            last = await controller.send(free(16))
            await until(lambda: controller.acknowledged == last, "the acknowledgement of everything")
            assert last == daemon_only + 1

    run(scenario())


def test_a_frame_for_the_daemon_alone_is_acknowledged_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, _):
            frame = await controller.send(Command(drain=workers_pb2.Drain()))
            await until(lambda: controller.acknowledged == frame, "the acknowledgement")

    run(scenario())


def test_every_epoch_begins_in_a_fresh_executor_and_the_one_before_ends(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, _):
            await controller.enter(1)
            await until(lambda: controller.log_lines(), "the pid")
            await controller.enter(2)
            await until(lambda: sum(line.startswith("pid=") for line in controller.log_lines()) == 2, "the second pid")
            first, second = executor_pid(controller, 1), executor_pid(controller, 2)
            assert first != second
            await until(lambda: start_time(first) is None, "the first executor to end")
            assert start_time(second) is not None
            assert controller.of("executor_died") == []
        assert start_time(second) is None, "an executor outlived its daemon"

    run(scenario())


def test_a_dead_executor_is_reported_with_its_last_words_and_another_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter(3)
            frame = await controller.send(free(13), wait(1))
            died = await controller.event("executor_died")
            assert (died.epoch, died.exit) == (3, "signal 9")
            assert "the last words" in died.stderr_tail
            assert "Gloo" not in died.stderr_tail
            await until(lambda: controller.acknowledged == frame, "frames of the dead executor to be acknowledged")
            await controller.enter(4)
            await controller.send(free(14))
            assert (await controller.event("executor_died", 2)).exit == "exit code 3"
            assert app.counters.executor_deaths == 2
        log = (tmp_path / "logs" / "a0.executor.log").read_text()
        assert "Gloo" in log
        assert "the last words" in log

    run(scenario())


def test_a_spare_waits_when_the_epoch_has_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pathways_worker.core.executors.SPARE_WAIT_NS", 10**6)

    async def scenario() -> None:
        async with joined(tmp_path, keep_spare=True) as (controller, app):
            await controller.enter(1)
            await until(lambda: app.counters.executor_starts == 2, "the spare")
            await controller.enter(2)
            await until(lambda: app.counters.executor_starts == 3, "the next spare")

    run(scenario())


def test_an_epoch_that_fails_names_the_host(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, _):
            await controller.send(Command(epoch_begin=workers_pb2.EpochBegin(epoch=1, rank_count=99)))
            failed = await controller.event("epoch_failed")
            assert (failed.failure.host, failed.failure.message) == ("a0", "no coordinator")
            assert failed.failure.id

    run(scenario())


def test_the_executors_environment_is_clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAX_ENABLE_X64", "XLA_PYTHON_CLIENT_PREALLOCATE", "PATHWAYS_TOKEN", "PYTHONSTARTUP"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/somewhere")

    async def scenario() -> None:
        async with joined(tmp_path, collective_timeout_s=77, python_timeout_s=9) as (controller, _):
            await controller.enter()
            lines = await until(controller.log_lines, "the environment")
            names = {line.partition("=")[0] for line in lines}
            assert "JAX_PLATFORMS=cpu" in lines
            assert "XLA_FLAGS=--xla_cpu_collective_timeout_seconds=77" in lines
            assert "PATHWAYS_PYTHON_TIMEOUT_S=9" in lines
            assert not names & {
                "JAX_ENABLE_X64",
                "XLA_PYTHON_CLIENT_PREALLOCATE",
                "PATHWAYS_TOKEN",
                "PYTHONSTARTUP",
                "PJRT_NPROC",
            }

    run(scenario())


@pytest.mark.parametrize(("placement", "told"), [({}, False), ({"thread_placement": "split"}, True)])
def test_executors_are_told_to_split_their_threads_only_when_asked(tmp_path: Path, placement: dict[str, str], told: bool) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, **placement) as (controller, _):
            await controller.enter()
            lines = await until(controller.log_lines, "the words that it was started with")
            (words,) = (line for line in lines if line.startswith("words="))
            assert ("--split-threads" in words.removeprefix("words=").split()) is told

    run(scenario())


@pytest.mark.parametrize(("scheduling", "told"), [({}, False), ({"thread_scheduling": "batch"}, True)])
def test_executors_are_told_to_take_no_core_from_others_only_when_asked(
    tmp_path: Path, scheduling: dict[str, str], told: bool
) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, **scheduling) as (controller, _):
            await controller.enter()
            lines = await until(controller.log_lines, "the words that it was started with")
            (words,) = (line for line in lines if line.startswith("words="))
            assert ("--batch-scheduling" in words.removeprefix("words=").split()) is told

    run(scenario())


def test_a_callback_goes_up_at_once_and_its_reply_overtakes_what_waits(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, _):
            await controller.enter()
            # The executor is inside the callback and answers nothing else until the reply is there.
            await controller.send(Command(load=workers_pb2.Load(executable_id=1, callback_ids=[33])), wait(1))
            await controller.send(wait(2))
            call = await controller.event("callback_call")
            assert (call.call_id, call.callback_id) == (5, 33)
            assert controller.of("became_ready") == []
            await controller.send(Command(callback_reply=workers_pb2.CallbackReply(call_id=5)), urgent=True)
            await controller.event("became_ready", 2)
            assert "callback 5 replied" in controller.log_lines()

    run(scenario())


def test_a_coordinator_is_started_and_its_failure_is_told(tmp_path: Path) -> None:
    good = """if True:
        import json, sys
        print(json.dumps({"address": "127.0.0.1:" + str(4000 + int(sys.argv[2]))}), flush=True)
        sys.stdin.read()"""

    async def scenario() -> None:
        async with joined(tmp_path, coordinator=(sys.executable, "-c", good)) as (controller, _):
            await controller.send(Command(start_coordinator=workers_pb2.StartCoordinator(epoch=1, rank_count=2)))
            ready = await controller.event("coordinator_ready")
            assert (ready.epoch, ready.address) == (1, "127.0.0.1:4002")
        async with joined(tmp_path) as (controller, _):
            await controller.send(Command(start_coordinator=workers_pb2.StartCoordinator(epoch=1, rank_count=2)))
            ready = await controller.event("coordinator_ready")
            assert "no coordinator here" in ready.failure.message
            assert ready.failure.host == "a0"

    run(scenario())


def test_a_broken_link_ends_the_executors_and_the_host_joins_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter(1)
            await until(controller.log_lines, "the pid")
            controller.drop()
            await until(lambda: len(controller.hellos) == 2 and controller._context, "the second hello")
            assert start_time(executor_pid(controller)) is None
            assert controller.hellos[1].last_term == 1
            await controller.enter(2)
            assert app.counters.joined == 2

    run(scenario())


def test_a_controller_of_an_older_term_is_not_joined(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            controller.term = 0
            controller.drop()
            await until(lambda: len(controller.hellos) >= 4 or app.counters.joined > 1, "the worker to try again")
            assert app.counters.joined == 1
            controller.term = 2
            await until(lambda: app.counters.joined == 2, "the worker to join again")
            await controller.enter()
            assert (app.counters.joined, controller.hellos[-1].last_term) == (2, 1)

    run(scenario())


def test_a_word_from_the_controller_ends_the_daemon_cleanly(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(Command(shutdown=workers_pb2.Shutdown(reason="the controller was stopped")))
            await until(lambda: app._supervisor.stopping, "the daemon to stop")

    run(scenario())


def test_a_host_that_is_turned_away_ends_its_daemon_with_the_sentence(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            word = workers_pb2.Shutdown(reason="host a0 has 1 devices and island a has 2 per host; start it alike", refused=True)
            await controller.send(Command(shutdown=word))
            await until(lambda: app._supervisor.stopping, "the daemon to stop")

    with pytest.raises(PathwaysError) as caught:
        run(scenario())
    failure = caught.value.failure
    assert failure.reason is Reason.INVALID_ARGUMENT
    assert "turned this host away: host a0 has 1 devices and island a has 2 per host; start it alike" in failure.message


def refused(controller: FakeController, tmp_path: Path, **settings: object) -> PathwaysError:
    """What ends a daemon that cannot join."""
    found: list[PathwaysError] = []

    async def scenario() -> None:
        await controller.start()
        try:
            async with daemon(tmp_path, controller, **settings) as app:
                await until(lambda: app._supervisor.stopping, "the daemon to give up")
        except PathwaysError as error:
            found.append(error)
        finally:
            await controller.stop()

    run(scenario())
    return found[0]


def test_a_wrong_secret_is_one_sentence_and_no_second_try(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("wrong\n")
    controller = FakeController(secret="right")
    failure = refused(controller, tmp_path, auth=True).failure
    assert failure.reason is Reason.UNAUTHENTICATED
    assert "refused this worker: the token is wrong: copy the secret" in failure.message
    assert controller.hellos == []


def test_the_right_secret_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("right\n")

    async def scenario() -> None:
        controller = FakeController(secret="right")
        await controller.start()
        try:
            async with daemon(tmp_path, controller, auth=True):
                await until(lambda: controller.hellos, "the hello")
        finally:
            await controller.stop()

    run(scenario())


def test_no_secret_at_all_is_one_sentence_and_none_is_made(tmp_path: Path) -> None:
    failure = refused(FakeController(), tmp_path, auth=True).failure
    assert failure.reason is Reason.UNAUTHENTICATED
    assert failure.message.startswith(f"there is no cluster secret in {tmp_path}/secret; copy that file")
    assert not (tmp_path / "secret").exists()


def test_another_version_is_refused_with_the_controllers_sentence(tmp_path: Path) -> None:
    refusal = types_pb2.Failure(reason="VERSION_MISMATCH", message="the worker has pathways 0.0.1 and the controller has 9.9.9")
    failure = refused(FakeController(refusal=refusal), tmp_path).failure
    assert failure.reason is Reason.VERSION_MISMATCH
    assert failure.message == refusal.message


def test_a_controller_that_is_not_up_is_tried_until_the_join_timeout(tmp_path: Path) -> None:
    async def late() -> None:
        controller = FakeController()
        controller.port = port = free_port()
        async with daemon(tmp_path, controller):
            await asyncio.sleep(0.5)
            again = FakeController()
            await again.start(port)
            try:
                await until(lambda: again.hellos, "the hello after the controller came up")
            finally:
                await again.stop()

    run(late())

    async def never() -> None:
        controller = FakeController()
        controller.port = free_port()
        with pytest.raises(PathwaysError, match="could not be joined within 1 s"):
            async with daemon(tmp_path, controller, join_timeout_s=1) as app:
                await until(lambda: app._supervisor.stopping, "the daemon to give up")

    run(never())


def test_progress_of_one_executor_is_never_said_of_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, _):
            await controller.enter(1)
            await controller.send(*(prepare(sequence) for sequence in range(1, 101)))
            await until(lambda: controller.frames[-1].finished_through == 100, "the progress")
            await controller.enter(2)
            entered = next(
                at for at, frame in enumerate(controller.frames) if any(e.epoch_ready.epoch == 2 for e in frame.events)
            )
            assert {frame.finished_through for frame in controller.frames[entered:]} == {0}

    run(scenario())


def test_an_executor_that_speaks_nonsense_is_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter(1)
            await controller.send(free(17))
            assert (await controller.event("executor_died")).exit == "signal 9"
            await controller.enter(2)
            assert not app._supervisor.stopping

    run(scenario())
