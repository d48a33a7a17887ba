"""The worker's stream to the controller: hello, welcome, then frames both ways, over one connection after another.

The controller offers a framed connection or a gRPC stream; both carry the same frames. When a connection breaks, executors go on
with what they have, and the next connection begins with what was not acknowledged, maybe with a later life of the controller that
goes on with the work of this one. When none comes within the time for orphans, or when the controller knows the incarnation no
more, that is over: its executors are killed before the host joins anew, so nothing of it can be heard later. Trying to join ends
with the join timeout, or at once when trying again cannot help (a wrong secret, another version).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from pathways_common.model.bounds import BACKLOG_ITEMS_MAX, HELLO_TIMEOUT_NS, WINDOW_FRAMES
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.link import Frame, Link, Verdict
from pathways_common.process.logs import fields
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import open_channel, parse_address
from pathways_common.rpc.convert import failure_from_proto
from pathways_common.rpc.framed_call import FramedCall, dial, offered_port
from pathways_common.rpc.moment import Moment
from pathways_common.rpc.reconnecting import Failed, TooLate, come_back
from pathways_proto.v1 import workers_pb2

from pathways_worker.shell.counters import Counters
from pathways_worker.shell.host_agent import HostAgent
from pathways_worker.shell.wire import bad, read_controller_frame, worker_frame

_LOG = logging.getLogger(__name__)
# Rows that are told again after a break: what was on its way when a link stalled, of 5,000 timed gangs a second.
TOLD_TIMES_MAX = 1 << 16
_PAUSE_S = 0.1
_PAUSE_MAX_S = 2.0
# Executors that were killed are gone within milliseconds.
_GONE_S = 5.0
_ENDED = "the controller ended the stream"
_STATUSES = {
    Reason.UNAUTHENTICATED: grpc.StatusCode.UNAUTHENTICATED,
    Reason.INVALID_ARGUMENT: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.TIMED_OUT: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_HOPELESS = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT)


class NotYet(Failed):
    """Of joining."""


class Over(Exception):
    """The controller knows this incarnation no more; the text says why."""


class Connection:
    """A call and the channel that carries it, where one does. `closing` keeps the ends of channels until they are through."""

    def __init__(self, call: Any, channel: grpc.aio.Channel | None, closing: set[asyncio.Task[None]]) -> None:
        self.call = call
        self._channel = channel
        self._closing = closing

    def cancel(self) -> None:
        """Ends it; the channel a moment later."""
        self.call.cancel()
        channel, self._channel = self._channel, None
        if channel is not None:
            task = asyncio.get_running_loop().create_task(channel.close(), name="old channel")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


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
        self._incarnation = self._connections = 0
        self._grace_s = self._orphan_s = 0.0
        # Of the controller's frames that came: ordinary and urgent commands.
        self._commands_received = [0, 0]
        self._port = 0
        self._joins = 0
        self._link: Link[bytes] = Link()
        self._replay: deque[Frame[bytes]] = deque()
        self._told_times: deque[bytes] = deque(maxlen=TOLD_TIMES_MAX)
        self._tell_again = False
        self._closing: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        # Asks whoever writes to the connection at hand to `take`.
        self._answered: Callable[[], None] = self._news.set
        # A framed connection at hand, and why nothing more is heard of it.
        self._framed: FramedCall | None = None
        self._wrong: Exception | None = None
        # Acknowledged, finished, launched.
        self._told = (0, 0, 0)
        self._moment = Moment(self._acknowledgement_is_due)
        self._overdue = False

    # ---- the agent's way up -----------------------------------------------------------------------------------------

    def push(self, event: bytes, urgent: bool = False) -> None:
        """Queues an event and wakes the writer."""
        self._link.push(event, urgent)
        self._answered()

    def wake(self) -> None:
        """The acknowledgement or the progress has changed."""
        self._answered()

    def restart_progress(self) -> None:
        """What was told of the executor before is not said of the next one."""
        self._told = (self._told[0], 0, 0)
        self._told_times.clear()
        self._answered()

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
        try:
            connection = await self._dial()
            try:
                async with asyncio.timeout(HELLO_TIMEOUT_NS / 1e9):
                    await self._join(connection)
            except TimeoutError:
                connection.cancel()
                return "it does not answer"
            except BaseException:
                connection.cancel()
                raise
        except (NotYet, ConnectionError) as error:
            return str(error)
        return await self._live(connection)

    async def _dial(self) -> Connection:
        """Over the framed port where that is known or offered, else over gRPC."""
        if self._port:
            framed = await dial(self._address, self._port, "Workers", self._secret, quiet=True)
            if framed is not None:
                return Connection(framed, None, self._closing)
        channel = open_channel(self._address)
        try:
            self._port = await offered_port(channel)
            framed = await dial(self._address, self._port, "Workers", self._secret) if self._port else None
        except grpc.aio.AioRpcError as error:
            await channel.close()
            raise NotYet(self._judge(error)) from None
        except BaseException:
            await channel.close()
            raise
        if framed is None:
            call = channel.stream_stream("/pathways.v1.Workers/Connect")(metadata=bearer(self._secret))
            return Connection(call, channel, self._closing)
        await channel.close()  # or it would be kept alive beside the other connection
        return Connection(framed, None, self._closing)

    async def _join(self, connection: Connection, resume: bool = False) -> int:
        """Says hello and takes the welcome. With `resume`: which frames of ours the controller has. Raises Over."""
        call = connection.call
        if resume:
            self._connections += 1
        else:
            self._connections = 0
        hello = self._hello(self._term)
        hello.incarnation, hello.resume, hello.resumable, hello.connection = self._incarnation, resume, True, self._connections
        if resume:
            hello.received_frames = self._link.received
            hello.received_commands, hello.received_urgent_commands = self._commands_received
        try:
            await call.write(workers_pb2.WorkerFrame(hello=hello).SerializeToString())
            first = await call.read()
        except asyncio.InvalidStateError:
            first = grpc.aio.EOF
        except grpc.aio.AioRpcError as error:
            raise NotYet(self._judge(error)) from None
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
            if frame.refused.join_again:
                raise Over(failure.message)
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
        if resume and not frame.welcome.resumed:
            raise Over("the controller welcomed it as somebody else")
        self._term = frame.term
        self._incarnation = int(frame.welcome.incarnation)
        self._grace_s = frame.welcome.grace_ns / 1e9
        self._orphan_s = max(self._grace_s, frame.welcome.orphan_ns / 1e9)
        return int(frame.received)

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

    async def _live(self, connection: Connection) -> str:
        """One incarnation, over as many connections as it takes; why it ended."""
        self._link = Link()
        self._commands_received = [0, 0]
        self._told = (0, 0, 0)
        self._told_times.clear()
        self._replay.clear()
        self._tell_again = False
        self._news.clear()
        self._joins += 1
        self._counters.joined += 1
        _LOG.info("joined", extra=fields(address=self._address, incarnation=self._incarnation, term=self._term))
        self._agent.open(self)
        if self._joins == 1:
            self._on_joined()
        try:
            while True:
                try:
                    why, broken = await self._serve(connection.call)
                finally:
                    connection.cancel()
                if not broken or not self._grace_s:
                    return why
                _LOG.warning("link broke; coming back", extra=fields(address=self._address, cause=why, orphan_s=self._orphan_s))
                try:
                    connection, received = await come_back(self._orphan_s, self._dial, partial(self._join, resume=True))
                except TooLate as late:
                    return f"{why}; no other connection within {self._orphan_s:g} s: {late}"
                except (Over, PathwaysError) as over:
                    return f"{why}; {over.failure.message if isinstance(over, PathwaysError) else over}"
                self._go_on(received)
        finally:
            self._agent.close()
            await self._agent.pool.wait_gone(_GONE_S)

    def _go_on(self, received: int) -> None:
        """What the controller does not have is sent again, then everything else; progress is told anew."""
        self._link.acknowledge(received)
        self._replay = deque(self._link.replay())
        self._told = (0, 0, 0)
        self._tell_again = True
        self._news.set()
        self._counters.resumed += 1
        _LOG.info("link is back", extra=fields(address=self._address, frames_again=len(self._replay)))

    async def _serve(self, call: Any) -> tuple[str, bool]:
        """One connection; how it ended, and whether it just broke. Raises what is a defect of ours."""
        if isinstance(call, FramedCall):
            return await self._serve_framed(call)
        reader = asyncio.create_task(self._read(call), name="controller reader")
        writer = asyncio.create_task(self._write(call), name="controller writer")
        try:
            done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            return _why(reader if reader in done else writer)
        finally:
            for task in (reader, writer):
                task.cancel()
            call.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _serve_framed(self, call: FramedCall) -> tuple[str, bool]:
        """Frames are handled in the read that brings them: no task wakes for each."""
        self._framed, self._wrong, self._answered = call, None, call.answered
        try:
            await call.converse(self)
        finally:
            self._framed, self._answered = None, self._news.set
            call.cancel()
        if self._wrong is not None:
            return _why_of(self._wrong)
        return _ENDED if call.orderly else call.reason, True

    async def _read(self, call: Any) -> None:
        while (data := await call.read()) is not grpc.aio.EOF:
            self._accept(data)

    async def _write(self, call: Any) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            for frame in self._taken():
                await call.write(frame)

    # ---- a conversation ---------------------------------------------------------------------------------------------

    # What the controller says is bounded by its window.
    crowded = False

    async def room(self) -> None:
        """There always is."""

    def handle(self, raw: bytes) -> None:
        """Takes one frame of the controller; one that cannot be ends the connection."""
        if self._wrong is None:
            try:
                self._accept(raw)
            except Exception as error:
                self._give_up(error)

    def take(self) -> list[bytes]:
        """The frames that leave now."""
        if self._wrong is None:
            try:
                return self._taken()
            except Exception as error:
                self._give_up(error)
        return []

    def _give_up(self, error: Exception) -> None:
        self._wrong = error
        if self._framed is not None:
            self._framed.cancel()

    def _accept(self, data: bytes) -> None:
        link, agent = self._link, self._agent
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
                self._commands_received[frame.urgent] += len(frame.commands or ())
                agent.on_frame(frame)
        # The window may have opened, and launches may be awaited that were not.
        if link.pending or agent.launched_through != self._told[2]:
            self._answered()

    def _taken(self) -> list[bytes]:
        link, agent, frames = self._link, self._agent, []
        if link.pending > BACKLOG_ITEMS_MAX:
            raise bad(f"more than {BACKLOG_ITEMS_MAX} events wait for the controller")
        while self._replay:
            # What was finished since then is explained by later frames, so no progress goes with these.
            again = self._replay.popleft()
            frames.append(worker_frame(again.sequence, agent.acknowledged, self._incarnation, 0, 0, 0, again.items))
        while True:
            frame = link.take()
            # Progress never overtakes the events that explain it.
            progress = (agent.finished_through, agent.launched_through) if not link.pending else self._told[1:]
            numbers = (agent.acknowledged, *progress)
            if frame is None and not self._worth_a_frame(numbers):
                break
            self._told = numbers
            self._counters.frames_sent += 1
            sequence, items = (0, ()) if frame is None else (frame.sequence, frame.items)
            # What it computed up to `finished_through` goes with it.
            busy_ns, times = (0, ()) if link.pending else (agent.busy_ns, self._times())
            frames.append(worker_frame(sequence, numbers[0], self._incarnation, *numbers[1:], busy_ns, items, times))
        self._overdue = False
        return frames

    def _times(self) -> Sequence[bytes]:
        """Rows of timed gangs not told before; after a break also those told last, which may be lost."""
        fresh = self._agent.take_times()
        if self._grace_s:
            self._told_times += fresh
        if not self._tell_again:
            return fresh
        self._tell_again = False
        return list(self._told_times)

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
        self._answered()


def _why(task: asyncio.Task[None]) -> tuple[str, bool]:
    """How the first of the two tasks to end ended."""
    error = None if task.cancelled() else task.exception()
    return (_ENDED, True) if error is None else _why_of(error)


def _why_of(error: BaseException) -> tuple[str, bool]:
    """What ended a connection, and whether another one may help; raises what is a defect of ours."""
    match error:
        case PathwaysError():
            return error.failure.message, False
        case DecodeError() | ValueError():
            return f"malformed message: {error}", False
        case ConnectionError():
            return str(error), True
        case grpc.aio.AioRpcError():
            return str(error.details() or error.code().name), True
        case asyncio.InvalidStateError():
            return "the connection broke", True
        case _:
            raise error
