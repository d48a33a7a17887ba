"""One session stream to the controller.

Everything pushed in a loop turn leaves in one frame, paced by acknowledgements both ways. Nobody ever waits for a push. An
acknowledgement or a release rides with the next frame; what nobody waits for leaves alone only after a moment, and an
acknowledgement at once when the controller's window is full.
Releases gather and ride behind other operations; a lot of bytes is released at once.

When the connection breaks, the session goes on over another within its lease: what the controller has not received is sent again,
and what is pushed meanwhile waits. When it is lost, every wait, now and later, ends with one UNAVAILABLE failure, and pushes are
dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from pathways_common.model.bounds import (
    DOOR_OPERATIONS_MAX,
    RELEASE_BYTES_MAX,
    STOP_GRACE_NS,
    WELCOME_TIMEOUT_NS,
    WINDOW_FRAMES,
)
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.link import Frame, Link, Verdict
from pathways_common.process.logs import fields
from pathways_common.rpc.conversation import Stream
from pathways_common.rpc.convert import failure_from_proto, optional_failure
from pathways_common.rpc.reconnecting import Failed, TooLate, come_back
from pathways_common.rpc.version import mismatch
from pathways_proto.v1 import sessions_pb2, types_pb2

from pathways_door.envelope import serialized
from pathways_door.fences import Fences
from pathways_door.pending import Continuation, Pending
from pathways_door.session_call import Dialler, FramedSession, SessionCall, stream_over

_LOG = logging.getLogger(__name__)
_NUMBER_FIELDS = {
    "ready": "wait_id",
    "fetched": "fetch_id",
    "fetch_ticket": "fetch_id",
    "fetch_failed": "fetch_id",
    "compiled": "executable_id",
    "inspected": "inspect_id",
    "fence_reached": "fence_id",
    "slice_added": "slice_id",
    "slice_suspended": "slice_id",
    "slice_resumed": "slice_id",
    "program_defined": "program_id",
    "program_registered": "program_id",
    "program_fused": "program_id",
}
_FETCH_ANSWERS = ("fetched", "fetch_ticket", "fetch_failed")

Listener = Callable[[Any], None]


class LateBytes(Protocol):
    """Bytes that may still join operations already pushed."""

    def unsettled(self, settled: Callable[[], None]) -> bool:
        """Whether they should be given a moment; `settled` is called when it is over."""

    def seal(self) -> None:
        """Their operations are leaving: nothing joins any more."""


class Refusal(PathwaysError):
    """The controller's answer to a hello."""


class Away:
    """In place of a stream, while there is none."""

    async def converse(self, _talk: Any) -> None:
        """There is nobody to talk to."""

    def answered(self, awaited: bool = True) -> None:
        """What there is to say waits."""


class Upstream:
    """The door's end of one session, a conversation over one stream after another. Made by `open_upstream`; for one event loop.

    `dialler`: opens other connections when one breaks; None, or a controller that grants no lease: it ends with its connection.
    """

    def __init__(self, call: SessionCall, stream: Stream, welcome: sessions_pb2.Welcome, dialler: Dialler | None = None) -> None:
        self.welcome = welcome
        self._dialler = dialler if welcome.lease_ns else None
        self._connections = 0
        self._operations_received = 0
        self._replay: deque[Frame[sessions_pb2.ClientOperation]] = deque()
        self.lost: Failure | None = None
        self.pending = Pending()
        self.fences = Fences()
        # Members of ServerOperation that nobody asked for: upload_grant, upload_withdrawn, callback_request, callback_cancelled,
        # slice_waiting.
        self.listeners: dict[str, Listener] = {}
        # Told before and when a frame is made; see uploads.py.
        # Whether whoever is served has shown a secret: colocated Python is code that hosts run.
        self.may_run_python = True
        # Of whoever is served; empty: not known.
        self.versions = types_pb2.Versions()
        self.late: LateBytes | None = None
        self._call = call
        self._stream = stream
        self._link: Link[sessions_pb2.ClientOperation] = Link()
        self._last_id = 0
        self._released: list[int] = []
        self._released_bytes = 0
        self._released_executables: list[int] = []
        self._released_programs: list[int] = []
        self._outstanding = 0
        self._in_frames: deque[tuple[int, int]] = deque()
        self._room = asyncio.Event()
        self._room.set()
        self._drained = asyncio.Event()
        self._ended = asyncio.Event()
        # A controller that was not heard of by a frame, maybe empty, has nobody to wait for.
        self._told = 0 if self._dialler is None else -1
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the task of the stream."""
        work = self._guarded(self._converse())
        self._task = asyncio.get_running_loop().create_task(work, name=f"upstream-{self.welcome.session_number}")

    # ---- towards the controller -------------------------------------------------------------------------------------

    def new_ids(self, count: int = 1) -> int:
        """The first of `count` fresh ids; views, buffers, executables, programs, executions and runs share one counter."""
        first = self._last_id + 1
        self._last_id += count
        return first

    def push(self, operation: sessions_pb2.ClientOperation, urgent: bool = False) -> None:
        """Queues an operation behind everything pushed before it."""
        if self.lost is not None:
            return
        if self._released_bytes > RELEASE_BYTES_MAX and not urgent:
            self._flush_releases()
        self._push(operation, urgent)

    def _push(self, operation: sessions_pb2.ClientOperation, urgent: bool) -> None:
        self._link.push(operation, urgent)
        self._outstanding += 1
        if self._outstanding > DOOR_OPERATIONS_MAX:
            self._room.clear()
        self._stream.answered()

    def ask(self, kind: str, number: int, operation: sessions_pb2.ClientOperation, continuation: Continuation) -> None:
        """Pushes an operation that is answered; `kind` is the answer's member ("fetched" stands for all three of a fetch)."""
        if self.lost is not None:
            continuation(None, self.lost)
            return
        self.pending.expect(kind, number, continuation)
        self.push(operation)

    def release(self, value_id: int, size_bytes: int) -> None:
        """Drops a view or buffer behind the operations pushed so far; rides in the same frame as what follows."""
        self._released.append(value_id)
        self._released_bytes += size_bytes
        self._stream.answered(awaited=self._released_bytes > RELEASE_BYTES_MAX)

    def release_executable(self, executable_id: int) -> None:
        """Drops an executable behind the operations pushed so far."""
        self._released_executables.append(executable_id)
        self._stream.answered(awaited=False)

    def release_program(self, program_id: int) -> None:
        """Drops a program behind the operations pushed so far."""
        self._released_programs.append(program_id)
        self._stream.answered(awaited=False)

    def _flush_releases(self) -> None:
        if not self._released and not self._released_executables and not self._released_programs:
            return
        release = sessions_pb2.Release(
            views=self._released, executables=self._released_executables, programs=self._released_programs
        )
        self._released = []
        self._released_executables = []
        self._released_programs = []
        self._released_bytes = 0
        self._push(sessions_pb2.ClientOperation(release=release), urgent=False)

    @property
    def behind(self) -> bool:
        """Whether more operations are un-acknowledged than a client may have."""
        return not self._room.is_set()

    async def caught_up(self) -> None:
        """Waits until the controller has caught up, or the session is lost; keep-alive and lease bound it."""
        await self._room.wait()

    def take(self) -> list[bytes]:
        """The frames that leave now."""
        frames: list[bytes] = []
        while self._replay:
            again = self._replay.popleft()
            frames.append(self._serialized(sessions_pb2.ClientFrame(sequence=again.sequence, operations=again.items)))
        while (frame := self._next_frame()) is not None:
            self._in_frames.append((frame.sequence, len(frame.items)))
            frames.append(self._serialized(sessions_pb2.ClientFrame(sequence=frame.sequence, operations=frame.items)))
        if self._told != self._link.received:
            frames.append(self._serialized(sessions_pb2.ClientFrame()))
        if self._closing and frames:
            self._stream.answered()  # asks again once these have been passed on
        elif self._closing and not self._link.pending:
            self._drained.set()
        return frames

    def _next_frame(self) -> Frame[sessions_pb2.ClientOperation] | None:
        late = self.late
        if late is not None and self._link.unacknowledged < WINDOW_FRAMES and late.unsettled(self._have_news):
            return None
        self._flush_releases()
        frame = self._link.take()
        if frame is not None and late is not None:
            late.seal()
        return frame

    def _have_news(self) -> None:
        self._stream.answered()

    def _serialized(self, frame: sessions_pb2.ClientFrame) -> bytes:
        self._told = frame.received = self._link.received
        return serialized(frame)

    # ---- from the controller ----------------------------------------------------------------------------------------

    # A door reads all that the controller sends; the controller bounds it.
    crowded = False

    async def room(self) -> None:
        """There always is."""

    async def _converse(self) -> None:
        while True:
            orderly = False
            try:
                await self._stream.converse(self)
                # Of a framed connection the end says nothing: a broken one may look the same.
                orderly = await self._call.code() is grpc.StatusCode.OK and not isinstance(self._call, FramedSession)
                failure = (await _end_of(self._call)).failure
            except grpc.aio.AioRpcError as error:
                failure = _failure_of_rpc(error)
            if self.lost is not None or self._dialler is None or failure.reason is not Reason.UNAVAILABLE:
                raise PathwaysError(failure)
            if self._closing and (orderly or not (self._link.unacknowledged or self._link.pending)):
                raise PathwaysError(failure)  # the goodbye was heard
            await self._come_back(failure, self._dialler)

    async def _come_back(self, failure: Failure, dialler: Dialler) -> None:
        """Another connection, in time; raises PathwaysError if there is none, or the session has ended."""
        limit_s = max(self.welcome.lease_ns, self.welcome.orphan_ns) / 1e9
        known = fields(session=self.welcome.session_number, cause=failure.message, limit_s=limit_s)
        _LOG.warning("session link broke; coming back", extra=known)
        self._stream = Away()
        try:
            self._call, frame = await come_back(limit_s, partial(_dialled, dialler), partial(self._greet_again, dialler.hello))
        except TooLate as late:
            sentence = f"{failure.message}; no other connection came about within {limit_s:g} s: {late}"
            raise fail(Reason.UNAVAILABLE, sentence) from None
        self._link.acknowledge(frame.received)
        self._count_acknowledged(frame.received)
        self._replay = deque(self._link.replay())
        self._stream = stream_over(self._call)
        self._stream.answered()
        again = fields(session=self.welcome.session_number, connection=self._connections, frames_again=len(self._replay))
        _LOG.warning("session link is back", extra=again)

    async def _greet_again(self, first: sessions_pb2.Hello, call: SessionCall) -> sessions_pb2.ServerFrame:
        self._connections += 1
        hello = sessions_pb2.Hello()
        hello.CopyFrom(first)
        hello.session_id, hello.term, hello.connection = self.welcome.session_id, self.welcome.term, self._connections
        hello.received_operations = self._operations_received
        told = self._link.received
        try:
            frame = await _greet(call, sessions_pb2.ClientFrame(received=told, hello=hello))
        except Refusal:
            raise
        except PathwaysError as error:
            if error.failure.reason is Reason.UNAVAILABLE:
                raise Failed(error.failure.message) from None
            raise
        except grpc.aio.AioRpcError as error:
            raise Failed(_failure_of_rpc(error).message) from None
        self._told = told
        return frame

    def handle(self, raw: bytes) -> None:
        """Takes one frame of the controller; one that cannot be ends the stream."""
        if self.lost is not None:
            return
        try:
            self._accept(sessions_pb2.ServerFrame.FromString(raw))
        except PathwaysError as error:
            self._lose(error.failure)
        except Exception as error:
            _LOG.critical("session stream failed", exc_info=error)
            self._lose(Failure(Reason.INTERNAL, f"the door failed on the session stream: {error}"))
        if self.lost is not None:
            self._call.cancel()

    def _accept(self, frame: sessions_pb2.ServerFrame) -> None:
        self._link.acknowledge(frame.received)
        self._count_acknowledged(frame.received)
        if frame.sequence:
            verdict = self._link.accept(frame.sequence)
            if verdict is Verdict.GAP:
                raise fail(Reason.UNAVAILABLE, f"frame {frame.sequence} of the controller arrived before an earlier one")
            if verdict is Verdict.NEW:
                self._operations_received += len(frame.operations)
                for operation in frame.operations:
                    self._dispatch(operation)
        if self._link.pending or self._link.holds_up(self._told):
            self._stream.answered()
        elif self._link.received != self._told:
            self._stream.answered(awaited=False)

    def _count_acknowledged(self, sequence: int) -> None:
        while self._in_frames and self._in_frames[0][0] <= sequence:
            self._outstanding -= self._in_frames.popleft()[1]
        if self._outstanding <= DOOR_OPERATIONS_MAX // 2:
            self._room.set()

    def _dispatch(self, operation: sessions_pb2.ServerOperation) -> None:
        member = operation.WhichOneof("operation")
        if member is None:
            return
        message = getattr(operation, member)
        number_field = _NUMBER_FIELDS.get(member)
        if number_field is not None:
            failure = optional_failure(message) if "failure" in message.DESCRIPTOR.fields_by_name else None
            kind = "fetched" if member in _FETCH_ANSWERS else member
            self.pending.answer(kind, getattr(message, number_field), message, failure)
        elif member == "session_lost":
            raise PathwaysError(failure_from_proto(message.failure))
        elif member == "notice":
            _LOG.warning("notice of the cluster", extra=fields(host=message.host, text=message.text))
        elif (listener := self.listeners.get(member)) is not None:
            listener(message)

    # ---- the end ----------------------------------------------------------------------------------------------------

    async def _guarded(self, work: Any) -> None:
        try:
            await work
        except PathwaysError as error:
            self._lose(error.failure)
        except grpc.aio.AioRpcError as error:
            self._lose(_failure_of_rpc(error))
        except Exception as error:
            if self._call.done() and self._dialler is None:
                self._lose((await _end_of(self._call)).failure)
            else:
                _LOG.critical("session stream failed", exc_info=error)
                self._lose(Failure(Reason.INTERNAL, f"the door failed on the session stream: {error}"))

    def _lose(self, failure: Failure) -> None:
        if self.lost is not None:
            return
        text = f"the session with the Pathways controller was lost ({failure.message}); connect again, its values are gone"
        if failure.message.endswith("its values are gone"):  # says how to go on
            text = f"the session with the Pathways controller was lost: {failure.message}"
        code = failure.reason if failure.reason in (Reason.CANCELLED, Reason.UNAUTHENTICATED) else Reason.UNAVAILABLE
        self.lost = Failure(code, text, host=failure.host, id=failure.id, metadata=failure.metadata, retryable=True)
        level = logging.INFO if self._closing else logging.WARNING
        _LOG.log(
            level,
            "session ended" if self._closing else "session lost",
            extra=fields(session=self.welcome.session_number, cause=failure.message),
        )
        self._room.set()
        self._drained.set()
        self._ended.set()
        self.pending.fail_all(self.lost)

    async def close(self, reason: str) -> None:
        """Says goodbye, behind everything pushed, and ends the stream within the stop grace."""
        self._closing = True
        if self.lost is None:
            self._drained.clear()
            self.push(sessions_pb2.ClientOperation(goodbye=sessions_pb2.Goodbye(reason=reason)))
            try:
                await asyncio.wait_for(self._drained.wait(), STOP_GRACE_NS / 1e9)
                await asyncio.wait_for(self._call.done_writing(), STOP_GRACE_NS / 1e9)
                await asyncio.wait_for(self._ended.wait(), STOP_GRACE_NS / 1e9)
            except (TimeoutError, grpc.aio.AioRpcError, asyncio.InvalidStateError):
                _LOG.info("goodbye was not taken in time", extra=fields(session=self.welcome.session_number))
        if self._task is not None:
            self._task.cancel()
        self._call.cancel()
        self._lose(Failure(Reason.CANCELLED, "the session was closed"))


async def open_upstream(channel: grpc.aio.Channel, address: str, token: str | None, hello: sessions_pb2.Hello) -> Upstream:
    """Says hello and waits for the welcome; raises PathwaysError with one sentence if there is none in time."""
    call: SessionCall | None = None
    hello.resumable = True
    dialler = Dialler(channel, address, token, hello)
    try:
        async with asyncio.timeout(WELCOME_TIMEOUT_NS / 1e9):
            call = await dialler.open()
            welcome = (await _greet(call, sessions_pb2.ClientFrame(hello=hello))).welcome
    except BaseException as error:
        # Also if whoever asked has given up: a connection of ours would stay, and the session with it.
        if call is not None:
            call.cancel()
        if isinstance(error, TimeoutError):
            raise fail(
                Reason.UNAVAILABLE,
                f"the controller did not answer within {WELCOME_TIMEOUT_NS // 10**9} s; is it overloaded or stopped?",
            ) from None
        if isinstance(error, grpc.aio.AioRpcError):
            raise PathwaysError(_failure_of_rpc(error)) from None
        raise
    upstream = Upstream(call, stream_over(call), welcome, dialler)
    upstream.start()
    return upstream


async def _dialled(dialler: Dialler) -> SessionCall:
    """Another call; raises Failed if there is nobody to be called."""
    try:
        return await dialler.open()
    except grpc.aio.AioRpcError as error:
        raise Failed(error.details() or error.code().name) from None


async def _greet(call: SessionCall, first: sessions_pb2.ClientFrame) -> sessions_pb2.ServerFrame:
    """Says hello; the frame of the welcome, or PathwaysError in place of one."""
    raw: Any = grpc.aio.EOF
    with suppress(asyncio.InvalidStateError):
        await call.write(first.SerializeToString())
        raw = await call.read()
    if raw is grpc.aio.EOF:
        raise await _end_of(call)
    try:
        frame = sessions_pb2.ServerFrame.FromString(raw)
    except DecodeError:
        frame = sessions_pb2.ServerFrame()
    if frame.HasField("refused"):
        raise Refusal(failure_from_proto(frame.refused.failure))
    if not frame.HasField("welcome"):
        raise fail(
            Reason.VERSION_MISMATCH, "the controller did not answer with a welcome; it speaks another version of pathways.v1"
        )
    if first.hello.session_id:
        return frame  # both ends are those of the first connection
    # A controller refuses what it does not know; one that is too old for us does not know that.
    controller = next((each.versions for each in frame.welcome.versions if "controller" in each.processes), None)
    refusal = mismatch(controller or types_pb2.Versions(pathways=frame.welcome.server_version), first.hello.versions, "client")
    if refusal is not None and frame.welcome.server_version:
        raise PathwaysError(refusal)
    return frame


async def _end_of(call: SessionCall) -> PathwaysError:
    """Why a call ended, as an error; only for calls that have ended."""
    code, details = await call.code(), await call.details()
    return PathwaysError(_failure_of(code, details))


def _failure_of_rpc(error: grpc.aio.AioRpcError) -> Failure:
    return _failure_of(error.code(), error.details())


def _failure_of(code: grpc.StatusCode, details: str | None) -> Failure:
    if code is grpc.StatusCode.UNAUTHENTICATED:
        return Failure(Reason.UNAUTHENTICATED, details or "the controller refused the token")
    if code is grpc.StatusCode.UNIMPLEMENTED:
        return Failure(Reason.VERSION_MISMATCH, "whatever listens there does not serve pathways.v1; check the address")
    if code is grpc.StatusCode.UNAVAILABLE:
        return Failure(
            Reason.UNAVAILABLE,
            f"the controller cannot be reached ({details}); is it up, and is the address right?",
            retryable=True,
        )
    return Failure(Reason.UNAVAILABLE, details or "the controller ended the stream", retryable=True)
