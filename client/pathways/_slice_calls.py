"""Calls about slices to the door of this process. Every one has a deadline, and every failure is a typed error.

A call that is given up is cancelled, and the door then gives the slice back.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Iterable
from typing import Any

import grpc
from pathways_common.model.bounds import FENCE_TIMEOUT_NS, SLICE_ANSWER_NS, SLICE_CHANGE_NS
from pathways_common.rpc.convert import optional_failure
from pathways_proto.v1 import door_pb2, door_pb2_grpc, sessions_pb2

from pathways import _jax, errors

_WAITING_KEY = "pathways-slice-waiting-bin"
# The door's own deadlines come first, with better words.
_GRACE_S = 10.0
_OPTIONS = [("grpc.enable_http_proxy", 0), ("grpc.use_local_subchannel_pool", 1)]
_LOG = logging.getLogger("pathways")


class SliceCalls:
    """The slices service of one door; may be used from any thread."""

    def __init__(self, door_address: str, secret: str) -> None:
        self._address = door_address
        self._metadata = (("pathways-door-secret", secret),)
        self._fences = itertools.count(1)
        self._lock = threading.Lock()
        self._channel: grpc.Channel | None = None
        self._devices: dict[int, Any] = {}
        self._used: set[int] = set()
        self.closed = False

    def _opened(self) -> grpc.Channel:
        with self._lock:
            if self.closed:
                raise errors.UnavailableError("the connection to the cluster was closed; its slices went with it")
            if self._channel is None:
                self._channel = grpc.insecure_channel(self._address, options=_OPTIONS)
            return self._channel

    def devices(self, ids: Iterable[int]) -> list[Any]:
        """JAX's devices with these ids, which a slice has just got."""
        wanted = list(ids)
        with self._lock:
            again = not self._used.isdisjoint(wanted)
            self._used.update(wanted)
        if again:
            # The programs of the slice that had them before ended with it, and JAX knows programs by their devices.
            _jax.forget_programs()
        if not self._devices:
            self._devices = {device.id: device for device in _jax.all_devices(_jax.our_client())}
        return [self._devices[identifier] for identifier in wanted]

    def add(self, request: sessions_pb2.AddSlice) -> sessions_pb2.SliceAdded:
        """Blocks until there is a slice or none can be had; logs once what it waits for. Raises errors.PathwaysError."""
        limit_s = (SLICE_ANSWER_NS + (request.timeout_ns if request.wait else 0)) / 1e9 + _GRACE_S
        # A stream of one answer is the same on the wire; gRPC gives the metadata of a unary call with its answer only.
        add = self._opened().unary_stream(
            "/pathways.v1.Slices/Add",
            request_serializer=sessions_pb2.AddSlice.SerializeToString,
            response_deserializer=sessions_pb2.SliceAdded.FromString,
        )
        call = add(request, metadata=self._metadata, timeout=limit_s)
        try:
            if request.wait:
                # Comes with the answer, or earlier when there is something to tell.
                text = dict(call.initial_metadata() or ()).get(_WAITING_KEY)
                if text:
                    _LOG.warning("%s", text.decode(errors="replace"))
            added: sessions_pb2.SliceAdded = next(call)
        except grpc.RpcError as error:
            raise _typed(error) from None
        finally:
            call.cancel()  # after Ctrl-C; nothing happens to a call that ended
        failure = optional_failure(added)
        if failure is not None:
            raise errors.from_failure(failure)
        return added

    def release(self, slice_id: int) -> None:
        """Gives a slice back behind everything this thread dispatched before. Raises errors.PathwaysError."""
        stub = door_pb2_grpc.SlicesStub(self._opened())
        fence = next(self._fences)
        try:
            _jax.execute_plugin_program(_jax.our_client(), f"pathways-fence {fence}")
        except Exception as error:
            raise errors.of(error) from None
        request = door_pb2.ReleaseSliceRequest(slice_id=slice_id, fence=fence)
        try:
            stub.Release(request, metadata=self._metadata, timeout=FENCE_TIMEOUT_NS / 1e9 + _GRACE_S)
        except grpc.RpcError as error:
            raise _typed(error) from None

    def suspend(self, slice_id: int) -> None:
        """Suspends a slice behind everything this thread dispatched before. Raises errors.PathwaysError."""
        self._change("Suspend", slice_id)

    def resume(self, slice_id: int) -> sessions_pb2.SliceResumed:
        """Gives a suspended slice devices again; says which. Raises errors.PathwaysError."""
        resumed: sessions_pb2.SliceResumed = self._change("Resume", slice_id)
        return resumed

    def _change(self, method: str, slice_id: int) -> Any:
        stub = door_pb2_grpc.SlicesStub(self._opened())
        fence = next(self._fences)
        try:
            _jax.execute_plugin_program(_jax.our_client(), f"pathways-fence {fence}")
        except Exception as error:
            raise errors.of(error) from None
        request = door_pb2.ChangeSliceRequest(slice_id=slice_id, fence=fence)
        limit_s = (SLICE_CHANGE_NS + FENCE_TIMEOUT_NS) / 1e9 + _GRACE_S
        try:
            answer = getattr(stub, method)(request, metadata=self._metadata, timeout=limit_s)
        except grpc.RpcError as error:
            raise _typed(error) from None
        failure = optional_failure(answer)
        if failure is not None:
            raise errors.from_failure(failure)
        return answer

    def close(self) -> None:
        """Makes no more calls; the session gives its slices back by itself when it ends."""
        with self._lock:
            self.closed = True
            if self._channel is not None:
                self._channel.close()


def _typed(error: grpc.RpcError) -> errors.PathwaysError:
    code, details = error.code(), error.details() or "no reason was given"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return errors.TimedOutError(f"the door did not answer a call about a slice in time: {details}")
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return errors.UnauthenticatedError(details)
    sentence = f"the door of this process cannot be reached any more ({details}); connect again"
    return errors.UnavailableError(errors.door_that_ended() or sentence)
