"""Runs through real daemons with fake executors: two hosts that pull from one another, and every way in which that ends."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from pathways_proto.v1 import types_pb2, workers_pb2
from pathways_worker.app import App

from tests.unit.worker.fake_controller import FakeController, joined, run, until

Command = workers_pb2.HostCommand
F32 = 11
SECOND = 10**9
KEY = b"secret of the run"
# Of run 7: its first transfer and its first fetch have this number.
FIRST = (1 << 63) + (7 << 24)


class Host(NamedTuple):
    controller: FakeController
    app: App

    @property
    def open(self) -> tuple[int, int]:
        return self.app.agent.transfers.open_count, self.app.agent.runs.open_count

    def lines(self, word: str) -> list[str]:
        return [line for line in self.controller.log_lines() if line.startswith(word + " ")]

    async def line(self, word: str, count: int = 1) -> str:
        await until(lambda: len(self.lines(word)) >= count, f"line {count} of {word}; had {self.controller.log_lines()[-5:]}")
        return self.lines(word)[count - 1]

    async def send(self, *messages: object) -> None:
        await self.controller.send(*(command(message) for message in messages))


def command(message: object) -> Command:
    kinds = {
        workers_pb2.LoadPlan: "load_plan",
        workers_pb2.UnloadPlan: "unload_plan",
        workers_pb2.RunPlan: "run_plan",
        workers_pb2.GrantRun: "grant_run",
        workers_pb2.EndRun: "end_run",
        workers_pb2.CollectTrace: "collect_trace",
        workers_pb2.Prepare: "prepare",
        workers_pb2.Free: "free",
    }
    return Command(**{kinds[type(message)]: message})


@asynccontextmanager
async def two_hosts(path: Path) -> AsyncIterator[tuple[Host, Host]]:
    """Host a0 of island a and host b0 of island b, each with a controller of its own, in epoch 1."""
    async with (
        joined(path / "a") as (first, source),
        joined(path / "b", island="b", host="b0") as (second, target),
    ):
        await first.enter()
        await second.enter()
        yield Host(first, source), Host(second, target)


def one_device(host: int) -> workers_pb2.PlanSpec:
    spec = types_pb2.ArraySpec(dtype=F32, shape=[4], shard_shape=[4], devices=[0])
    return workers_pb2.PlanSpec(spec=spec, hosts=[host], local_devices=[0])


def launch(node: int, host: int, argument: int, result: int) -> workers_pb2.PlanStep:
    body = workers_pb2.PlanLaunch(node=node, executable_id=1, arguments=[argument], results=[result], hosts=[host])
    return workers_pb2.PlanStep(launch=body)


def move(source: int, destination: int, source_spec: int = 0, destination_spec: int = 1) -> workers_pb2.PlanStep:
    body = workers_pb2.PlanMove(
        source=source, destination=destination, source_spec=source_spec, destination_spec=destination_spec
    )
    return workers_pb2.PlanStep(move=body)


def plan(a: App, b: App, steps: list[workers_pb2.PlanStep], plan_id: int = 3, epoch: int = 1) -> workers_pb2.LoadPlan:
    hosts = [
        workers_pb2.PlanHost(name="a0", island="a", epoch=epoch, data_address=a.data_address),
        workers_pb2.PlanHost(name="b0", island="b", epoch=epoch, data_address=b.data_address),
    ]
    return workers_pb2.LoadPlan(
        plan_id=plan_id,
        hosts=hosts,
        specs=[one_device(0), one_device(1)],
        steps=steps,
        argument_count=1,
        slot_count=8,
        results=[7],
        name="train",
    )


def two_rounds(a: App, b: App) -> workers_pb2.LoadPlan:
    """a0 computes, b0 gets it and computes, a0 gets that and computes, b0 gets that."""
    steps = [
        launch(1, 0, 0, 1),
        move(1, 2),
        launch(2, 1, 2, 3),
        move(3, 4, 1, 0),
        launch(3, 0, 4, 5),
        move(5, 7),
    ]
    return plan(a, b, steps)


def run_plan(execution: int = 1, end_step: int = 6, timeout_ns: int = 20 * SECOND, plan_id: int = 3) -> workers_pb2.RunPlan:
    return workers_pb2.RunPlan(
        execution_id=execution,
        plan_id=plan_id,
        arguments=[50],
        first_result_id=60,
        first_value_id=70,
        ticket_key=KEY,
        number=7,
        timeout_ns=timeout_ns,
        end_step=end_step,
        sequence=1,
        epoch=1,
    )


def end_run(execution: int = 1) -> workers_pb2.EndRun:
    failure = types_pb2.Failure(reason="USER_ERROR", message="node 2 failed", host="c0", id="beef")
    return workers_pb2.EndRun(execution_id=execution, failure=failure)


def silent_about_transfers(host: Host) -> bool:
    return (
        not host.controller.of("landed") and not host.controller.of("transfer_failed") and not host.controller.of("fetch_failed")
    )


@pytest.mark.parametrize("first_told", ["a0", "b0"])
def test_a_run_moves_shards_between_hosts_whoever_hears_of_it_first(tmp_path: Path, first_told: str) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            load = two_rounds(a.app, b.app)
            order = (a, b) if first_told == "a0" else (b, a)
            await order[0].send(load, run_plan())
            # The other one has not been told, and a pull reaches it before its run does.
            await until(lambda: order[0].app.agent.runs.open_count == 1, "the run to begin")
            if order[0] is b:
                await until(lambda: a.app.agent.transfers.open_count, "the early pull")
            await order[1].send(load, run_plan())
            assert await a.line("landed") == f"landed {FIRST} {bytes([3] * 16).hex()}"
            # The fake executors send without waiting for what a launch needs, so either may land first.
            await b.line("landed", 2)
            wanted = [f"landed {FIRST} {bytes([1] * 16).hex()}", f"landed {FIRST + 1} {bytes([5] * 16).hex()}"]
            assert sorted(b.lines("landed")) == wanted
            await until(lambda: a.open == b.open == (0, 0), "everything to end")
            assert silent_about_transfers(a)
            assert silent_about_transfers(b)
            assert a.app.agent.transfers.held_bytes == b.app.agent.transfers.held_bytes == 0

    run(scenario())


def test_the_ticket_of_a_pull_is_what_both_ends_derive_from_the_key(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            await a.send(two_rounds(a.app, b.app), run_plan(405, end_step=2))
            await until(lambda: a.app.agent.transfers.open_count == 1, "the send to be expected")
            # Step 1, shard 0 of the source, to host 1 of the plan, all of the shard.
            wanted = hmac.new(KEY, b"1:0:1::", hashlib.sha256).digest()[:16].hex()
            assert list(a.app.agent.transfers._core._tickets) == [wanted]

    run(scenario())


def test_only_granted_steps_begin(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            load = two_rounds(a.app, b.app)
            for host in (a, b):
                await host.send(load, run_plan(end_step=3))
            await b.line("landed")
            await until(lambda: a.open == b.open == (0, 1), "the granted part to end")
            assert a.lines("landed") == []
            for host in (a, b):
                await host.send(workers_pb2.GrantRun(execution_id=1, first_step=3, end_step=6, epoch=1))
            await b.line("landed", 2)
            await until(lambda: a.open == b.open == (0, 0), "the rest to end")

    run(scenario())


def test_a_host_that_launches_nothing_sends_and_receives(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            # a0 only gives its argument away, and gets the result.
            load = plan(a.app, b.app, [move(0, 1), launch(1, 1, 1, 2), move(2, 7, 1, 0)])
            for host in (a, b):
                await host.send(load, run_plan(end_step=3))
            assert await b.line("landed") == f"landed {FIRST} {bytes([0] * 16).hex()}"
            assert await a.line("landed") == f"landed {FIRST} {bytes([2] * 16).hex()}"

    run(scenario())


def test_every_command_of_a_run_goes_on_to_the_executor_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            load = plan(a.app, b.app, [launch(1, 0, 0, 7)])
            grant = workers_pb2.GrantRun(execution_id=1, first_step=1, end_step=1, epoch=1)
            await a.send(load, run_plan(end_step=1), grant, end_run(), workers_pb2.UnloadPlan(plan_ids=[3]))
            await a.line("unload_plan")
            told = [line for line in a.controller.log_lines() if "=" not in line]
            assert told == ["load_plan 3", "run_plan 1", "grant_run 1", "end_run 1", "unload_plan 3"]
            assert a.app.agent.runs.plan_count == 0

    run(scenario())


def test_the_failure_of_a_move_goes_to_the_executor_that_waits_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            load = two_rounds(a.app, b.app)
            for host in (a, b):
                await host.send(load, run_plan(404, end_step=3))
            assert await b.line("failed") == f"failed {FIRST} DELETED a0 it was deleted"
            await until(lambda: a.open == b.open == (0, 1), "the move to end")
            assert silent_about_transfers(b)

    run(scenario())


def test_a_move_that_takes_too_long_fails_by_its_deadline(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            await b.send(two_rounds(a.app, b.app), run_plan(end_step=2, timeout_ns=SECOND // 5))
            assert (await b.line("failed")).startswith(f"failed {FIRST} TIMED_OUT b0 ")
            await until(lambda: a.app.agent.transfers.open_count == 0, "the early pull to end at its source")
            assert silent_about_transfers(b)

    run(scenario())


def test_the_end_of_a_run_that_its_source_never_heard_of_ends_the_early_pull(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            await b.send(two_rounds(a.app, b.app), run_plan())
            await until(lambda: a.app.agent.transfers.open_count == 2, "the early pulls")
            await b.send(end_run())
            await b.line("failed", 2)
            wanted = [f"failed {number} USER_ERROR c0 node 2 failed" for number in (FIRST, FIRST + 1)]
            assert sorted(b.lines("failed")) == wanted
            await until(lambda: a.open == b.open == (0, 0), "both ends of the pull to end")
            assert silent_about_transfers(a)
            assert silent_about_transfers(b)

    run(scenario())


def test_the_end_of_a_run_ends_what_waits_for_a_launch_that_never_comes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            load = two_rounds(a.app, b.app)
            for host in (a, b):
                await host.send(load, run_plan(405, end_step=4))
            await until(lambda: a.app.agent.transfers._pulls and b.app.agent.transfers._pulls, "the pulls to arrive")
            await a.send(end_run(405))
            assert await a.line("failed") == f"failed {FIRST} USER_ERROR c0 node 2 failed"
            # The source says why, even if the end of the run has not reached this host yet.
            assert await b.line("failed") == f"failed {FIRST} USER_ERROR c0 node 2 failed"
            await b.send(end_run(405))
            await until(lambda: a.open == b.open == (0, 0), "everything to end")

    run(scenario())


def test_the_death_of_the_source_in_the_middle_of_a_run_fails_the_move(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            load = two_rounds(a.app, b.app)
            for host in (a, b):
                await host.send(load, run_plan(405, end_step=2))
            await until(lambda: a.app.agent.transfers._pulls, "the pull to arrive")
            await a.send(workers_pb2.Free(ids=[13]))
            assert (await b.line("failed")).startswith(f"failed {FIRST} BUFFER_LOST a0 the value is lost")
            await a.controller.event("executor_died")
            assert a.open == (0, 0)
            assert a.app.agent.runs.plan_count == 0

    run(scenario())


def test_the_death_of_the_destination_in_the_middle_of_a_run_ends_its_pulls_at_the_source(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            await b.send(two_rounds(a.app, b.app), run_plan(405, end_step=2))
            await until(lambda: a.app.agent.transfers.open_count == 1, "the early pull")
            await b.send(workers_pb2.Free(ids=[14]))
            await b.controller.event("executor_died")
            await until(lambda: a.open == b.open == (0, 0), "everything to end")
            # The run is of an executor that is gone: nothing begins.
            await b.send(run_plan(2))
            await b.send(end_run(405))
            assert b.open == (0, 0)
            assert silent_about_transfers(b)

    run(scenario())


def test_a_plan_of_another_epoch_is_not_kept_and_one_of_the_epoch_goes_with_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            agent = a.app.agent
            await a.send(two_rounds(a.app, b.app), run_plan(405))
            await until(lambda: agent.runs.open_count == 1, "the run")
            # What an executor says after its epoch is not heard.
            await a.line("run_plan")
            await a.controller.enter(2)
            assert (agent.runs.plan_count, a.open) == (0, (0, 0))
            await a.send(two_rounds(a.app, b.app), run_plan(2))
            await a.line("run_plan", 2)
            assert (agent.runs.plan_count, a.open) == (0, (0, 0))
            await a.send(plan(a.app, b.app, [move(0, 7)], plan_id=4, epoch=2))
            await a.line("load_plan", 3)
            assert agent.runs.plan_count == 1

    run(scenario())


def test_a_plan_that_makes_no_sense_does_not_end_the_daemon(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            nonsense = plan(a.app, b.app, [workers_pb2.PlanStep()])
            await a.send(nonsense)
            await a.controller.event("executor_died")  # the fake one is not so careful
            assert a.app.agent.runs.plan_count == 0
            assert not a.app._supervisor.stopping

    run(scenario())


def test_a_trace_says_when_the_run_came_to_the_host(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with two_hosts(tmp_path) as (a, b):
            before = time.time_ns()
            await a.send(plan(a.app, b.app, [launch(1, 0, 0, 7)]), run_plan(end_step=1))
            await a.line("run_plan")
            after = time.time_ns()
            await a.send(workers_pb2.CollectTrace(trace_id=8, execution_id=1))
            trace = await a.controller.event("trace_collected")
            assert (trace.trace_id, trace.execution_id, trace.prepared_ns) == (8, 1, 5)
            assert before <= trace.received_ns <= after
            await a.send(workers_pb2.CollectTrace(trace_id=9, execution_id=77))
            assert (await a.controller.event("trace_collected", 2)).received_ns == 0

    run(scenario())


def test_a_host_without_an_executor_answers_that_it_remembers_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await Host(controller, app).send(workers_pb2.CollectTrace(trace_id=8, execution_id=1))
            trace = await controller.event("trace_collected")
            assert (trace.trace_id, trace.execution_id, len(trace.rows)) == (8, 1, 0)

    run(scenario())


def prepare(sequence: int, launch_id: int = 0) -> workers_pb2.Prepare:
    return workers_pb2.Prepare(execution_id=sequence, sequence=sequence, previous=sequence - 1, epoch=1, launch_id=launch_id)


def test_what_is_launched_is_told_apart_from_what_is_finished(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            host = Host(controller, app)
            await controller.enter()
            await host.send(prepare(1), prepare(2), prepare(3, launch_id=7))
            await until(lambda: controller.frames[-1].launched_through == 3, "the launches")
            assert controller.frames[-1].finished_through == 2
            await controller.enter(2)
            entered = next(
                at for at, frame in enumerate(controller.frames) if any(e.epoch_ready.epoch == 2 for e in frame.events)
            )
            assert {frame.launched_through for frame in controller.frames[entered:]} == {0}

    run(scenario())


def test_the_death_of_an_executor_is_told_with_how_far_it_had_come(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            host = Host(controller, app)
            await controller.enter()
            await host.send(prepare(1), prepare(2), prepare(3, launch_id=7))
            await host.send(workers_pb2.Free(ids=[13]))
            died = await controller.event("executor_died")
            assert (died.exit, died.launched_through, died.finished_through) == ("signal 9", 3, 2)
            await controller.enter(2)
            await host.send(workers_pb2.Free(ids=[14]))
            died = await controller.event("executor_died", 2)
            assert (died.epoch, died.launched_through, died.finished_through) == (2, 0, 0)

    run(scenario())
