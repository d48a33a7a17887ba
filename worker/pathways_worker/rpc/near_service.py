"""The Data service for processes of this machine: a ticket comes with shared memory, and the executor reads or fills it.

One connection per transfer. Who connects needs a ticket, as elsewhere; the socket itself is open to this network namespace.
"""

from __future__ import annotations

import asyncio
import logging

from google.protobuf.message import DecodeError
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.process.logs import fields
from pathways_common.process.segments import check_segment
from pathways_common.process.tasks import Supervisor
from pathways_common.rpc.convert import failure_to_proto
from pathways_common.rpc.datagrams import Datagrams, Listener, close_all, receive_unless
from pathways_proto.v1 import data_pb2

from pathways_worker.shell.transfer_agent import Segment, TransferAgent

_LOG = logging.getLogger(__name__)
# For the request, and to take the answer; the transfer itself ends with its peer, or by its ticket's deadlines.
_REQUEST_S = 60.0
CONNECTIONS_MAX = 1024


class NearService:
    """Listens from the start until it is closed; `name` is for who asks where."""

    def __init__(self, agent: TransferAgent, supervisor: Supervisor) -> None:
        self._agent = agent
        self._supervisor = supervisor
        self._count = 0
        self._listener: Listener | None = None

    @property
    def name(self) -> str:
        """Of the socket; empty if there is none."""
        return "" if self._listener is None else self._listener.name

    def start(self) -> None:
        """Listens if this machine has such sockets."""
        try:
            self._listener = Listener(self._connected)
        except OSError as error:
            _LOG.warning("no transfers through shared memory", extra=fields(cause=error.strerror))

    def close(self) -> None:
        """Takes no more transfers."""
        if self._listener is not None:
            self._listener.close()

    def _connected(self, peer: Datagrams) -> None:
        if self._count >= CONNECTIONS_MAX:
            peer.close()
            return
        self._count += 1
        self._supervisor.spawn("near transfer", self._serve(peer))

    async def _serve(self, peer: Datagrams) -> None:
        descriptors: list[int] = []
        try:
            async with asyncio.timeout(_REQUEST_S):
                received = await peer.receive()
            if received is None:
                return
            data, descriptors = received
            failure = await self._transfer(peer, data_pb2.NearTransfer.FromString(data), descriptors)
            answer = data_pb2.NearAnswer(failure=None if failure is None else failure_to_proto(failure), answered=True)
            await peer.send(answer.SerializeToString())
            # What lies unread when we close would take the answer with it.
            async with asyncio.timeout(_REQUEST_S):
                while (more := await peer.receive()) is not None:
                    close_all(more[1])
        except (OSError, TimeoutError, DecodeError) as error:
            _LOG.info("near transfer ended", extra=fields(cause=str(error) or type(error).__name__))
        finally:
            self._count -= 1
            peer.close()
            close_all(descriptors)

    async def _transfer(self, peer: Datagrams, request: data_pb2.NearTransfer, descriptors: list[int]) -> Failure | None:
        if len(descriptors) != 1:
            return Failure(Reason.INVALID_ARGUMENT, f"a near transfer brings one descriptor, not {len(descriptors)}")
        try:
            check_segment(descriptors[0], request.offset + request.size_bytes)
        except PathwaysError as error:
            return error.failure
        segment = Segment(descriptors[0], request.offset)
        if request.push:
            return await self._push(peer, request, segment)
        return await self._pull(peer, request, segment)

    async def _pull(self, peer: Datagrams, request: data_pb2.NearTransfer, segment: Segment) -> Failure | None:
        call = self._agent.begin_pull(request.ticket)
        try:
            await receive_unless(peer, call.decided)
            if not call.decided.is_set():
                return None  # the peer has gone, or says more than it should
            # The executor writes into memory of the caller, who may be gone meanwhile.
            return await self._agent.write(call, segment, request.size_bytes)
        except OSError as error:
            return Failure(Reason.RESOURCE_EXHAUSTED, f"bytes of a shard did not get into shared memory: {error}")
        finally:
            # Whoever leaves asks for another ticket if they want the shard yet: it is let go at once.
            self._agent.end_call(call)

    async def _push(self, peer: Datagrams, request: data_pb2.NearTransfer, segment: Segment) -> Failure | None:
        call = self._agent.begin_push(request.ticket)
        broke = True
        try:
            await call.decided.wait()
            if call.size_bytes < 0:
                broke = False
                return None  # it was withdrawn, and nobody reads what is filled
            failure = None
            while call.received_bytes < request.size_bytes and failure is None and not call.over:
                # Without a limit: the caller may have much else to fill before.
                received = await receive_unless(peer, call.dropped)
                if call.over:
                    break
                if received is None:
                    return None
                filled = data_pb2.NearFilled.FromString(received).filled_bytes
                if not call.received_bytes < filled <= request.size_bytes:
                    return Failure(
                        Reason.INVALID_ARGUMENT, f"{filled} of {request.size_bytes} bytes cannot come next; put it again"
                    )
                part = Segment(segment.descriptor, segment.offset + call.received_bytes)
                failure = await self._agent.take_part(call, part, filled - call.received_bytes)
            broke = False
        finally:
            self._agent.end_call(call, broke)
        return failure if call.landing is None else await call.landing
