"""A daemon tells at once how it and its children are: stacks of a living executor, the kernel's word of a stopped one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
from pathways_proto.v1 import workers_pb2
from pathways_worker.app import App

from tests.unit.worker.fake_controller import FakeController, joined, run, until
from tests.unit.worker.test_worker_data import Command

_TIMEOUT_NS = 10_000_000_000


async def told(controller: FakeController, number: int) -> workers_pb2.HostDiagnosis:
    question = workers_pb2.DiagnoseHost(request_id=number, timeout_ns=_TIMEOUT_NS)
    await controller.send(Command(diagnose_host=question), urgent=True)
    return (
        await until(lambda: [each for each in controller.of("host_diagnosis") if each.request_id == number], f"answer {number}")
    )[0]


def process(answer: workers_pb2.HostDiagnosis, role: str) -> workers_pb2.ProcessDiagnosis:
    (found,) = [each for each in answer.processes if each.role == role]
    return found


def pid_of(app: App) -> int:
    assert app.agent.pool.current is not None
    return app.agent.pool.current.pid


async def stopped(pid: int) -> None:
    """A signal is sent before it takes effect."""
    os.kill(pid, signal.SIGSTOP)
    await until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "a stopped process")


def test_a_living_executor_writes_its_stacks_and_a_stopped_one_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            nobody = await told(controller, 1)
            assert (nobody.epoch, [each.role for each in nobody.processes][:1]) == (0, ["DAEMON"])
            assert process(nobody, "DAEMON").pid == os.getpid()
            assert any("diagnosis" in line for line in process(nobody, "DAEMON").stacks)
            await controller.enter()
            lively = process(await told(controller, 2), "EXECUTOR")
            assert (lively.pid, lively.silence) == (pid_of(app), "")
            assert any("fake_executor.py" in line and "in serve" in line for line in lively.stacks), lively.stacks
            assert lively.resident_bytes > 1 << 20
            try:
                await stopped(lively.pid)
                answer = await told(controller, 3)
                still = process(answer, "EXECUTOR")
                assert (still.state, list(still.stacks)) == ("T", [])
                assert still.silence == "cannot answer: state T (stopped); SIGCONT lets it go on"
                assert answer.epoch == 1
            finally:
                os.kill(lively.pid, signal.SIGCONT)
            assert process(await told(controller, 4), "EXECUTOR").stacks

    run(scenario())


def test_the_numbers_of_a_stopped_executor_are_read_from_memory_it_shares(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            prepare = workers_pb2.Prepare(execution_id=1, executable_id=1, sequence=1, epoch=1, launch_id=7)
            await controller.send(Command(prepare=prepare))
            await until(lambda: "launched 1" in controller.log_lines(), "the launch")
            try:
                await stopped(pid_of(app))
                answer = await told(controller, 1)
                assert (answer.launched_through, answer.finished_through) == (1, 0)
            finally:
                os.kill(pid_of(app), signal.SIGCONT)

    run(scenario())
