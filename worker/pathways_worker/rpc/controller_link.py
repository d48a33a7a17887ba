"""The worker's stream to the controller: hello, welcome, then frames both ways until it breaks; then the host joins anew.

The controller offers a framed connection or a gRPC stream; both carry the same frames.

A broken stream ends the incarnation: its executors are killed before the next hello, so nothing of it can be heard later. Trying
ends with the join timeout, or at once when trying again cannot help (a wrong secret, another version).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from pathways_common.model.bounds import BACKLOG_ITEMS_MAX, HELLO_TIMEOUT_NS, WINDOW_FRAMES
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.link import Link, Verdict
from pathways_common.process.logs import fields
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import open_channel, parse_address
from pathways_common.rpc.convert import failure_from_proto
from pathways_common.rpc.framed_call import dial, offered_port
from pathways_common.rpc.moment import Moment
from pathways_proto.v1 import workers_pb2

from pathways_worker.shell.counters import Counters
from pathways_worker.shell.host_agent import HostAgent
from pathways_worker.shell.wire import bad, read_controller_frame, worker_frame

_LOG = logging.getLogger(__name__)
_PAUSE_S = 0.1
_PAUSE_MAX_S = 2.0
# Executors that were killed are gone within milliseconds.
_GONE_S = 5.0
_STATUSES = {
    Reason.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.TIMED_OUT: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_HOPELESS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT)


class NotYet(Exception):
    """This try failed and another may not; the text says why."""


class ControllerLink:
    """`run` lives as long as the daemon; it raises PathwaysError when joining is hopeless or took too long."""

    def __init__(
        self,
        address: str,
        secret: str | None,
        hello: Callable[[int], workers_pb2.WorkerHello],
        join_timeout_s: float,
        agent: HostAgent,
        counters: Counters,
        on_joined: Callable[[], None],
    ) -> None:
        self._address = parse_address(address)
        self._secret = secret
        self._hello = hello
        self._join_timeout_s = join_timeout_s
        self._agent = agent
        self._counters = counters
        self._on_joined = on_joined
        self._term = 0
        self._joins = 0
        self._link: Link[bytes] = Link()
        self._news = asyncio.Event()
        # Acknowledged, finished, launched.
        self._told = (0, 0, 0)
        self._moment = Moment(self._acknowledgement_is_due)
        self._overdue = False

    # ---- the agent's way up -----------------------------------------------------------------------------------------

    def push(self, event: bytes, urgent: bool = False) -> None:
        """Queues an event and wakes the writer."""
        self._link.push(event, urgent)
        self._news.set()

    def wake(self) -> None:
        """The acknowledgement or the progress has changed."""
        self._news.set()

    def restart_progress(self) -> None:
        """What was told of the executor before is not said of the next one."""
        self._told = (self._told[0], 0, 0)
        self._news.set()

    # ---- joining ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Joins, serves, joins again; never returns."""
        clock = asyncio.get_running_loop().time
        deadline_s, pause_s = clock() + self._join_timeout_s, _PAUSE_S
        while True:
            joins = self._joins
            why = await self._live_once()
            if self._joins > joins:
                _LOG.warning("link to the controller lost; joining again", extra=fields(address=self._address, cause=why))
                deadline_s, pause_s = clock() + self._join_timeout_s, _PAUSE_S
            if clock() + pause_s > deadline_s:
                raise fail(
                    Reason.UNAVAILABLE,
                    f"the controller at grpc://{self._address} could not be joined within {self._join_timeout_s:g} s ({why}); "
                    "start it with `pathways-server`, or correct --controller",
                    address=self._address,
                )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    async def _live_once(self) -> str:
        """One try and, if it succeeds, one incarnation; why it ended. Raises PathwaysError if another try cannot help."""
        channel = open_channel(self._address)
        try:
            call = await self._dial(channel)
            try:
                incarnation = await self._join(call)
                return await self._serve(call, incarnation)
            finally:
                call.cancel()
        except (NotYet, ConnectionError) as error:
            return str(error)
        except grpc.aio.AioRpcError as error:
            return self._judge(error)
        finally:
            await channel.close()

    async def _dial(self, channel: grpc.aio.Channel) -> Any:
        port = await offered_port(channel)
        framed = await dial(self._address, port, "Workers", self._secret) if port else None
        if framed is None:
            return channel.stream_stream("/pathways.v1.Workers/Connect")(metadata=bearer(self._secret))
        await channel.close()  # or it would be kept alive beside the other connection
        return framed

    async def _join(self, call: Any) -> int:
        hello = workers_pb2.WorkerFrame(hello=self._hello(self._term))
        try:
            async with asyncio.timeout(HELLO_TIMEOUT_NS / 1e9):
                await call.write(hello.SerializeToString())
                first = await call.read()
        except TimeoutError:
            raise NotYet("it does not answer") from None
        except asyncio.InvalidStateError:
            first = grpc.aio.EOF
        if first is grpc.aio.EOF:
            if await call.code() is not grpc.StatusCode.OK:
                raise NotYet(self._judge_status(await call.code(), await call.details()))
            raise NotYet("it closed the stream without a word")
        try:
            frame = workers_pb2.ControllerFrame.FromString(first)
        except DecodeError:
            frame = workers_pb2.ControllerFrame()
        if frame.HasField("refused"):
            failure = failure_from_proto(frame.refused.failure)
            self._judge_refusal(failure)
            # After a broken stream the controller may not have noticed that the incarnation before is gone.
            if failure.retryable and self._joins:
                raise NotYet(failure.message)
            raise PathwaysError(failure)
        if not frame.HasField("welcome"):
            raise fail(
                Reason.VERSION_MISMATCH, f"what answers at grpc://{self._address} does not welcome workers; correct --controller"
            )
        if frame.term < self._term:
            raise NotYet(f"its term {frame.term} is older than {self._term}")
        self._term = frame.term
        return int(frame.welcome.incarnation)

    def _judge_refusal(self, failure: Failure) -> None:
        """Where gRPC has a status, a framed connection is refused with a failure."""
        code = _STATUSES.get(failure.reason)
        if code is not None:
            raise NotYet(self._judge_status(code, failure.message))

    def _judge(self, error: grpc.aio.AioRpcError) -> str:
        return self._judge_status(error.code(), error.details())

    def _judge_status(self, code: grpc.StatusCode, details: str | None) -> str:
        """Why a try failed; raises PathwaysError if the next would fail as well."""
        where = f"the controller at grpc://{self._address}"
        if code is grpc.StatusCode.UNIMPLEMENTED:
            raise fail(
                Reason.VERSION_MISMATCH, f"what answers at grpc://{self._address} is no Pathways controller; correct --controller"
            )
        if code is grpc.StatusCode.UNAUTHENTICATED:
            raise fail(Reason.UNAUTHENTICATED, f"{where} refused this worker: {details}")
        if code in _HOPELESS:
            raise fail(Reason.INVALID_ARGUMENT, f"{where} did not understand this worker: {details}")
        if code is grpc.StatusCode.UNAVAILABLE:
            return "nothing answers there"
        return details or code.name

    # ---- one incarnation --------------------------------------------------------------------------------------------

    async def _serve(self, call: Any, incarnation: int) -> str:
        self._link = Link()
        self._told = (0, 0, 0)
        self._news.clear()
        self._joins += 1
        self._counters.joined += 1
        _LOG.info("joined", extra=fields(address=self._address, incarnation=incarnation, term=self._term))
        self._agent.open(self)
        if self._joins == 1:
            self._on_joined()
        reader = asyncio.create_task(self._read(call), name="controller reader")
        writer = asyncio.create_task(self._write(call, incarnation), name="controller writer")
        try:
            done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            return _why(reader if reader in done else writer)
        finally:
            for task in (reader, writer):
                task.cancel()
            call.cancel()
            self._agent.close()
            await asyncio.gather(reader, writer, return_exceptions=True)
            await self._agent.pool.wait_gone(_GONE_S)

    async def _read(self, call: Any) -> None:
        link, agent = self._link, self._agent
        while (data := await call.read()) is not grpc.aio.EOF:
            frame = read_controller_frame(data)
            if frame.handshake:
                raise PathwaysError(failure_from_proto(workers_pb2.ControllerFrame.FromString(data).refused.failure))
            if frame.term != self._term:
                raise bad(f"a frame of term {frame.term} in a stream of term {self._term}")
            link.acknowledge(frame.received)
            if frame.sequence:
                verdict = link.accept(frame.sequence)
                if verdict is Verdict.GAP:
                    raise bad(f"frame {link.received + 1} is missing before frame {frame.sequence}")
                if verdict is Verdict.NEW:
                    agent.on_frame(frame)
            self._news.set()

    async def _write(self, call: Any, incarnation: int) -> None:
        link, agent, counters = self._link, self._agent, self._counters
        while True:
            await self._news.wait()
            self._news.clear()
            if link.pending > BACKLOG_ITEMS_MAX:
                raise bad(f"more than {BACKLOG_ITEMS_MAX} events wait for the controller")
            while True:
                frame = link.take()
                # Progress never overtakes the events that explain it.
                progress = (agent.finished_through, agent.launched_through) if not link.pending else self._told[1:]
                numbers = (agent.acknowledged, *progress)
                if frame is None and not self._worth_a_frame(numbers):
                    break
                self._told = numbers
                counters.frames_sent += 1
                sequence, items = (0, ()) if frame is None else (frame.sequence, frame.items)
                # What it computed up to `finished_through` goes with it.
                busy_ns, times = (0, ()) if link.pending else (agent.busy_ns, agent.take_times())
                await call.write(worker_frame(sequence, numbers[0], incarnation, *numbers[1:], busy_ns, items, times))
            self._overdue = False

    def _worth_a_frame(self, numbers: tuple[int, int, int]) -> bool:
        """What the controller may wait for is; the rest when nothing went for a moment that it could have ridden with."""
        if numbers == self._told:
            return False
        (acknowledged, finished, launched), told = numbers, self._told
        waited_for = finished != told[1] or (launched != told[2] and self._agent.launches_awaited)
        if not waited_for and not self._overdue and acknowledged - told[0] < WINDOW_FRAMES:
            self._moment.begin()
            return False
        return True

    def _acknowledgement_is_due(self) -> None:
        self._overdue = True
        self._news.set()


def _why(task: asyncio.Task[None]) -> str:
    """How the first of the two tasks to end ended; raises what is a defect of ours."""
    error = None if task.cancelled() else task.exception()
    match error:
        case None:
            return "the controller ended the stream"
        case PathwaysError():
            return error.failure.message
        case DecodeError() | ValueError():
            return f"malformed message: {error}"
        case ConnectionError():
            return str(error)
        case grpc.aio.AioRpcError():
            return str(error.details() or error.code().name)
        case asyncio.InvalidStateError():
            return "the connection broke"
        case _:
            raise error
