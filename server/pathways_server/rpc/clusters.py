"""The Clusters service: views for tools, made from the core's snapshot and what the shell knows of the streams."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pathways_common.model import ids
from pathways_common.model.ids import Epoch, HostName, IslandName
from pathways_common.model.registered import ListedProgram
from pathways_common.rpc.convert import failure_to_proto, spec_to_proto
from pathways_common.rpc.version import PROTOCOL_VERSION, own_versions
from pathways_proto.v1 import cluster_pb2, workers_pb2

from pathways_server.core import effects, events
from pathways_server.core.snapshot import HostFigures, IslandFigures, SessionFigures, SliceFigures
from pathways_server.rpc.callers import Callers
from pathways_server.rpc.form import checked_length
from pathways_server.shell.counters import Counters
from pathways_server.shell.loop import Loop


class ClustersService:
    """Serves unary calls with decoded messages."""

    def __init__(self, loop: Loop, counters: Counters, term: int, version: str, callers: Callers) -> None:
        self._loop = loop
        self._counters = counters
        self._term = term
        self._version = version
        self._callers = callers
        self.link_port = 0
        self._started_ns = time.monotonic_ns()

    async def get_version(self, _request: cluster_pb2.GetVersionRequest, _context: Any) -> cluster_pb2.GetVersionResponse:
        """Version and readiness."""
        return cluster_pb2.GetVersionResponse(
            pathways_version=self._version,
            protocol_version=PROTOCOL_VERSION,
            link_port=self.link_port,
            versions=own_versions(),
        )

    async def get_status(self, _request: cluster_pb2.GetStatusRequest, context: Any) -> cluster_pb2.GetStatusResponse:
        """Islands, hosts and sessions, as of now; to a tenant its own sessions and slices."""
        only = self._callers.visible_tenant(context)
        now_ns = time.monotonic_ns()
        snapshot = self._loop.core.snapshot(now_ns, only)
        return cluster_pb2.GetStatusResponse(
            term=self._term,
            pathways_version=self._version,
            islands=[self._island(each, only is None) for each in snapshot.islands if only is None or each.tenant in ("", only)],
            sessions=[_session(session) for session in snapshot.sessions if only in (None, session.tenant)],
            slices=[_slice(figures) for figures in snapshot.slices if only in (None, figures.tenant)],
            uptime_seconds=(now_ns - self._started_ns) / 1e9,
            versions=own_versions(),
        )

    async def get_trace(self, request: cluster_pb2.GetTraceRequest, context: Any) -> cluster_pb2.GetTraceResponse:
        """What happened in one run, or what a session launched, as far as hosts remember it."""
        only = self._callers.visible_tenant(context)
        after = decoded_positions(request.after)
        ready = await self._loop.traces.ask(
            lambda number: events.TraceRequested(number, request.execution_id, only, request.session_number, after)
        )
        return _trace(ready, time.time_ns() - time.monotonic_ns())

    async def list_programs(self, _request: cluster_pb2.ListProgramsRequest, context: Any) -> cluster_pb2.ListProgramsResponse:
        """Registered programs, every version; to a tenant its own."""
        from pathways_server.core import registry

        only = self._callers.visible_tenant(context)
        programs = [_program(listed) for listed in registry.listed(self._loop.core.state, only)]
        return cluster_pb2.ListProgramsResponse(programs=programs)

    def _island(self, island: IslandFigures, logs: bool) -> cluster_pb2.IslandStatus:
        return cluster_pb2.IslandStatus(
            name=island.name,
            state=island.state,
            epoch=island.epoch,
            hosts=[self._host(host, logs) for host in island.hosts],
            granted_through=island.granted_through,
            queued_executions=island.queued_executions,
            lacks=island.lacks,
            topology=island.topology,
            device_kind=island.device_kind,
            tenant=island.tenant,
            skew_seconds=island.skew_ns / 1e9,
        )

    def _host(self, host: HostFigures, logs: bool) -> cluster_pb2.HostStatus:
        """`logs`: with the end of its log, which may hold words of any tenant."""
        peer = self._loop.hosts.get(HostName(host.name))
        return cluster_pb2.HostStatus(
            name=host.name,
            state=host.state,
            incarnation=host.incarnation,
            device_count=host.device_count,
            data_address=host.data_address,
            pid=host.pid,
            gangs_granted=host.gangs_granted,
            acknowledged_frames=peer.acknowledged_frames if peer else 0,
            live_bytes=host.live_bytes,
            log_tail=peer.log_tail if peer and logs else (),
            run_frames=self._counters.run_frames.get(host.name, 0),
            executables_compiled=host.executables_compiled,
            executables_reused=host.executables_reused,
            executables_loaded=host.executables_loaded,
            executables_unloaded=host.executables_unloaded,
            coordinates=[index for coordinate in host.coordinates for index in coordinate],
            late_seconds=host.late_ns / 1e9,
            versions=peer.versions if peer else None,
        )


def _session(session: SessionFigures) -> cluster_pb2.SessionStatus:
    return cluster_pb2.SessionStatus(
        tenant=session.tenant,
        session_number=session.session_number,
        client=session.client,
        islands=session.islands,
        device_count=session.device_count,
        programs=session.programs,
        buffers=session.buffers,
        live_bytes=session.live_bytes,
        executions=session.executions,
        age_seconds=session.age_seconds,
    )


def _slice(figures: SliceFigures) -> cluster_pb2.SliceStatus:
    return cluster_pb2.SliceStatus(
        tenant=figures.tenant,
        session_number=figures.session_number,
        slice_id=figures.slice_id,
        state=figures.state,
        island=figures.island,
        hosts=figures.hosts,
        positions=figures.positions,
        device_count=figures.device_count,
        exclusive=figures.exclusive,
        waits_for=figures.waits_for,
    )


def decoded_positions(positions: Sequence[cluster_pb2.IslandPosition]) -> tuple[events.IslandPosition, ...]:
    """Positions in the orders of islands, as a tool names them."""
    checked_length(positions, "after")
    return tuple(
        events.IslandPosition(IslandName(each.island), Epoch(each.epoch), ids.Sequence(each.sequence)) for each in positions
    )


def _trace(ready: effects.TraceReady, wall_ns: int) -> cluster_pb2.GetTraceResponse:
    """`wall_ns` makes the core's times wall clock times; 0 stays 0, it means not yet."""
    hosts = [
        cluster_pb2.TraceHost(host=host, island=island, trace=workers_pb2.TraceCollected.FromString(payload))
        for host, island, payload in ready.hosts
    ]
    return cluster_pb2.GetTraceResponse(
        execution_id=ready.execution_id,
        session_number=ready.session,
        program=ready.program,
        nodes=[
            cluster_pb2.TraceNode(
                node=each.node, name=each.name, source=each.source, island=each.island, execution_id=each.execution_id
            )
            for each in ready.nodes
        ],
        hosts=hosts,
        failure=None if ready.failure is None else failure_to_proto(ready.failure),
        requested_ns=ready.requested_ns + wall_ns if ready.requested_ns else 0,
        granted_ns=ready.granted_ns + wall_ns if ready.granted_ns else 0,
        pieces=[cluster_pb2.TracePiece(execution_id=each.execution_id, label=each.label) for each in ready.pieces],
        piece_count=ready.piece_count,
        late_hosts=ready.late_hosts,
        lost_hosts=ready.lost_hosts,
    )


def _program(listed: ListedProgram) -> cluster_pb2.RegisteredProgram:
    return cluster_pb2.RegisteredProgram(
        tenant=listed.tenant,
        name=listed.name,
        version=listed.version,
        device_count=listed.device_count,
        node_count=listed.node_count,
        arguments=[spec_to_proto(spec) for spec in listed.arguments],
        results=[spec_to_proto(spec) for spec in listed.results],
    )
