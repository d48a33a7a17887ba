"""A controller of a few lines for tests of the daemon: welcomes, sends frames, acknowledges and keeps what comes."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import uvloop
from pathways_common.rpc.auth import TokenInterceptor, one_token
from pathways_common.rpc.channels import server_options
from pathways_proto.v1 import types_pb2, workers_pb2
from pathways_worker.app import App
from pathways_worker.config import Config

HERE = Path(__file__).parent
EXECUTOR = (sys.executable, str(HERE / "fake_executor.py"))
LIMIT_S = 60.0


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    """Runs one test with a deadline for all of it."""
    uvloop.run(asyncio.wait_for(coroutine, 3 * LIMIT_S))


async def until(condition: Callable[[], Any], what: str) -> Any:
    """Polls; AssertionError that says what was waited for."""
    deadline = asyncio.get_running_loop().time() + LIMIT_S
    while not (value := condition()):
        assert asyncio.get_running_loop().time() < deadline, f"waited {LIMIT_S} s for {what}"
        await asyncio.sleep(0.01)
    return value


class FakeController:
    """Serves Workers.Connect. `events` are all HostEvents since the start, `frames` all worker frames but the hellos."""

    def __init__(self, secret: str = "", refusal: types_pb2.Failure | None = None) -> None:
        self._secret = secret
        self._refusal = refusal
        self._context: Any = None
        self._received = 0
        self._end: asyncio.Event
        self._server: grpc.aio.Server
        self.term = 1
        self.sent = 0
        self.port = 0
        self.hellos: list[workers_pb2.WorkerHello] = []
        self.frames: list[workers_pb2.WorkerFrame] = []
        self.events: list[workers_pb2.HostEvent] = []

    async def start(self, port: int = 0) -> None:
        interceptors = (
            [TokenInterceptor({"pathways.v1.Workers": one_token(self._secret, "copy the secret")})] if self._secret else []
        )
        self._server = grpc.aio.server(interceptors=interceptors, options=server_options())
        handler = grpc.stream_stream_rpc_method_handler(
            self._connect,
            request_deserializer=workers_pb2.WorkerFrame.FromString,
            response_serializer=workers_pb2.ControllerFrame.SerializeToString,
        )
        services = {"pathways.v1.Workers": {"Connect": handler}} | self.handlers()
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(*service) for service in services.items()])
        self._writing = asyncio.Lock()
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        await self._server.start()

    def handlers(self) -> dict[str, Any]:
        """What else is served."""
        return {}

    async def stop(self) -> None:
        await self._server.stop(0)

    async def _connect(self, _requests: Any, context: Any) -> None:
        hello = (await context.read()).hello
        self.hellos.append(hello)
        if self._refusal is not None:
            refused = workers_pb2.WorkerRefused(failure=self._refusal)
            await context.write(workers_pb2.ControllerFrame(term=self.term, refused=refused))
            return
        welcome = workers_pb2.WorkerWelcome(incarnation=len(self.hellos))
        await context.write(workers_pb2.ControllerFrame(term=self.term, welcome=welcome))
        self.sent, self._received, self._context, self._end = 0, 0, context, asyncio.Event()
        reading = asyncio.create_task(self._read(context))
        ending = asyncio.create_task(self._end.wait())
        await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
        reading.cancel()
        ending.cancel()
        self._context = None

    async def _read(self, context: Any) -> None:
        while (frame := await context.read()) is not grpc.aio.EOF:
            self.frames.append(frame)
            if frame.sequence:
                assert frame.sequence == self._received + 1
                self._received = frame.sequence
                self.events.extend(frame.events)
                await self._write(context, workers_pb2.ControllerFrame(received=frame.sequence, term=self.term))

    async def _write(self, context: Any, frame: workers_pb2.ControllerFrame) -> None:
        # Two tasks write here, and gRPC allows one write at a time.
        async with self._writing:
            await context.write(frame)

    def drop(self) -> None:
        """Ends the stream, as a broken connection does."""
        self._end.set()

    async def send(self, *commands: workers_pb2.HostCommand, urgent: bool = False) -> int:
        """Sends one frame; its sequence."""
        await until(lambda: self._context, "the worker to join")
        self.sent += 1
        frame = workers_pb2.ControllerFrame(
            sequence=self.sent, received=self._received, term=self.term, commands=commands, urgent=urgent
        )
        await self._write(self._context, frame)
        return self.sent

    @property
    def acknowledged(self) -> int:
        return max((frame.acknowledged for frame in self.frames), default=0)

    def of(self, kind: str) -> list[Any]:
        """The bodies of all events of a kind."""
        return [getattr(event, kind) for event in self.events if event.WhichOneof("event") == kind]

    async def event(self, kind: str, count: int = 1) -> Any:
        """Waits for the `count`-th event of a kind."""
        await until(lambda: len(self.of(kind)) >= count, f"event {count} of kind {kind}; had {self.events}")
        return self.of(kind)[count - 1]

    async def enter(self, epoch: int = 1) -> None:
        """Begins an epoch and waits for it."""
        count = len(self.of("epoch_ready")) + 1
        begin = workers_pb2.EpochBegin(epoch=epoch, rank=0, rank_count=1, device_count=1)
        await self.send(workers_pb2.HostCommand(epoch_begin=begin))
        assert (await self.event("epoch_ready", count)).epoch == epoch

    def log_lines(self) -> list[str]:
        return [line for log in self.of("log") for line in log.lines]


@asynccontextmanager
async def daemon(state: Path, controller: FakeController, **settings: Any) -> AsyncIterator[App]:
    """A worker daemon in this process, joined to the controller."""
    coordinator = settings.pop("coordinator", (sys.executable, "-c", "raise SystemExit('no coordinator here')"))
    settings = {
        "island": "a",
        "host": "a0",
        "auth": False,
        "metrics_port": -1,
        "keep_spare": False,
        "join_timeout_s": 60,
    } | settings
    config = Config(controller=f"127.0.0.1:{controller.port}", state_dir=state, **settings)
    app = App(config, EXECUTOR, coordinator)
    await app.start()
    running = asyncio.create_task(app.run())
    try:
        yield app
    finally:
        app.stop("the test is over")
        with suppress(asyncio.CancelledError):
            await running
        # App.run takes over the signals of its process.
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().remove_signal_handler(number)


@asynccontextmanager
async def joined(state: Path, **settings: Any) -> AsyncIterator[tuple[FakeController, App]]:
    """A controller and a daemon that has joined it."""
    controller = FakeController()
    await controller.start()
    try:
        async with daemon(state, controller, **settings) as app:
            await until(lambda: controller._context, "the worker to join")
            yield controller, app
    finally:
        await controller.stop()
