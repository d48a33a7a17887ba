"""Moving slices and draining hosts over the wire: who may, what the core is told and what comes of it, and that drains stay."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, SessionNumber
from pathways_common.rpc.auth import bearer
from pathways_proto.v1 import movements_pb2, movements_pb2_grpc, tenants_pb2
from pathways_server.core import effects, events
from pathways_server.core.cells import make_island
from pathways_server.core.drains import Drain
from pathways_server.core.records import Host

from tests.unit.server_shell.scripted_core import TIMEOUT_S, Controller, controller
from tests.unit.server_shell.test_tenants import added, ask


async def call(running: Controller, method: str, request: Any, token: str = "") -> Any:
    stub = movements_pb2_grpc.MovementsStub(running.channel)
    return await getattr(stub, method)(request, metadata=bearer(token or running.token), timeout=TIMEOUT_S)


async def refused(running: Controller, method: str, request: Any, token: str = "") -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call(running, method, request, token)
    return caught.value.code(), caught.value.details() or ""


def put_host(running: Controller) -> None:
    """A host a1 in the tables of the core."""
    state = running.core.state
    island = make_island(state, IslandName("a"))
    state.hosts[HostName("a1")] = Host(HostName("a1"), island, 1, 1, "a1:1", 1, 0)


def test_a_slice_is_moved_and_the_answer_says_where_it_lies(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            token = await added(running, "ads")
            running.core.answers[events.MigrationRequested] = lambda event: [
                effects.MigrationEnded(event.request_id, IslandName("b"), (HostName("b0"),), 2, 64, None)
            ]
            request = movements_pb2.MigrateSliceRequest(session_number=3, slice_id=1, island="b")
            answer = await call(running, "MigrateSlice", request)
            assert (answer.island, list(answer.hosts), answer.array_count, answer.size_bytes) == ("b", ["b0"], 2, 64)
            await call(running, "MigrateSlice", request, token)
            asked = await running.core.wait_for(events.MigrationRequested, 2)
            assert [(event.session, event.slice_id, event.island, event.tenant) for event in asked] == [
                (SessionNumber(3), 1, "b", None),
                (SessionNumber(3), 1, "b", "ads"),
            ]
            failure = Failure(Reason.RESOURCE_EXHAUSTED, "slice 1 of session 3 cannot be moved to island b: it needs 2 devices")
            running.core.answers[events.MigrationRequested] = lambda event: [
                effects.MigrationEnded(event.request_id, IslandName(""), (), 0, 0, failure)
            ]
            code, sentence = await refused(running, "MigrateSlice", request)
            assert (code, failure.message in sentence) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)

    asyncio.run(scenario())


def test_a_call_never_has_the_number_of_one_in_an_earlier_life(tmp_path: Path) -> None:
    numbers: list[int] = []

    async def life() -> None:
        async with controller(tmp_path) as running:
            running.core.answers[events.MigrationRequested] = lambda event: [
                effects.MigrationEnded(event.request_id, IslandName("b"), (), 0, 0, None)
            ]
            await call(running, "MigrateSlice", movements_pb2.MigrateSliceRequest(session_number=3, slice_id=1, island="b"))
            numbers.extend(event.request_id for event in running.core.of(events.MigrationRequested))

    for _ in range(2):  # a slice may still be on its way for whom the first has answered
        asyncio.run(life())
    assert len(set(numbers)) == 2


def test_who_has_no_token_moves_and_drains_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            for method in ("MigrateSlice", "DrainHost", "UndrainHost"):
                request = getattr(movements_pb2, f"{method}Request")()
                asked = getattr(movements_pb2_grpc.MovementsStub(running.channel), method)
                for token in (None, "wrong"):
                    with pytest.raises(grpc.aio.AioRpcError) as caught:
                        await asked(request, metadata=bearer(token), timeout=TIMEOUT_S)
                    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED, method

    asyncio.run(scenario())


def test_administrators_drain_hosts_and_take_them_back_with_a_line_of_audit_each(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            token = await added(running, "ads")
            request, back = movements_pb2.DrainHostRequest(host="a1"), movements_pb2.UndrainHostRequest(host="a1")
            code, sentence = await refused(running, "DrainHost", request)
            assert (code, "there is no host 'a1'" in sentence) == (grpc.StatusCode.INVALID_ARGUMENT, True)
            put_host(running)
            for method, asked in (("DrainHost", request), ("UndrainHost", back)):
                assert (await refused(running, method, asked, token))[0] is grpc.StatusCode.UNAUTHENTICATED
            assert (await call(running, "DrainHost", request)).state == "DRAINING"
            assert await running.core.wait_for(events.DrainSet) == [events.DrainSet(HostName("a1"), True, IslandName("a"))]
            drain = running.core.state.drains[HostName("a1")] = Drain(HostName("a1"), IslandName("a"), 0)
            drain.obstacles[SessionNumber(3)] = "session 3 is being moved"
            answer = await call(running, "DrainHost", request)
            assert (answer.island, answer.state, answer.waits_for) == ("a", "DRAINING", "session 3 is being moved")
            drain.drained = True
            answer = await call(running, "DrainHost", request)
            assert (answer.state, answer.waits_for) == ("DRAINED", "")
            assert (await call(running, "UndrainHost", back)).island == "a"
            assert (await running.core.wait_for(events.DrainSet, 2))[-1] == events.DrainSet(HostName("a1"), False)
            lines = (await ask(running, "ListAudit", tenants_pb2.ListAuditRequest(count=2))).lines
            assert [(line.action, line.subject, line.before, line.after) for line in lines] == [
                ("UndrainHost", "a1", "drained", ""),
                ("DrainHost", "a1", "", "draining"),
            ]
            del running.core.state.drains[HostName("a1")]
            code, sentence = await refused(running, "UndrainHost", back)
            assert (code, "is not being drained" in sentence) == (grpc.StatusCode.INVALID_ARGUMENT, True)

    asyncio.run(scenario())


def test_the_next_life_of_the_controller_knows_who_is_drained(tmp_path: Path) -> None:
    async def first() -> None:
        async with controller(tmp_path) as running:
            put_host(running)
            await call(running, "DrainHost", movements_pb2.DrainHostRequest(host="a1"))

    async def second() -> None:
        async with controller(tmp_path) as running:
            assert await running.core.wait_for(events.DrainSet) == [events.DrainSet(HostName("a1"), True, IslandName("a"))]
            running.core.state.drains[HostName("a1")] = Drain(HostName("a1"), IslandName("a"), 0)
            await call(running, "UndrainHost", movements_pb2.UndrainHostRequest(host="a1"))

    async def third() -> None:
        async with controller(tmp_path) as running:
            await added(running, "ads")
            assert not running.core.of(events.DrainSet)

    for life in (first, second, third):
        asyncio.run(life())
