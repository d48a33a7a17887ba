"""A core that answers from a table and remembers what it was told, and a controller around it on a free port."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import open_channel
from pathways_common.rpc.framed_call import FramedCall, dial
from pathways_proto.v1 import cluster_pb2_grpc, sessions_pb2, sessions_pb2_grpc, workers_pb2, workers_pb2_grpc
from pathways_server.app import App
from pathways_server.config import Config
from pathways_server.core import effects, events
from pathways_server.core.audience import Audience
from pathways_server.core.config import CoreConfig
from pathways_server.core.snapshot import Snapshot
from pathways_server.core.state import State

TIMEOUT_S = 60.0
WELCOME = effects.WelcomeSession(
    (effects.SessionDevice(0, 0, "a", "a0", 0, "cpu", "cpu", ("device",)),), "cpu", "platform version"
)
Answer = Callable[[Any], list[effects.Effect]]


class ScriptedCore:
    """Welcomes every session; `answers` by event type override that."""

    def __init__(self) -> None:
        self.seen: list[events.Event] = []
        self.answers: dict[type, Answer] = {
            events.SessionOpened: lambda event: [effects.SendToSession(event.session, WELCOME)],
        }
        self.view = Snapshot((), ())
        self.config = Config()
        self.state = State(CoreConfig())
        self._news = asyncio.Event()

    def step(self, _now_ns: int, event: events.Event) -> list[effects.Effect]:
        if isinstance(event, events.TimePassed):
            return []
        self.seen.append(event)
        self._news.set()
        answer = self.answers.get(type(event))
        return answer(event) if answer else []

    def snapshot(self, _now_ns: int, _audience: Audience = None) -> Snapshot:
        return self.view

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.seen if isinstance(event, kind)]

    async def wait_for(self, kind: type, count: int = 1) -> list[Any]:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.of(kind)) < count:
                self._news.clear()
                await self._news.wait()
        return self.of(kind)


@dataclass
class Controller:
    """A running controller and a channel to it."""

    app: App
    core: ScriptedCore
    channel: grpc.aio.Channel
    token: str
    secret: str
    running: asyncio.Task[None]
    transport: str

    def session_call(self, token: str | None = None) -> Any:
        if self.transport == "framed":
            return FramedPeer(self.app, "Sessions", token or self.token, sessions_pb2.ServerFrame)
        stub = sessions_pb2_grpc.SessionsStub(self.channel)
        return stub.Connect(metadata=bearer(token or self.token), timeout=3 * TIMEOUT_S)

    def clusters(self) -> Any:
        return cluster_pb2_grpc.ClustersStub(self.channel)

    def worker_call(self, secret: str | None = None) -> Any:
        if self.transport == "framed":
            return FramedPeer(self.app, "Workers", secret or self.secret, workers_pb2.ControllerFrame)
        stub = workers_pb2_grpc.WorkersStub(self.channel)
        return stub.Connect(metadata=bearer(secret or self.secret), timeout=3 * TIMEOUT_S)


class FramedPeer:
    """A call over the framed port, with messages (or their bytes) in place of frames, and the status a gRPC call would have."""

    def __init__(self, app: App, service: str, secret: str, answer: Any) -> None:
        self._dialling = asyncio.ensure_future(dial(app.address, app.link_port, service, secret))
        self._answer = answer
        self._failure: Any = None

    async def _call(self) -> FramedCall:
        call = await self._dialling
        assert call is not None
        return call

    async def write(self, frame: Any) -> None:
        await (await self._call()).write(frame if isinstance(frame, bytes) else frame.SerializeToString())

    async def read(self) -> Any:
        data = await (await self._call()).read()
        if data is grpc.aio.EOF:
            return data
        frame = self._answer.FromString(data)
        if frame.HasField("refused"):
            self._failure = frame.refused.failure
        elif self._answer is sessions_pb2.ServerFrame and frame.operations and frame.operations[-1].HasField("session_lost"):
            self._failure = frame.operations[-1].session_lost.failure
        return frame

    async def done_writing(self) -> None:
        (await self._call())._transport.write_eof()  # type: ignore[union-attr]

    async def code(self) -> grpc.StatusCode:
        return grpc.StatusCode[self._failure.reason] if self._failure else await (await self._call()).code()

    async def details(self) -> str:
        return str(self._failure.message) if self._failure else await (await self._call()).details()

    def cancel(self) -> None:
        call = self._dialling.result()
        assert call is not None
        call.cancel()


@asynccontextmanager
async def controller(
    state_dir: Path, transport: str = "grpc", listen: str = "127.0.0.1:0", **settings: Any
) -> AsyncIterator[Controller]:
    core = ScriptedCore()
    config = Config(listen=listen, state_dir=state_dir, metrics_port=0, link_transport=transport, **settings)

    def core_of(decided: Config) -> ScriptedCore:
        core.config = decided
        return core

    app = App(config, core_of)
    await app.start()
    running = asyncio.create_task(app.run())
    token, secret = ((state_dir / name).read_text().strip() for name in ("token", "secret"))
    try:
        async with open_channel(app.address) as channel:
            yield Controller(app, core, channel, token, secret, running, transport)
    finally:
        app.stop("the test is over")
        with contextlib.suppress(Exception):
            await asyncio.wait_for(running, TIMEOUT_S)


async def open_session(call: Any, **hello: Any) -> Any:
    """Says hello and returns the welcome."""
    await call.write(sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(client="test", **hello)))
    frame = await asyncio.wait_for(call.read(), TIMEOUT_S)
    assert frame.HasField("welcome"), frame
    return frame.welcome


async def join(call: Any, host: str = "a0", island: str = "a") -> Any:
    """Joins as a worker and returns the welcome."""
    hello = workers_pb2.WorkerHello(host=host, island=island, device_count=1, data_address="127.0.0.1:5", pid=42)
    await call.write(workers_pb2.WorkerFrame(hello=hello))
    frame = await asyncio.wait_for(call.read(), TIMEOUT_S)
    assert frame.HasField("welcome"), frame
    return frame.welcome


async def read_items(call: Any, field: str, count: int) -> tuple[list[Any], list[Any]]:
    """Reads frames until they held `count` items; returns the items and the frames."""
    items: list[Any] = []
    frames = []
    while len(items) < count:
        frame = await asyncio.wait_for(call.read(), TIMEOUT_S)
        assert frame is not grpc.aio.EOF, f"the stream ended after {len(items)} of {count} items"
        frames.append(frame)
        items.extend(getattr(frame, field))
    return items, frames


async def status_of(call: Any) -> tuple[grpc.StatusCode, str]:
    """The status of a call, once everything before it was read."""
    async with asyncio.timeout(TIMEOUT_S):
        with contextlib.suppress(grpc.aio.AioRpcError):
            while await call.read() is not grpc.aio.EOF:
                pass
        return await call.code(), await call.details()
