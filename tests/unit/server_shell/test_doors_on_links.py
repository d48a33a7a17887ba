"""The door's end of a session and a controller with a scripted core, over connections of both kinds: how either ends it."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.rpc import framed_call
from pathways_common.rpc.channels import open_channel
from pathways_common.rpc.framed import preface
from pathways_door.session_call import FramedSession
from pathways_door.upstream import Upstream, open_upstream
from pathways_proto.v1 import sessions_pb2, workers_pb2
from pathways_server.core import effects, events
from pathways_server.shell import peer as peers

from tests.unit.server_shell.scripted_core import TIMEOUT_S, Controller, controller, status_of
from tests.unit.server_shell.test_framed_workers import Raw, framed, run
from tests.unit.server_shell.test_session_streams import answer_fences, both, fence

HELLO = sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(client="test")).SerializeToString()
BULK = "x" * (4 << 20)


async def opened(running: Controller) -> Upstream:
    return await open_upstream(running.channel, running.app.address, running.token, sessions_pb2.Hello(client="test"))


@pytest.mark.parametrize(("listen", "dialled"), [("[::]:0", "127.0.0.1"), ("0.0.0.0:0", "[::1]"), ("0.0.0.0:0", "127.0.0.1")])
def test_an_address_for_all_takes_links_of_both_families_as_grpc_does(tmp_path: Path, listen: str, dialled: str) -> None:
    if not socket.has_dualstack_ipv6():
        listen, dialled = "0.0.0.0:0", "127.0.0.1"

    async def scenario() -> None:
        async with controller(tmp_path, "framed", listen) as running:
            address = f"{dialled}:{running.app.address.rpartition(':')[2]}"
            async with open_channel(address) as channel:
                upstream = await open_upstream(channel, address, running.token, sessions_pb2.Hello(client="test"))
                assert isinstance(upstream._call, FramedSession)
                await upstream.close("test")

    run(scenario)


def test_a_link_port_behind_a_wall_costs_a_moment_and_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(framed_call, "LINK_DIAL_NS", 10**8)

    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            never = asyncio.Event()
            monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", lambda *_arguments, **_options: never.wait())
            upstream = await opened(running)
            assert not isinstance(upstream._call, FramedSession)
            assert [record.message for record in caplog.records].count("link port not reached; using gRPC") == 1
            await upstream.close("test")

    run(scenario)


async def asked(upstream: Upstream, number: int) -> Any:
    """What a fence is answered with: the message or the failure."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    upstream.ask("fence_reached", number, fence(number), lambda message, failure: answer.set_result(failure or message))
    return await asyncio.wait_for(answer, TIMEOUT_S)


async def gone(running: Controller) -> None:
    """Waits until the controller has no session and no connection any more."""
    async with asyncio.timeout(TIMEOUT_S):
        while running.app.loop.sessions or running.app._links.connections:
            await asyncio.sleep(0.01)


@both
def test_who_gives_up_while_a_session_opens_leaves_none_behind(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            running.core.answers.pop(events.SessionOpened)  # an island is forming
            opening = asyncio.create_task(opened(running))
            await running.core.wait_for(events.SessionOpened)
            opening.cancel()
            await asyncio.wait({opening}, timeout=TIMEOUT_S)
            assert opening.cancelled()
            await running.core.wait_for(events.SessionClosed)
            await gone(running)

    run(scenario)


@both
@pytest.mark.parametrize("how", ["its client ends", "SIGTERM"])
def test_a_door_that_nobody_waits_for_any_more_ends_while_its_session_opens(tmp_path: Path, transport: str, how: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            running.core.answers.pop(events.SessionOpened)
            line = [sys.executable, "-P", "-m", "pathways_door", "--controller", running.app.address]
            environment = os.environ | {"PATHWAYS_TOKEN": running.token}
            door = await asyncio.create_subprocess_exec(*line, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment)
            assert door.stdin is not None
            try:
                await running.core.wait_for(events.SessionOpened)
                if how == "SIGTERM":
                    door.terminate()
                else:
                    door.stdin.close()
                await running.core.wait_for(events.SessionClosed)
                said, complaints = await asyncio.wait_for(door.communicate(), TIMEOUT_S)
                assert (said, b"Traceback" in complaints) == (b"", False)
                assert running.app.loop.sessions == {}
            finally:
                if door.returncode is None:
                    door.kill()
                    await door.wait()

    run(scenario)


@both
def test_a_stop_reaches_every_wait_of_a_door_with_its_sentence(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            upstream = await opened(running)
            waiting = asyncio.create_task(asked(upstream, 1))
            await running.core.wait_for(events.FenceRequested)
            running.app.stop("test")
            failure = await waiting
            assert failure.reason is Reason.UNAVAILABLE
            assert "(the controller was stopped; connect again when it is back)" in failure.message
            assert await asked(upstream, 2) == failure
            await upstream.close("test")

    run(scenario)


def test_a_controller_that_talks_nonsense_ends_every_wait_with_one_sentence(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            ended = Failure(Reason.UNAVAILABLE, "its lease ended")
            running.core.answers[events.SessionDetached] = lambda event: [effects.LeaseEnded(event.session, ended)]
            upstream = await opened(running)
            assert isinstance(upstream._call, FramedSession)
            waiting = [asyncio.create_task(asked(upstream, number)) for number in (1, 2)]
            await running.core.wait_for(events.FenceRequested, 2)
            (connection,) = running.app._links.connections
            connection.put(b"\xff\xff\xff")
            failures = await asyncio.gather(*waiting)
            assert failures[0] == failures[1] == upstream.lost
            assert failures[0].reason is Reason.UNAVAILABLE
            assert failures[0].message.startswith("the session with the Pathways controller was lost (")
            await running.core.wait_for(events.SessionClosed)
            await gone(running)
            assert len(running.core.of(events.SessionClosed)) == 1
            await upstream.close("test")

    run(scenario)


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"", "UNAVAILABLE"),
        (b"\xff\xff\xff", "VERSION_MISMATCH"),
        (sessions_pb2.ServerFrame().SerializeToString(), "UNAVAILABLE"),
    ],
    ids=["the end", "nonsense", "a sign of life and the end"],
)
def test_what_is_no_welcome_is_one_sentence(tmp_path: Path, first: bytes, reason: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            running.core.answers.pop(events.SessionOpened)
            opening = asyncio.create_task(opened(running))
            await running.core.wait_for(events.SessionOpened)
            (connection,) = running.app._links.connections
            connection.put(first)
            connection.leave("test")
            with pytest.raises(PathwaysError) as refusal:
                await asyncio.wait_for(opening, TIMEOUT_S)
            assert refusal.value.failure.reason.value == reason

    run(scenario)


@both
def test_a_goodbye_with_answers_on_their_way_ends_the_session_once(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            answer_fences(running)
            upstream = await opened(running)
            for number in range(1, 1001):
                upstream.push(fence(number))
            await upstream.close("test")
            assert upstream.lost is not None
            await running.core.wait_for(events.SessionClosed)
            await gone(running)
            assert len(running.core.of(events.FenceRequested)) == 1000
            assert len(running.core.of(events.SessionClosed)) == 1

    run(scenario)


@both
def test_operations_before_the_welcome_are_refused(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            running.core.answers.pop(events.SessionOpened)
            call = running.session_call()
            await call.write(sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(client="test")))
            await running.core.wait_for(events.SessionOpened)
            await call.write(sessions_pb2.ClientFrame(sequence=1, operations=[fence(1)]))
            frame = await asyncio.wait_for(call.read(), TIMEOUT_S)
            assert frame.refused.failure.message.startswith("malformed message: operations before the welcome")
            assert (await status_of(call))[0].name == "INVALID_ARGUMENT"
            await running.core.wait_for(events.SessionClosed)
            assert running.core.of(events.FenceRequested) == []
            await gone(running)

    run(scenario)


REFUSALS = [
    (framed(preface("Sessions", "Bearer wrong"), HELLO), "UNAUTHENTICATED", "the token is wrong: set PATHWAYS_TOKEN"),
    (framed(preface("Sessions", ""), HELLO), "UNAUTHENTICATED", "no token was sent"),
    (framed(preface("Clusters", ""), HELLO), "INVALID_ARGUMENT", "malformed message: no service 'Clusters' is linked here"),
]


@pytest.mark.parametrize(("sent", "reason", "sentence"), REFUSALS, ids=["wrong token", "no token", "no service"])
def test_strangers_get_no_session(tmp_path: Path, sent: bytes, reason: str, sentence: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            raw = await Raw.to(running)
            raw.writer.write(sent)
            async with asyncio.timeout(TIMEOUT_S):
                (length,) = struct.unpack("<I", await raw.reader.readexactly(4))
                data = await raw.reader.readexactly(length)
                assert await raw.reader.read() == b""
            # Who named no service hears it in the words for workers.
            kind = sessions_pb2.ServerFrame if b"Sessions" in sent else workers_pb2.ControllerFrame
            failure = kind.FromString(data).refused.failure
            assert (failure.reason, failure.message[: len(sentence)]) == (reason, sentence)
            assert running.core.seen == []
            raw.writer.close()

    run(scenario)


def test_a_door_that_dies_in_the_middle_of_a_frame_loses_only_its_session(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            answer_fences(running)
            healthy = await opened(running)
            raw = await Raw.to(running)
            raw.writer.write(framed(preface("Sessions", f"Bearer {running.token}"), HELLO))
            await running.core.wait_for(events.SessionOpened, 2)
            whole = framed(sessions_pb2.ClientFrame(sequence=1, operations=[fence(5)]).SerializeToString())
            raw.writer.write(whole + whole[:-1])
            await running.core.wait_for(events.FenceRequested)
            raw.writer.transport.abort()
            (closed,) = await running.core.wait_for(events.SessionClosed)
            assert closed.session == running.core.of(events.SessionOpened)[1].session
            assert (await asked(healthy, 1)).fence_id == 1
            assert len(running.core.of(events.FenceRequested)) == 2
            await healthy.close("test")

    run(scenario)


def test_a_door_that_acknowledges_nothing_is_ended_and_hears_why_though_it_goes_on_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "BACKLOG_ITEMS_MAX", 8)

    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            answer_fences(running)
            raw = await Raw.to(running)
            raw.writer.write(framed(preface("Sessions", f"Bearer {running.token}"), HELLO))
            await running.core.wait_for(events.SessionOpened)
            (connection,) = running.app._links.connections
            raw.writer.transport.pause_reading()
            for number in range(1, 101):
                frame = sessions_pb2.ClientFrame(sequence=number, operations=[fence(number)])
                raw.writer.write(framed(frame.SerializeToString()))
                if not connection._leaving:
                    await running.core.wait_for(events.FenceRequested, number)
                await asyncio.sleep(0)
            raw.writer.transport.resume_reading()
            async with asyncio.timeout(TIMEOUT_S):
                rest = await raw.reader.read()
            assert b"the session left 9 replies unread; it was ended" in rest
            raw.writer.close()
            await running.core.wait_for(events.SessionClosed)
            await gone(running)
            assert len(running.core.of(events.SessionClosed)) == 1

    run(scenario)


def test_a_door_that_reads_nothing_at_all_is_ended_within_the_grace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last words stay behind what it does not read."""
    monkeypatch.setattr(peers, "BACKLOG_ITEMS_MAX", 8)

    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            notice = effects.Notice("a0", BULK)
            running.core.answers[events.FenceRequested] = lambda event: [effects.SendToSession(event.session, notice)]
            raw = await Raw.to(running)
            raw.writer.write(framed(preface("Sessions", f"Bearer {running.token}"), HELLO))
            await running.core.wait_for(events.SessionOpened)
            raw.writer.transport.pause_reading()
            for number in range(1, 21):
                frame = sessions_pb2.ClientFrame(sequence=number, operations=[fence(number)])
                raw.writer.write(framed(frame.SerializeToString()))
                await running.core.wait_for(events.FenceRequested, min(number, 11))
            (peer,) = running.app.loop.sessions.values() or [None]
            assert peer is None or peer.link.pending < 12
            await running.core.wait_for(events.SessionClosed)
            await gone(running)
            assert len(running.core.of(events.SessionClosed)) == 1
            raw.writer.close()

    run(scenario)
