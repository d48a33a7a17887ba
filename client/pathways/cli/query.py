"""Asks a controller for its views, and turns every way in which that fails into one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any

import grpc
from google.protobuf.message import Message
from pathways_common.model.failure import PathwaysError, Reason, fail
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import parse_address
from pathways_common.rpc.convert import failure_from_proto
from pathways_common.rpc.version import pathways_version
from pathways_proto.v1 import cluster_pb2, cluster_pb2_grpc, movements_pb2_grpc, tenants_pb2_grpc

_REFUSALS = {
    grpc.StatusCode.UNAUTHENTICATED: Reason.UNAUTHENTICATED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Reason.RESOURCE_EXHAUSTED,
}
_OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", -1)]


class Controller:
    """One controller, as the tools see it; a context manager that closes its connection."""

    def __init__(self, address: str, token: str | None) -> None:
        self._target = parse_address(address)
        self._metadata = bearer(token)
        self._channel = grpc.insecure_channel(self._target, options=_OPTIONS)
        self._stub = cluster_pb2_grpc.ClustersStub(self._channel)
        self._tenants = tenants_pb2_grpc.TenantsStub(self._channel)
        self._movements = movements_pb2_grpc.MovementsStub(self._channel)

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._channel.close()

    def status(self, timeout_s: float = 5.0) -> cluster_pb2.GetStatusResponse:
        """What GetStatus says; raises PathwaysError, as the others do."""
        answer: cluster_pb2.GetStatusResponse = self._ask(self._stub.GetStatus, cluster_pb2.GetStatusRequest(), timeout_s)
        return answer

    def trace(self, execution_id: int, timeout_s: float = 10.0) -> cluster_pb2.GetTraceResponse:
        """What GetTrace says of a run, 0 = the last one."""
        request = cluster_pb2.GetTraceRequest(execution_id=execution_id)
        answer: cluster_pb2.GetTraceResponse = self._ask(self._stub.GetTrace, request, timeout_s)
        return answer

    def launches(
        self, session: int, after: Mapping[str, tuple[int, int]] = MappingProxyType({}), timeout_s: float = 10.0
    ) -> cluster_pb2.GetTraceResponse:
        """What GetTrace says of an open session's launches, behind an epoch and sequence per island; its refusal is raised."""
        positions = [
            cluster_pb2.IslandPosition(island=name, epoch=epoch, sequence=sequence) for name, (epoch, sequence) in after.items()
        ]
        request = cluster_pb2.GetTraceRequest(session_number=session, after=positions)
        answer: cluster_pb2.GetTraceResponse = self._ask(self._stub.GetTrace, request, timeout_s)
        if answer.HasField("failure"):
            raise PathwaysError(failure_from_proto(answer.failure))
        return answer

    def programs(self, timeout_s: float = 5.0) -> cluster_pb2.ListProgramsResponse:
        """What ListPrograms says."""
        answer: cluster_pb2.ListProgramsResponse = self._ask(
            self._stub.ListPrograms, cluster_pb2.ListProgramsRequest(), timeout_s
        )
        return answer

    def tenants(self, method: str, request: Message, timeout_s: float = 10.0) -> Message:
        """What a method of the Tenants service says."""
        answer: Message = self._ask(getattr(self._tenants, method), request, timeout_s)
        return answer

    def movements(self, method: str, request: Message, timeout_s: float = 10.0) -> Message:
        """What a method of the Movements service says."""
        answer: Message = self._ask(getattr(self._movements, method), request, timeout_s)
        return answer

    def leaks(self, timeout_s: float = 20.0) -> cluster_pb2.FindLeaksResponse:
        """What FindLeaks says; hosts answer behind the work that they have."""
        answer: cluster_pb2.FindLeaksResponse = self._ask(self._stub.FindLeaks, cluster_pb2.FindLeaksRequest(), timeout_s)
        return answer

    def work(self, tenant: str, limit: int, timeout_s: float = 5.0) -> cluster_pb2.ListWorkResponse:
        """What ListWork says."""
        request = cluster_pb2.ListWorkRequest(tenant=tenant, limit=limit)
        answer: cluster_pb2.ListWorkResponse = self._ask(self._stub.ListWork, request, timeout_s)
        return answer

    def buffers(self, tenant: str, session: int, limit: int, timeout_s: float = 5.0) -> cluster_pb2.ListBuffersResponse:
        """What ListBuffers says."""
        request = cluster_pb2.ListBuffersRequest(tenant=tenant, session_number=session, limit=limit)
        answer: cluster_pb2.ListBuffersResponse = self._ask(self._stub.ListBuffers, request, timeout_s)
        return answer

    def explain(self, request: cluster_pb2.ExplainRequest, timeout_s: float = 5.0) -> cluster_pb2.ExplainResponse:
        """What Explain says."""
        answer: cluster_pb2.ExplainResponse = self._ask(self._stub.Explain, request, timeout_s)
        return answer

    def diagnose(self, timeout_s: float = 4.0) -> cluster_pb2.DiagnoseResponse:
        """What Diagnose says; the controller gives hosts 2 s."""
        answer: cluster_pb2.DiagnoseResponse = self._ask(self._stub.Diagnose, cluster_pb2.DiagnoseRequest(), timeout_s)
        return answer

    def story(self, request: cluster_pb2.GetStoryRequest, timeout_s: float = 5.0) -> cluster_pb2.GetStoryResponse:
        """What GetStory says."""
        answer: cluster_pb2.GetStoryResponse = self._ask(self._stub.GetStory, request, timeout_s)
        return answer

    def version(self, timeout_s: float = 2.0) -> cluster_pb2.GetVersionResponse:
        """What GetVersion says; it needs no token."""
        answer: cluster_pb2.GetVersionResponse = self._ask(self._stub.GetVersion, cluster_pb2.GetVersionRequest(), timeout_s)
        return answer

    def _ask(self, method: Any, request: Any, timeout_s: float) -> Any:
        try:
            return method(request, timeout=timeout_s, metadata=self._metadata)
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED and (old := self._too_old()):
                raise fail(Reason.VERSION_MISMATCH, old) from None
            raise self._explained(error.code(), error.details() or "", timeout_s) from None

    def _too_old(self) -> str:
        """If what listens is a controller that does not know what it was asked: what to do about it."""
        try:
            said = self._stub.GetVersion(cluster_pb2.GetVersionRequest(), timeout=2.0)
        except grpc.RpcError:
            return ""
        own = pathways_version()
        return (
            f"the controller at grpc://{self._target} has pathways {said.pathways_version}, which does not know this command, "
            f"and the command has {own}: upgrade the controller to {own}, or use the command of its version"
        )

    def _explained(self, code: grpc.StatusCode, details: str, timeout_s: float) -> PathwaysError:
        address = f"grpc://{self._target}"
        if code is grpc.StatusCode.INVALID_ARGUMENT:
            return fail(Reason.INVALID_ARGUMENT, details, address=address)
        if code in _REFUSALS:
            return fail(_REFUSALS[code], f"the controller at {address} refused: {details}", address=address)
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return fail(
                Reason.TIMED_OUT,
                f"what listens at {address} did not answer within {timeout_s:g} s",
                address=address,
                retryable=True,
            )
        if code is grpc.StatusCode.UNIMPLEMENTED:
            return fail(
                Reason.INVALID_ARGUMENT,
                f"what listens at {address} is no Pathways controller; check the address",
                address=address,
            )
        if code is grpc.StatusCode.UNAVAILABLE:
            return fail(
                Reason.UNAVAILABLE,
                f"no controller answers at {address}: start one with `pathways up`, or check the address",
                address=address,
                retryable=True,
            )
        return fail(Reason.UNAVAILABLE, f"the controller at {address} answered {code.name}: {details}", address=address)
