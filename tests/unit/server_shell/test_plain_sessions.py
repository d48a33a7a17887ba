"""A client that said `plain` leaves out numbers and acknowledgements; its frames are taken in order and answered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
from pathways_proto.v1 import sessions_pb2
from pathways_server.core import events

from tests.unit.server_shell.scripted_core import controller, open_session, read_items, status_of
from tests.unit.server_shell.test_session_streams import Operation, answer_fences, both, fence

COUNT = 50


@both
def test_a_plain_client_is_answered_without_numbering_or_acknowledging(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            answer_fences(running)
            call = running.session_call()
            await open_session(call, plain=True)
            for number in range(1, COUNT + 1):
                await call.write(sessions_pb2.ClientFrame(operations=[fence(number)]))
                items, frames = await read_items(call, "operations", 1)
                assert [item.fence_reached.fence_id for item in items] == [number]
                assert len(frames) == 1, "frames that only acknowledge are left out"
            assert [event.fence_id for event in running.core.of(events.FenceRequested)] == list(range(1, COUNT + 1))
            peer = next(iter(running.app.loop.sessions.values()))
            assert peer.link.unacknowledged == 0
            await call.write(sessions_pb2.ClientFrame(operations=[Operation(goodbye=sessions_pb2.Goodbye())]))
            assert (await status_of(call))[0] is grpc.StatusCode.OK

    asyncio.run(scenario())


@both
def test_a_plain_client_may_send_much_before_it_reads(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            answer_fences(running)
            call = running.session_call()
            await open_session(call, plain=True)
            for number in range(1, COUNT + 1):
                await call.write(sessions_pb2.ClientFrame(operations=[fence(number)]))
            items, _ = await read_items(call, "operations", COUNT)
            assert [item.fence_reached.fence_id for item in items] == list(range(1, COUNT + 1))

    asyncio.run(scenario())
