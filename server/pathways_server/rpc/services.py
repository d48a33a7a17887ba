"""Which methods the controller serves and how they are decoded: streams as bytes, unary calls as messages."""

from __future__ import annotations

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from pathways_proto.v1 import cluster_pb2

from pathways_server.rpc.clusters import ClustersService
from pathways_server.rpc.sessions import SessionsService
from pathways_server.rpc.views import Views
from pathways_server.rpc.workers import WorkersService

SESSIONS = "pathways.v1.Sessions"
WORKERS = "pathways.v1.Workers"
CLUSTERS = "pathways.v1.Clusters"
GET_STATUS = f"{CLUSTERS}/GetStatus"
GET_TRACE = f"{CLUSTERS}/GetTrace"
LIST_PROGRAMS = f"{CLUSTERS}/ListPrograms"
VIEWS = tuple(f"{CLUSTERS}/{name}" for name in ("FindLeaks", "ListWork", "ListBuffers", "Explain"))


async def register(
    server: grpc.aio.Server, sessions: SessionsService, workers: WorkersService, clusters: ClustersService, views: Views
) -> None:
    """Adds all services, health and reflection to the server."""
    generic = grpc.method_handlers_generic_handler
    unary = grpc.unary_unary_rpc_method_handler
    stream = grpc.stream_stream_rpc_method_handler
    status = unary(
        clusters.get_status,
        request_deserializer=cluster_pb2.GetStatusRequest.FromString,
        response_serializer=cluster_pb2.GetStatusResponse.SerializeToString,
    )
    version = unary(
        clusters.get_version,
        request_deserializer=cluster_pb2.GetVersionRequest.FromString,
        response_serializer=cluster_pb2.GetVersionResponse.SerializeToString,
    )
    trace = unary(
        clusters.get_trace,
        request_deserializer=cluster_pb2.GetTraceRequest.FromString,
        response_serializer=cluster_pb2.GetTraceResponse.SerializeToString,
    )
    programs = unary(
        clusters.list_programs,
        request_deserializer=cluster_pb2.ListProgramsRequest.FromString,
        response_serializer=cluster_pb2.ListProgramsResponse.SerializeToString,
    )
    shown = {
        name: unary(
            method,
            request_deserializer=getattr(cluster_pb2, f"{name}Request").FromString,
            response_serializer=getattr(cluster_pb2, f"{name}Response").SerializeToString,
        )
        for name, method in views.methods().items()
    }
    calls = {**shown, "GetStatus": status, "GetVersion": version, "GetTrace": trace, "ListPrograms": programs}
    server.add_generic_rpc_handlers(
        (
            generic(SESSIONS, {"Connect": stream(sessions.connect)}),
            generic(WORKERS, {"Connect": stream(workers.connect)}),
            generic(CLUSTERS, calls),
        )
    )
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    names = (SESSIONS, WORKERS, CLUSTERS, health.SERVICE_NAME, reflection.SERVICE_NAME)
    reflection.enable_server_reflection(names, server)
    for name in ("", SESSIONS, WORKERS, CLUSTERS):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
