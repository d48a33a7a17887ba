"""What only a framed port has to refuse or bound by itself: strangers, garbage, silence, and a worker that does not read."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest
from pathways_common.model.bounds import LINK_HELLO_BYTES_MAX
from pathways_common.rpc.framed import preface
from pathways_proto.v1 import cluster_pb2, sessions_pb2, workers_pb2
from pathways_server.core import effects, events
from pathways_server.rpc import links

from tests.unit.server_shell.scripted_core import TIMEOUT_S, Controller, controller, join, open_session

HELLO = workers_pb2.WorkerFrame(
    hello=workers_pb2.WorkerHello(host="a0", island="a", device_count=1, data_address="127.0.0.1:5")
).SerializeToString()


def framed(*frames: bytes) -> bytes:
    return b"".join(struct.pack("<I", len(frame)) + frame for frame in frames)


class Raw:
    """A plain socket to the framed port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, running: Controller) -> Raw:
        return cls(*await asyncio.open_connection("127.0.0.1", running.app.link_port))

    async def frame(self) -> workers_pb2.ControllerFrame:
        async with asyncio.timeout(TIMEOUT_S):
            (length,) = struct.unpack("<I", await self.reader.readexactly(4))
            return workers_pb2.ControllerFrame.FromString(await self.reader.readexactly(length))

    async def refused(self) -> Any:
        """The failure that the connection ends with."""
        failure = (await self.frame()).refused.failure
        async with asyncio.timeout(TIMEOUT_S):
            assert await self.reader.read() == b""
        self.writer.close()
        return failure


def run(scenario: Any) -> None:
    asyncio.run(asyncio.wait_for(scenario(), 2 * TIMEOUT_S))


REFUSALS = [
    (
        framed(preface("Workers", "Bearer wrong"), HELLO),
        "UNAUTHENTICATED",
        "the token is wrong: start the worker with the --state-dir",
    ),
    (framed(preface("Workers", ""), HELLO), "UNAUTHENTICATED", "no token was sent: start the worker with the --state-dir"),
    (framed(HELLO), "INVALID_ARGUMENT", "malformed message: the first frame does not begin with 'pathways.v1'"),
    (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "INVALID_ARGUMENT", "malformed message: a frame of"),
    (struct.pack("<I", LINK_HELLO_BYTES_MAX + 1), "INVALID_ARGUMENT", "malformed message: a frame of 16385 bytes"),
]


@pytest.mark.parametrize(("sent", "reason", "sentence"), REFUSALS, ids=lambda value: value if isinstance(value, str) else "")
def test_strangers_are_told_why_and_nothing_of_them_reaches_the_core(
    tmp_path: Path, sent: bytes, reason: str, sentence: str
) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            raw = await Raw.to(running)
            raw.writer.write(sent)
            failure = await raw.refused()
            assert (failure.reason, failure.message[: len(sentence)]) == (reason, sentence)
            assert running.core.seen == []
            async with asyncio.timeout(TIMEOUT_S):
                while running.app._links.strangers:  # until the stranger's own end has arrived
                    await asyncio.sleep(0.01)

    run(scenario)


@pytest.mark.parametrize(
    ("hello", "sentence"),
    [
        (b"\xff\xff", "malformed message: the bytes of a frame cannot be parsed"),
        (workers_pb2.WorkerFrame(sequence=1).SerializeToString(), "malformed message: the first frame must hold a hello alone"),
        (bytes(LINK_HELLO_BYTES_MAX + 1), "malformed message: a frame of 16385 bytes; here it may have 16384"),
    ],
    ids=["garbage", "no hello", "too large"],
)
def test_a_wrong_hello_behind_the_right_secret_is_refused(tmp_path: Path, hello: bytes, sentence: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            raw = await Raw.to(running)
            raw.writer.write(framed(preface("Workers", f"Bearer {running.secret}"), hello))
            failure = await raw.refused()
            assert failure.message.startswith(sentence)
            assert running.core.seen == []

    run(scenario)


def test_who_says_nothing_is_sent_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "HELLO_TIMEOUT_NS", 10**8)

    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            silent, half = await Raw.to(running), await Raw.to(running)
            half.writer.write(framed(preface("Workers", f"Bearer {running.secret}"))[:-3])
            for raw in (silent, half):
                failure = await raw.refused()
                assert (failure.reason, failure.retryable) == ("TIMED_OUT", True)
                assert failure.message.startswith("no hello came within")

    run(scenario)


def test_a_crowd_of_strangers_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PENDING_REQUESTS_MAX", 2)

    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            raws = [await Raw.to(running) for _ in range(3)]
            async with asyncio.timeout(TIMEOUT_S):
                assert await raws[2].reader.read() == b""
            raws[0].writer.write(framed(preface("Workers", f"Bearer {running.secret}"), HELLO))
            assert (await raws[0].frame()).HasField("welcome")
            assert running.app._links.strangers == 1
            for raw in raws:
                raw.writer.close()

    run(scenario)


def test_a_malformed_event_ends_only_that_worker_and_tells_it_why(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            good, bad = running.worker_call(), running.worker_call()
            await join(good, "a0")
            await join(bad, "a1")
            await bad.write(workers_pb2.WorkerFrame(sequence=1, events=[workers_pb2.HostEvent()]))
            last = await asyncio.wait_for(bad.read(), TIMEOUT_S)
            assert "an event is empty" in last.refused.failure.message
            (lost,) = await running.core.wait_for(events.HostLost)
            assert lost.host == "a1"
            assert "an event is empty" in lost.reason
            assert list(running.app.loop.hosts) == ["a0"]
            good.cancel()

    run(scenario)


def test_commands_for_a_worker_that_does_not_read_stay_in_its_link(tmp_path: Path) -> None:
    """Urgent commands pass the window, so only the buffer bounds them."""

    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            raw = await Raw.to(running)
            raw.writer.write(framed(preface("Workers", f"Bearer {running.secret}"), HELLO))
            assert (await raw.frame()).HasField("welcome")
            raw.writer.transport.pause_reading()
            bulk = effects.Shutdown("x" * (1 << 20))

            def answer(event: events.FenceRequested) -> list[effects.Effect]:
                return [effects.SendToHost("a0", bulk, urgent=True)]  # type: ignore[arg-type]

            running.core.answers[events.FenceRequested] = answer
            call = running.session_call()
            await open_session(call)
            for number in range(1, 41):
                fence = sessions_pb2.ClientOperation(fence=sessions_pb2.Fence(fence_id=number))
                await call.write(sessions_pb2.ClientFrame(sequence=number, operations=[fence]))
                await running.core.wait_for(events.FenceRequested, number)
            peer = running.app.loop.hosts["a0"]  # type: ignore[index]
            assert peer.link.pending > 0
            assert sum(len(item) for frame in peer.link.replay() for item in frame.items) < 20 << 20
            raw.writer.transport.resume_reading()
            got = 0
            while got < 40:
                got += len((await raw.frame()).commands)
            assert peer.link.pending == 0
            raw.writer.close()
            await running.core.wait_for(events.HostLost)

    run(scenario)


def test_the_port_is_told_to_whoever_asks_and_grpc_is_told_as_none(tmp_path: Path) -> None:
    async def scenario() -> None:
        for transport in ("framed", "grpc"):
            async with controller(tmp_path, transport) as running:
                answer = await running.clusters().GetVersion(cluster_pb2.GetVersionRequest(), timeout=TIMEOUT_S)
                assert answer.link_port == running.app.link_port
                assert (running.app.link_port != 0) == (transport == "framed")

    run(scenario)


def test_a_defect_with_one_connection_keeps_nothing_from_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            workers = [running.worker_call() for _ in range(3)]
            for number, worker in enumerate(workers):
                await join(worker, f"a{number}")
            broken = running.app.loop.hosts["a0"]  # type: ignore[index]
            monkeypatch.setattr(broken, "next_frame", lambda: 1 / 0)
            complaints: list[Any] = []
            asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context["exception"]))
            command = effects.Shutdown("now")

            def answer(_event: events.FenceRequested) -> list[effects.Effect]:
                return [effects.SendToHost(f"a{number}", command) for number in range(3)]  # type: ignore[arg-type]

            running.core.answers[events.FenceRequested] = answer
            call = running.session_call()
            await open_session(call)
            fence = sessions_pb2.ClientOperation(fence=sessions_pb2.Fence(fence_id=1))
            await call.write(sessions_pb2.ClientFrame(sequence=1, operations=[fence]))
            for worker in workers[1:]:
                frame = await asyncio.wait_for(worker.read(), TIMEOUT_S)
                assert frame.commands[0].shutdown.reason == "now"
            assert [type(complaint) for complaint in complaints] == [ZeroDivisionError]
            monkeypatch.undo()
            for worker in workers:
                worker.cancel()

    run(scenario)
