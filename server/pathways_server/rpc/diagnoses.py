"""Diagnose and GetStory: what is stuck, and what happened. Neither waits for anything but hosts, and for those 2 seconds.

A tenant sees the state of hosts and its own work; stacks, outputs and logs may hold words of others.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pathways_common.model.bounds import DIAGNOSIS_EXECUTOR_NS, DIAGNOSIS_NS
from pathways_common.model.failure import Reason, fail
from pathways_common.model.ids import HostName
from pathways_common.process import condition
from pathways_proto.v1 import cluster_pb2, workers_pb2

from pathways_server.core import conditions, snapshot, story
from pathways_server.core.records import Host
from pathways_server.core.tenant_records import TenantName
from pathways_server.rpc.verdict import verdict
from pathways_server.rpc.wire import item, key
from pathways_server.shell.loop import Loop

_COMMAND = key(workers_pb2.HostCommand.DESCRIPTOR.fields_by_name["diagnose_host"].number)
_RECENT = 30
# Which parts of a process are for an administrator.
_PRIVATE = ("stacks", "threads")


class Diagnoses:
    """Serves unary calls with decoded messages. `visible_tenant` says of a call which tenant alone it may see; None: all."""

    def __init__(self, loop: Loop, term: int, version: str, visible_tenant: Callable[[Any], TenantName | None]) -> None:
        self._loop = loop
        self._term = term
        self._version = version
        self._visible_tenant = visible_tenant
        self._started_ns = time.monotonic_ns()
        self._asking: asyncio.Future[dict[HostName, Any]] | None = None

    def methods(self) -> dict[str, Callable[[Any, Any], Awaitable[Any]]]:
        """The calls by their names in the service."""
        return {"Diagnose": self.diagnose, "GetStory": self.get_story}

    async def diagnose(self, _request: cluster_pb2.DiagnoseRequest, context: Any) -> cluster_pb2.DiagnoseResponse:
        """Asks every host at once, and puts together what came with what the controller knows."""
        only = self._visible_tenant(context)
        if self._asking is None or self._asking.done():
            peers = list(self._loop.hosts.values())
            self._asking = asyncio.ensure_future(self._loop.diagnoses.ask(peers, _question, DIAGNOSIS_NS / 1e9))
        # Whoever asks meanwhile gets the same answers: hosts are asked once at a time, however many callers there are.
        said = await asyncio.shield(self._asking)
        state, now_ns = self._loop.core.state, time.monotonic_ns()
        taken = snapshot.take(state, now_ns)
        answer = cluster_pb2.DiagnoseResponse(
            time_ns=time.time_ns(),
            term=self._term,
            pathways_version=self._version,
            uptime_seconds=(now_ns - self._started_ns) / 1e9,
            open_sessions=sum(only in (None, session.tenant) for session in taken.sessions),
        )
        for island in taken.islands:
            answer.islands.add(
                name=island.name,
                state=island.state,
                epoch=island.epoch,
                lacks=island.lacks,
                granted_through=island.granted_through,
                queued_executions=island.queued_executions,
                unfinished_gangs=island.unfinished_gangs,
            )
            for figures in island.hosts:
                host = state.hosts.get(HostName(figures.name))
                if host is not None:
                    self._host(answer.hosts.add(), host, said, only, now_ns)
        answer.verdict.extend(verdict(answer))
        for told in story.recent(state, _RECENT, only is None):
            answer.recent.add(time_ns=told.at_ns + _wall_ns(), subject=told.subject, text=told.text)
        if only is None:
            answer.controller.CopyFrom(_own_process())
        return answer

    def _host(
        self,
        row: cluster_pb2.HostCondition,
        host: Host,
        said: Mapping[HostName, workers_pb2.HostDiagnosis],
        only: TenantName | None,
        now_ns: int,
    ) -> None:
        peer = self._loop.hosts.get(host.name)
        row.host, row.island, row.state = host.name, host.island.name, host.state.value
        row.incarnation, row.queue, row.pid = host.incarnation, len(host.unfinished), host.pid
        if peer is not None:
            row.items_waiting, row.frames_unacknowledged = peer.link.pending, peer.link.unacknowledged
        told = said.get(host.name)
        if told is None:
            row.silence = f"its daemon (pid {host.pid}) did not answer within {DIAGNOSIS_NS / 1e9:g} s"
        else:
            row.diagnosis.CopyFrom(told)
        state = self._loop.core.state
        current = {name: each for name, each in said.items() if each.epoch == host.island.epoch}
        finished_by: dict[HostName, int] = {name: each.finished_through for name, each in current.items()}
        finished = finished_by.get(host.name, 0)
        if (last := conditions.finished(host, finished)) is not None:
            _gang(row.finished, last, only, now_ns)
        running = conditions.running(state, host, finished)
        if running is None and (running := conditions.running(state, host)) is not None:
            row.running.unreported, finished_by = True, {}
        if running is not None:
            _gang(row.running, running, only, now_ns)
            row.running.members.extend(running.members)
            row.running.unfinished_hosts.extend(conditions.late(state, host.island, running, finished_by))
            launched = {name: each.launched_through >= running.sequence for name, each in current.items()}
            if any(launched.get(HostName(name)) for name in running.members):
                row.running.missing_hosts.extend(name for name in running.members if not launched.get(HostName(name), True))
        if only is not None:
            _redact(row)

    async def get_story(self, request: cluster_pb2.GetStoryRequest, context: Any) -> cluster_pb2.GetStoryResponse:
        """What happened to one thing; INVALID_ARGUMENT if nothing is remembered of it, or it is another tenant's."""
        state, now_ns, only = self._loop.core.state, time.monotonic_ns(), self._visible_tenant(context)
        lines = story.tell(state, now_ns, request.kind, request.number, request.name, only)
        if not lines:
            what = story.title(request.kind, request.number, request.name)
            sentence = f"nothing is remembered of {what}: it does not exist, or it is longer ago than the controller remembers"
            raise fail(Reason.INVALID_ARGUMENT, sentence)
        since_ns = state.history.since_ns or self._started_ns
        return cluster_pb2.GetStoryResponse(
            lines=[
                cluster_pb2.StoryLine(time_ns=line.at_ns + _wall_ns(), subject=line.subject, text=line.text) for line in lines
            ],
            remembered_seconds=(now_ns - since_ns) / 1e9,
        )


def _question(number: int) -> bytes:
    question = workers_pb2.DiagnoseHost(request_id=number, timeout_ns=DIAGNOSIS_EXECUTOR_NS)
    return item(_COMMAND, question.SerializeToString())


def _wall_ns() -> int:
    """What makes the core's times wall clock times."""
    return time.time_ns() - time.monotonic_ns()


def _gang(row: cluster_pb2.GangCondition, figures: conditions.GangFigures, only: TenantName | None, now_ns: int) -> None:
    row.sequence = figures.sequence
    if figures.since_ns:
        row.since_seconds = (now_ns - figures.since_ns) / 1e9
    if only in (None, figures.tenant):
        row.execution_id, row.tenant, row.program = figures.id, figures.tenant, figures.program
        row.node, row.node_name, row.source = figures.node, figures.node_name, figures.source


def _redact(row: cluster_pb2.HostCondition) -> None:
    row.diagnosis.ClearField("output")
    row.diagnosis.ClearField("loading")
    for process in row.diagnosis.processes:
        for name in _PRIVATE:
            process.ClearField(name)


def _own_process() -> cluster_pb2.ProcessDiagnosis:
    """The controller answers, so its own stack would say only that; the kernel's word is what is missing."""
    now = condition.look(os.getpid())
    told = cluster_pb2.ProcessDiagnosis(role="CONTROLLER", pid=os.getpid())
    if now is not None:
        told.state, told.resident_bytes, told.cpu_seconds, told.thread_count = (
            now.state, now.resident_bytes, now.cpu_s, now.thread_count
        )  # fmt: skip
    return told
