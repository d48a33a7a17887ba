"""Which methods the controller serves and how they are decoded: streams as bytes, unary calls as messages."""

from __future__ import annotations

from typing import Any

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from pathways_proto.v1 import cluster_pb2, movements_pb2, tenants_pb2

from pathways_server.rpc.clusters import ClustersService
from pathways_server.rpc.diagnoses import Diagnoses
from pathways_server.rpc.movements import MovementsService
from pathways_server.rpc.sessions import SessionsService
from pathways_server.rpc.tenants import TenantsService
from pathways_server.rpc.views import Views
from pathways_server.rpc.workers import WorkersService

SESSIONS = "pathways.v1.Sessions"
WORKERS = "pathways.v1.Workers"
CLUSTERS = "pathways.v1.Clusters"
TENANTS = "pathways.v1.Tenants"
MOVEMENTS = "pathways.v1.Movements"
GET_STATUS = f"{CLUSTERS}/GetStatus"
GET_TRACE = f"{CLUSTERS}/GetTrace"
LIST_PROGRAMS = f"{CLUSTERS}/ListPrograms"
VIEWS = tuple(f"{CLUSTERS}/{name}" for name in ("FindLeaks", "ListWork", "ListBuffers", "Explain", "Diagnose", "GetStory"))


async def register(
    server: grpc.aio.Server,
    sessions: SessionsService,
    workers: WorkersService,
    clusters: ClustersService,
    tenants: TenantsService,
    views: Views,
    diagnoses: Diagnoses,
    movements: MovementsService,
) -> None:
    """Adds all services, health and reflection to the server."""
    generic = grpc.method_handlers_generic_handler
    stream = grpc.stream_stream_rpc_method_handler
    calls = {
        **{
            name: _unary(method, getattr(cluster_pb2, f"{name}Request"))
            for name, method in (views.methods() | diagnoses.methods()).items()
        },
        "GetStatus": _unary(clusters.get_status, cluster_pb2.GetStatusRequest),
        "GetVersion": _unary(clusters.get_version, cluster_pb2.GetVersionRequest),
        "GetTrace": _unary(clusters.get_trace, cluster_pb2.GetTraceRequest),
        "ListPrograms": _unary(clusters.list_programs, cluster_pb2.ListProgramsRequest),
    }
    acts = {
        "ListTenants": _unary(tenants.list_tenants, tenants_pb2.ListTenantsRequest),
        "AddTenant": _unary(tenants.add_tenant, tenants_pb2.AddTenantRequest),
        "ReplaceToken": _unary(tenants.replace_token, tenants_pb2.ReplaceTokenRequest),
        "SetTenant": _unary(tenants.set_tenant, tenants_pb2.SetTenantRequest),
        "RemoveTenant": _unary(tenants.remove_tenant, tenants_pb2.RemoveTenantRequest),
        "GetUsage": _unary(tenants.get_usage, tenants_pb2.GetUsageRequest),
        "ListQuarantine": _unary(tenants.list_quarantine, tenants_pb2.ListQuarantineRequest),
        "AllowProgram": _unary(tenants.allow_program, tenants_pb2.AllowProgramRequest),
        "SetPolicy": _unary(tenants.set_policy, tenants_pb2.SetPolicyRequest),
        "ListAudit": _unary(tenants.list_audit, tenants_pb2.ListAuditRequest),
    }
    moves = {name: _unary(method, getattr(movements_pb2, f"{name}Request")) for name, method in movements.methods().items()}
    server.add_generic_rpc_handlers(
        (
            generic(SESSIONS, {"Connect": stream(sessions.connect)}),
            generic(WORKERS, {"Connect": stream(workers.connect)}),
            generic(CLUSTERS, calls),
            generic(TENANTS, acts),
            generic(MOVEMENTS, moves),
        )
    )
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    names = (SESSIONS, WORKERS, CLUSTERS, TENANTS, MOVEMENTS, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    for name in ("", SESSIONS, WORKERS, CLUSTERS, TENANTS, MOVEMENTS):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)


def _unary(behaviour: Any, request: Any) -> Any:
    """A handler with decoded messages."""
    return grpc.unary_unary_rpc_method_handler(
        behaviour,
        request_deserializer=request.FromString,
        response_serializer=lambda response: response.SerializeToString(),
    )
