"""A session goes on over another connection: each operation and each answer counts once, and who comes late is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.rpc.framed import SILENT_LOOKS_MAX
from pathways_door.session_call import FramedSession
from pathways_door.upstream import Upstream
from pathways_proto.v1 import sessions_pb2
from pathways_server.core import effects, events

from tests.unit.server_shell.scripted_core import TIMEOUT_S, Controller, controller
from tests.unit.server_shell.test_doors_on_links import asked, gone, opened
from tests.unit.server_shell.test_framed_workers import run
from tests.unit.server_shell.test_session_streams import answer_fences, both


def cut(running: Controller, upstream: Upstream, how: str) -> None:
    """The connection of the door's session ends in some way that neither end wanted."""
    if not isinstance(upstream._call, FramedSession):
        (peer,) = running.app.loop.sessions.values()
        attached = peer.on_ended.__self__.attached  # type: ignore[attr-defined]
        if attached is not None:  # it has not broken just before
            attached.sever()
        return
    call = upstream._call._call
    if how == "the door's end breaks":
        call.abort("test")
        return
    (connection,) = running.app._links.connections
    if how == "the controller's end breaks":
        connection.abort("test")
    elif how == "silence at the door":
        for _ in range(SILENT_LOOKS_MAX + 1):
            call.look()
    elif how == "silence at the controller":
        for _ in range(SILENT_LOOKS_MAX + 1):
            connection.look()
    else:
        connection._transport.write(b"\xff\xff\xff\xff")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "how",
    ["the controller's end breaks", "the door's end breaks", "silence at the door", "silence at the controller", "garbage"],
)
def test_what_is_said_around_a_break_arrives_once_and_in_order(tmp_path: Path, how: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            upstream = await opened(running)
            await asked_of(running, upstream, 1)
            before = [asyncio.create_task(asked(upstream, number)) for number in (2, 3)]
            await running.core.wait_for(events.FenceRequested, 2)
            cut(running, upstream, how)
            after = [asyncio.create_task(asked(upstream, number)) for number in (4, 5)]
            answers = await asyncio.wait_for(asyncio.gather(*before, *after), TIMEOUT_S)
            assert [answer.fence_id for answer in answers] == [2, 3, 4, 5]
            assert [event.fence_id for event in running.core.of(events.FenceRequested)] == [1, 2, 3, 4, 5]
            assert upstream.lost is None
            resumed = [
                type(event) for event in running.core.seen if isinstance(event, events.SessionDetached | events.SessionResumed)
            ]
            assert resumed[-1] is events.SessionResumed
            await upstream.close("test")
            await running.core.wait_for(events.SessionClosed)
            await gone(running)
            assert len(running.core.of(events.SessionOpened)) == 1

    run(scenario)


async def asked_of(running: Controller, upstream: Upstream, number: int) -> None:
    answer_fences(running)
    assert (await asked(upstream, number)).fence_id == number


@both
def test_answers_that_were_on_their_way_come_with_the_next_connection(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            upstream = await opened(running)
            # Many answers, so that some wait for acknowledgements when the connection breaks.
            waiting = [asyncio.create_task(asked(upstream, number)) for number in range(1, 41)]
            await running.core.wait_for(events.FenceRequested, 40)
            for number in range(1, 41):
                session = running.core.of(events.SessionOpened)[0].session
                reply = effects.SendToSession(session, effects.FenceReached(number))
                running.core.answers[events.TraceRequested] = lambda _event, reply=reply: [reply]
                running.app.loop.post((events.TraceRequested(number, 0),))
                await asyncio.sleep(0)
                if number % 10 == 0:
                    cut(running, upstream, "the door's end breaks")
            answers = await asyncio.wait_for(asyncio.gather(*waiting), TIMEOUT_S)
            assert [answer.fence_id for answer in answers] == list(range(1, 41))
            await upstream.close("test")

    run(scenario)


def test_a_late_comer_is_told_when_its_lease_ended_and_how_to_go_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            ended = Failure(Reason.UNAVAILABLE, "its lease of 30 s ended without its connection coming back")
            running.core.answers[events.SessionDetached] = lambda event: [effects.LeaseEnded(event.session, ended)]
            upstream = await opened(running)
            failure = asyncio.create_task(asked(upstream, 1))
            await running.core.wait_for(events.FenceRequested)
            cut(running, upstream, "the controller's end breaks")
            message = (await failure).message
            assert "session 1 ended at 20" in message
            assert " UTC: its lease of 30 s ended" in message
            assert message.endswith("connect again and run the program again, its values are gone")
            assert message.count("gone") == 1
            await gone(running)
            await upstream.close("test")

    run(scenario)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"session_id": "0" * 32}, "the controller does not know this session"),
        ({"term": 77}, "this is life 1 of the controller and not life 77"),
        ({"connection": 0}, "a later connection of the session was heard before"),
    ],
)
def test_what_is_no_session_of_this_life_is_refused_and_the_session_goes_on(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            upstream = await opened(running)
            await asked_of(running, upstream, 1)
            welcome = upstream.welcome
            hello = {"session_id": welcome.session_id, "term": welcome.term, "connection": 1, "resumable": True} | change
            call = running.session_call()
            await call.write(sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(**hello)))
            frame = await call.read()
            assert sentence in frame.refused.failure.message
            assert (await asked(upstream, 2)).fence_id == 2
            await upstream.close("test")

    run(scenario)


def test_a_session_without_a_lease_ends_with_its_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            call = running.session_call()
            await call.write(sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(client="other")))
            assert (await call.read()).welcome.lease_ns == 0
            await call.write(sessions_pb2.ClientFrame())
            (await call._call()).abort("test")
            await running.core.wait_for(events.SessionClosed)
            assert running.core.of(events.SessionDetached) == []

    run(scenario)


def test_a_goodbye_said_without_a_connection_is_heard_when_there_is_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            upstream = await opened(running)
            await asked_of(running, upstream, 1)
            cut(running, upstream, "the controller's end breaks")
            await upstream.close("test")
            (closed,) = await running.core.wait_for(events.SessionClosed)
            assert closed.reason == "test"
            await gone(running)

    run(scenario)


def test_a_door_whose_controller_stays_away_gives_up_in_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            upstream = await opened(running)
            await asked_of(running, upstream, 1)
            upstream.welcome.lease_ns, upstream.welcome.orphan_ns = 2 * 10**8, 3 * 10**8
            running.app._links._server.close()  # type: ignore[union-attr]
            await running.app._server.stop(0)
            waiting = asyncio.create_task(asked(upstream, 2))
            await running.core.wait_for(events.FenceRequested, 2)
            cut(running, upstream, "the controller's end breaks")
            running.core.answers.pop(events.FenceRequested)
            late = asyncio.create_task(asked(upstream, 3))
            failure = await asyncio.wait_for(late, TIMEOUT_S)
            assert failure.reason is Reason.UNAVAILABLE
            assert "no other connection came about within 0.3 s" in failure.message
            waiting.cancel()

    run(scenario)


def test_the_settings_of_lease_and_grace_must_fit() -> None:
    from pathways_server.config import parse_arguments

    assert replace(parse_arguments(["--lease-s", "3", "--grace-s", "2"], {})).grace_ns == 2 * 10**9
    with pytest.raises(PathwaysError, match="choose a grace of at most the lease"):
        parse_arguments(["--lease-s", "3"], {})
