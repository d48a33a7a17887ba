"""What people ask about: leaks, work, memory, reasons. Calls of the Clusters service that show a tenant only what is its own.

Every answer is made from one look at the core's tables and is bounded by what the caller asked for, and by a bound of ours.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from pathways_common.model.failure import Reason, fail
from pathways_common.model.ids import GlobalId, SessionNumber
from pathways_common.rpc.convert import failure_to_proto
from pathways_proto.v1 import cluster_pb2

from pathways_server.core import effects, events, memory_view, obstacles, why, work
from pathways_server.core.tenant_records import TenantName
from pathways_server.shell.loop import Loop


class Views:
    """Serves unary calls with decoded messages. `visible_tenant` says of a call which tenant alone it may see; None: all."""

    def __init__(self, loop: Loop, visible_tenant: Callable[[Any], TenantName | None]) -> None:
        self._loop = loop
        self._visible_tenant = visible_tenant

    def methods(self) -> dict[str, Callable[[Any, Any], Awaitable[Any]]]:
        """The calls by their names in the service."""
        return {
            "FindLeaks": self.find_leaks,
            "ListWork": self.list_work,
            "ListBuffers": self.list_buffers,
            "Explain": self.explain,
        }

    async def find_leaks(self, _request: cluster_pb2.FindLeaksRequest, context: Any) -> cluster_pb2.FindLeaksResponse:
        """What is held without an owner, on every host and here."""
        if self._visible_tenant(context) is not None:
            raise fail(Reason.UNAUTHENTICATED, "leaks belong to nobody: asking for them needs the cluster's own token")
        return _leaks_found(await self._loop.leaks.ask(events.LeaksRequested))

    async def list_work(self, request: cluster_pb2.ListWorkRequest, context: Any) -> cluster_pb2.ListWorkResponse:
        """Executions and runs in line and in flight."""
        state, now_ns = self._loop.core.state, time.monotonic_ns()
        tenant, nothing = self._wanted(request.tenant, context)
        rows, left_out = ([], 0) if nothing else work.take(state, tenant, self._visible_tenant(context), request.limit)
        return cluster_pb2.ListWorkResponse(work=[_work(row, now_ns) for row in rows], left_out=left_out)

    async def list_buffers(self, request: cluster_pb2.ListBuffersRequest, context: Any) -> cluster_pb2.ListBuffersResponse:
        """Memory by session."""
        tenant, nothing = self._wanted(request.tenant, context)
        session = SessionNumber(request.session_number)
        rows = [] if nothing else memory_view.take(self._loop.core.state, tenant, session, request.limit)
        return cluster_pb2.ListBuffersResponse(sessions=[_memory(row) for row in rows])

    async def explain(self, request: cluster_pb2.ExplainRequest, context: Any) -> cluster_pb2.ExplainResponse:
        """Why a session, a piece of work or a slice does not go on; INVALID_ARGUMENT if there is no such thing."""
        state, now_ns, tenant = self._loop.core.state, time.monotonic_ns(), self._visible_tenant(context)
        session = SessionNumber(request.session_number)
        if request.execution_id:
            answer = why.of_work(state, now_ns, GlobalId(request.execution_id), tenant)
        elif request.slice_id:
            answer = why.of_slice(state, now_ns, session, request.slice_id, tenant)
        else:
            answer = why.of_session(state, now_ns, session, tenant)
        if not answer.known:
            raise fail(Reason.INVALID_ARGUMENT, answer.sentences[0])
        return cluster_pb2.ExplainResponse(
            sentences=answer.sentences,
            reasons=[_reason(reason, now_ns) for reason in answer.reasons],
            work=[_work(row, now_ns) for row in answer.rows],
            estimate_seconds=None if answer.estimate_ns is None else answer.estimate_ns / 1e9,
        )

    def _wanted(self, asked: str, context: Any) -> tuple[TenantName | None, bool]:
        """Whose rows to show, None: everybody's; and whether that is nothing, because the caller asks for those of another."""
        visible = self._visible_tenant(context)
        wanted = TenantName(asked) if asked else visible
        return wanted, visible is not None and wanted != visible


def _work(row: work.WorkRow, now_ns: int) -> cluster_pb2.Work:
    return cluster_pb2.Work(
        execution_id=row.id,
        session_number=row.session,
        tenant=row.tenant,
        kind=row.kind,
        name=row.name,
        islands=row.islands,
        state=row.state,
        age_seconds=(now_ns - row.since_ns) / 1e9,
        steps=row.steps,
        steps_granted=row.steps_granted,
        position=row.position,
        waits_for=None if row.reason is None else _reason(row.reason, now_ns),
        device_ns=row.device_ns,
        finished_hosts=row.finished,
        unfinished_hosts=row.unfinished,
    )


def _reason(reason: obstacles.Reason, now_ns: int) -> cluster_pb2.WaitReason:
    return cluster_pb2.WaitReason(
        kind=reason.kind.value,
        what=reason.what,
        holder=reason.holder,
        waited_seconds=(now_ns - reason.since_ns) / 1e9,
        deadline_seconds=(reason.deadline_ns - now_ns) / 1e9 if reason.deadline_ns else None,
    )


def _memory(row: memory_view.MemoryRow) -> cluster_pb2.SessionMemory:
    return cluster_pb2.SessionMemory(
        session_number=row.session,
        tenant=row.tenant,
        client=row.client,
        buffers=row.buffers,
        pending_buffers=row.pending,
        live_bytes=row.live_bytes,
        spilled_bytes=row.spilled_bytes,
        devices=[
            cluster_pb2.DeviceMemory(host=each.host, device=each.device, live_bytes=each.live_bytes) for each in row.devices
        ],
        largest=[
            cluster_pb2.BufferRow(
                buffer_id=each.id, state=each.state, size_bytes=each.size_bytes, shards=each.shards, island=each.island
            )
            for each in row.largest
        ],
        poisoned=[cluster_pb2.PoisonedBuffers(count=count, failure=failure_to_proto(failure)) for count, failure in row.poisoned],
    )


def _leaks_found(found: effects.LeaksFound) -> cluster_pb2.FindLeaksResponse:
    return cluster_pb2.FindLeaksResponse(
        leaks=[
            cluster_pb2.Leak(
                host=leak.host,
                kind=leak.kind,
                id=leak.id,
                size_bytes=leak.size_bytes,
                session_number=leak.session,
                session_open=leak.session_open,
                tenant=leak.tenant,
                missing=leak.missing,
            )
            for leak in found.leaks
        ],
        hosts=found.hosts,
        late_hosts=found.late_hosts,
        lost_hosts=found.lost_hosts,
        objects=found.objects,
        left_out=found.left_out,
    )
