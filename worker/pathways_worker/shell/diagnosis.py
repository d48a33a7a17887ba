"""How this host is, told at once whatever it has to do: the daemon, its children, how far the executor has come, memory.

Nothing here needs the help of the executor: its numbers are in shared memory, its stacks come by a signal, and what a stopped one
is at, the kernel says. Every part has a deadline, so the whole is told within the timeout and a tenth of a second.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import os
import time
from collections.abc import Callable
from typing import NamedTuple

from pathways_common.process import condition
from pathways_common.process.tasks import Supervisor
from pathways_proto.v1 import workers_pb2

from pathways_worker.shell.coordinator_process import Coordinators
from pathways_worker.shell.counters import Counters
from pathways_worker.shell.executor_pool import ExecutorPool
from pathways_worker.shell.executor_process import ExecutorProcess
from pathways_worker.shell.output_log import OutputLog
from pathways_worker.shell.stacks import LINES_MAX

_LOG = logging.getLogger(__name__)
# So long the processes are watched for what they compute.
_LOOK_S = 0.1
_OUTPUT_LINES = 20
_OUTPUT_BYTES = 8192
_TASKS_MAX = 64


class _Looked(NamedTuple):
    role: str
    pid: int
    before: condition.Condition | None
    began_s: float
    executor: ExecutorProcess | None


class Diagnosis:
    """Answers DiagnoseHost; `tell` takes the answer, past everything else."""

    def __init__(
        self,
        pool: ExecutorPool,
        coordinators: Coordinators,
        log: OutputLog,
        counters: Counters,
        supervisor: Supervisor,
        tell: Callable[[workers_pb2.HostEvent], None],
    ) -> None:
        self._pool = pool
        self._coordinators = coordinators
        self._log = log
        self._counters = counters
        self._supervisor = supervisor
        self._tell = tell

    def on_command(self, command: workers_pb2.DiagnoseHost) -> None:
        """The controller asks."""
        self._supervisor.spawn("diagnosis", self._answer(command.request_id, command.timeout_ns / 1e9))

    async def _answer(self, request_id: int, timeout_s: float) -> None:
        try:
            answer = await self.take(timeout_s)
        except Exception as error:  # a defect of ours must not take the daemon down with it, least of all now
            _LOG.exception("diagnosis failed")
            answer = workers_pb2.HostDiagnosis(output=[f"this daemon could not describe itself: {error!r}"])
        answer.request_id = request_id
        self._tell(workers_pb2.HostEvent(host_diagnosis=answer))

    async def take(self, timeout_s: float) -> workers_pb2.HostDiagnosis:
        """All of it, within the timeout."""
        current = self._pool.current
        looked = [_look("DAEMON", os.getpid(), None)]
        looked += [_look("EXECUTOR" if each is current else "SPARE", each.pid, each) for each in self._pool.processes()]
        looked += [_look("COORDINATOR", pid, None) for pid in self._coordinators.pids()]
        began_s = time.monotonic()
        await asyncio.sleep(_LOOK_S)
        late_s = max(0.0, time.monotonic() - began_s - _LOOK_S)
        processes = await asyncio.gather(*(self._process(each, max(timeout_s - _LOOK_S, _LOOK_S)) for each in looked))
        total, available = condition.memory_of_machine()
        answer = workers_pb2.HostDiagnosis(
            processes=processes,
            memory_bytes=total,
            memory_available_bytes=available,
            loop_late_seconds=late_s,
            live_bytes=self._counters.live_bytes,
            buffers=self._counters.buffers,
            output=_end_of(self._log),
        )
        if current is not None and current is self._pool.current:
            answer.epoch = self._pool.epoch
            progress = current.progress()
            answer.launched_through, answer.finished_through = progress.launched_through, progress.finished_through
            answer.loading = progress.loading
        return answer

    async def _process(self, looked: _Looked, timeout_s: float) -> workers_pb2.ProcessDiagnosis:
        stacks: list[str] = []
        if looked.role == "DAEMON":
            stacks = own_stacks()
        elif looked.executor is not None and looked.role == "EXECUTOR" and _may_ask(looked.before):
            stacks = await looked.executor.ask_stacks(timeout_s)
        now, elapsed_s = condition.look(looked.pid), time.monotonic() - looked.began_s
        told = workers_pb2.ProcessDiagnosis(role=looked.role, pid=looked.pid, stacks=stacks)
        if not stacks and looked.role == "EXECUTOR":
            told.silence = condition.why_silent(now, timeout_s)
        if now is None:
            return told
        told.state, told.resident_bytes, told.cpu_seconds = now.state, now.resident_bytes, now.cpu_s
        told.thread_count = now.thread_count
        if looked.before is not None and elapsed_s > 0:
            told.cpu_share = max(0.0, now.cpu_s - looked.before.cpu_s) / elapsed_s
        for thread in now.threads:
            told.threads.add(
                thread_id=thread.id, name=thread.name, state=thread.state, waits_in=thread.waits_in, cpu_seconds=thread.cpu_s
            )
        return told


def _look(role: str, pid: int, executor: ExecutorProcess | None) -> _Looked:
    return _Looked(role, pid, condition.look(pid), time.monotonic(), executor)


def _may_ask(before: condition.Condition | None) -> bool:
    """A stopped process would answer when it goes on, and one without a handler would end."""
    return before is not None and before.keeps_stacks and not before.stopped


def own_stacks() -> list[str]:
    """The thread of the loop and where its tasks wait, then all threads: of many, those that say least are cut off."""
    lines = _dumped(all_threads=False)
    tasks = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    for task in tasks[:_TASKS_MAX]:
        frame = next(iter(task.get_stack(limit=1)), None)
        where = f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}" if frame is not None else "not begun"
        lines.append(f"task {task.get_name()}: {where}")
    return [*lines, *_dumped(all_threads=True)][:LINES_MAX]


def _dumped(all_threads: bool) -> list[str]:
    with os.fdopen(os.memfd_create("pathways-stacks"), "r+") as output:
        faulthandler.dump_traceback(file=output, all_threads=all_threads)
        output.seek(0)
        return output.read().splitlines()


def _end_of(log: OutputLog) -> list[str]:
    """The last lines that children printed."""
    try:
        with log.path.open("rb") as stream:
            stream.seek(max(0, log.path.stat().st_size - _OUTPUT_BYTES))
            text = stream.read(_OUTPUT_BYTES)
    except OSError:
        return []
    return text.decode(errors="replace").splitlines()[-_OUTPUT_LINES:]
