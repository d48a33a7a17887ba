"""Transfers whose connection breaks: the ticket is good for another call, and the bytes arrive whole."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import FetchId, TransferId
from pathways_common.rpc import channels, data_calls
from pathways_common.rpc.data_calls import Broken, Spent, repeated
from pathways_door import bulk as bulk_calls
from pathways_door.bulk import Bulk
from pathways_proto.v1 import sessions_pb2
from pathways_worker.core import transfers
from pathways_worker.rpc.data_client import DataClient

from tests.e2e.loopback_proxy import LoopbackProxy, proxied
from tests.unit.worker.fake_controller import FakeController, joined, run, until
from tests.unit.worker.test_worker_data import bytes_of, expect, fetch, landed_bytes

FETCH, UPLOAD = FetchId(1), TransferId(2)
SIZE = 28 << 20  # much more than sockets hold
PROXY = "127.0.0.4"


def test_a_pull_that_broke_is_served_again_under_its_ticket() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.FetchExpected(FETCH, "t", 100))
    core.step(0, transfers.FetchAnswered(FETCH, None))
    assert core.step(1, transfers.PullBegan(1, "t")) == [transfers.Serve(1, FETCH)]
    assert core.step(2, transfers.CallBroke(1)) == []
    assert core.step(3, transfers.PullBegan(2, "t")) == [transfers.Serve(2, FETCH)]
    assert core.step(4, transfers.CallEnded(2)) == [transfers.Forget(FETCH)]
    (refused,) = core.step(5, transfers.PullBegan(3, "t"))
    assert isinstance(refused, transfers.Refuse)
    assert core.open_count == 0


def test_bytes_that_nobody_comes_for_again_are_let_go_at_their_deadline_and_not_while_they_are_served() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.FetchExpected(FETCH, "t", 100))
    core.step(0, transfers.FetchAnswered(FETCH, None))
    core.step(1, transfers.PullBegan(1, "t"))
    assert core.step(200, transfers.TimePassed()) == []
    core.step(201, transfers.CallBroke(1))
    assert core.step(202, transfers.TimePassed()) == [transfers.Forget(FETCH)]
    assert core.open_count == 0


def test_a_push_that_broke_begins_anew() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.UploadExpected(UPLOAD, "u", 10, 100))
    assert core.step(0, transfers.PushBegan(1, "u")) == [transfers.Accept(1, 10)]
    assert core.step(1, transfers.CallBroke(1)) == [transfers.Drop(1)]
    assert core.step(2, transfers.PushBegan(2, "u")) == [transfers.Accept(2, 10)]
    assert core.step(3, transfers.PushEnded(2, 10)) == [transfers.Deliver(2, UPLOAD)]
    assert core.open_count == 0


def test_a_caller_whose_connection_breaks_while_it_waits_may_come_again() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.FetchExpected(FETCH, "t", 100))
    assert core.step(0, transfers.PullBegan(1, "t")) == []
    core.step(1, transfers.CallBroke(1))
    assert core.step(2, transfers.FetchAnswered(FETCH, None)) == []
    assert core.step(3, transfers.PullBegan(2, "t")) == [transfers.Serve(2, FETCH)]


def test_bytes_that_were_sent_are_there_for_a_moment_for_who_says_that_they_did_not_arrive() -> None:
    core = transfers.Transfers("a0")
    core.step(0, transfers.FetchExpected(FETCH, "t", 10**12))
    core.step(0, transfers.FetchAnswered(FETCH, None))
    core.step(1, transfers.PullBegan(1, "t"))
    assert core.step(2, transfers.CallEnded(1, lingers=True)) == []
    assert (core.open_count, core.tickets()) == (0, [])
    (used,) = core.step(3, transfers.PullBegan(2, "t"))
    assert isinstance(used, transfers.Refuse)
    assert core.step(4, transfers.PullBegan(3, "t", again=True)) == [transfers.Serve(3, FETCH)]
    assert core.step(5, transfers.CallEnded(3, lingers=True)) == []
    assert core.step(4 + transfers.LINGER_NS, transfers.TimePassed()) == []
    assert core.step(5 + transfers.LINGER_NS, transfers.TimePassed()) == [transfers.Forget(FETCH)]


def test_a_small_shard_whose_bytes_are_lost_behind_its_host_is_pulled_again(tmp_path: Path) -> None:
    """The host has handed all of it to its sockets when the connection breaks."""

    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            await controller.send(fetch(5, 1, ticket="t5"))
            port = int(app.data_address.rpartition(":")[2])
            client = DataClient()
            with proxied(PROXY, port) as proxy:
                proxy.slow(0.3)
                pulling = asyncio.ensure_future(client.pull(f"{PROXY}:{port}", "t5", 7, 20 * 10**9))
                await until(lambda: app.counters.bytes_sent == 7, "the bytes to be sent")
                proxy.drop()
                proxy.mend()
                assert b"".join(await asyncio.wait_for(pulling, 20)) == b"fetch-5"
                assert app.counters.bytes_sent == 14
            await client.close()

    run(scenario())


async def broken_midway(proxy: LoopbackProxy, work: asyncio.Task[object]) -> None:
    """The connection of a transfer is reset when some of its bytes have passed."""
    passed, connections = proxy.passed_bytes, proxy.connections
    await until(lambda: proxy.passed_bytes > passed + SIZE // 8, "some bytes to pass")
    assert not work.done()
    proxy.drop()
    proxy.mend()
    await until(lambda: proxy.connections > connections, "another try")


class Far(NamedTuple):
    """A worker behind a proxy, and who moves bytes to it and from it."""

    controller: FakeController
    proxy: LoopbackProxy
    bulk: Bulk
    client: DataClient
    address: str

    def ticket(self, name: str) -> sessions_pb2.DataTicket:
        return sessions_pb2.DataTicket(address=self.address, host="a0", ticket=name)


@asynccontextmanager
async def far(tmp_path: Path) -> AsyncIterator[Far]:
    async with joined(tmp_path) as (controller, app):
        await controller.enter()
        port = int(app.data_address.rpartition(":")[2])
        bulk, client = Bulk(), DataClient()
        with proxied(PROXY, port) as proxy:
            yield Far(controller, proxy, bulk, client, f"{PROXY}:{port}")
        await bulk.close()
        await client.close()


@pytest.mark.slow
def test_bytes_arrive_whole_over_connections_that_break(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with far(tmp_path) as link:
            controller, proxy, bulk, client, address = link
            await controller.send(expect(8, SIZE))
            proxy.slow(0.002)
            pushing = asyncio.ensure_future(bulk.push(link.ticket("up-8"), bytes_of(SIZE)))
            await broken_midway(proxy, pushing)
            await asyncio.wait_for(pushing, 20)
            await controller.event("landed")
            assert await landed_bytes(controller, 8, SIZE) == bytes_of(SIZE)
            for number in (1, 2):
                await controller.send(fetch(number, 8, ticket=f"t{number}"))
            proxy.slow(0.002)
            pulling = asyncio.ensure_future(bulk.pull(link.ticket("t1"), SIZE))
            await broken_midway(proxy, pulling)
            whole = await asyncio.wait_for(pulling, 20)
            proxy.slow(0.002)
            moving = asyncio.ensure_future(client.pull(address, "t2", SIZE, 20 * 10**9))
            await broken_midway(proxy, moving)
            assert bytes(whole) == b"".join(await asyncio.wait_for(moving, 20)) == bytes_of(SIZE)

    run(scenario())


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections that carry nothing are given up after 1.5 s, so is connecting, and tries come to an end after a second."""
    monkeypatch.setattr(channels, "_SHARED", [*channels._shared(500), ("grpc.min_reconnect_backoff_ms", 1500)])
    monkeypatch.setattr(data_calls, "DATA_TRIES_NS", 10**9)
    monkeypatch.setattr(data_calls, "COME_BACK_PAUSE_MAX_NS", 3 * 10**8)


@pytest.mark.usefixtures("hasty")
def test_bytes_on_a_link_that_carries_nothing_are_given_up_by_name_long_before_their_deadline(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with far(tmp_path) as link:
            controller, proxy, bulk, client, address = link
            for number in (1, 2, 3, 4):
                await controller.send(fetch(number, number, ticket=f"t{number}"))
            await controller.send(expect(8, 7))
            await bulk.pull(link.ticket("t1"), 7)
            await client.pull(address, "t2", 7, 20 * 10**9)
            proxy.away(60)
            late = await asyncio.wait_for(
                asyncio.gather(
                    bulk.pull(link.ticket("t3"), 7),
                    client.pull(address, "t4", 7, 3600 * 10**9),
                    bulk.push(link.ticket("up-8"), b"1234567"),
                    return_exceptions=True,
                ),
                20,
            )
        for error, what in zip(
            late,
            ("the read of 7 bytes from host a0", f"the copy of 7 bytes from the worker at {address}",
             "the upload of 7 bytes to host a0"),
            strict=True,
        ):  # fmt: skip
            assert isinstance(error, PathwaysError)
            assert error.failure.reason is Reason.TIMED_OUT
            assert error.failure.message.startswith(f"{what} was given up: no connection to it has carried anything for ")

    run(scenario())


def test_a_read_waits_for_longer_than_an_upload_for_what_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_calls, "BULK_TIMEOUT_NS", 2 * 10**8)

    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            ticket = sessions_pb2.DataTicket(address=app.data_address, host="a0", ticket="t5")
            bulk = Bulk()
            pulling = asyncio.ensure_future(bulk.pull(ticket, 7))
            await asyncio.wait({pulling}, timeout=0.5)
            assert not pulling.done()
            await controller.send(fetch(5, 1, ticket="t5"))
            assert bytes(await asyncio.wait_for(pulling, 20)) == b"fetch-5"
            ticket.ticket = "nobody expects it"
            with pytest.raises(PathwaysError, match="host a0 took no bytes of a shard before the deadline") as late:
                await asyncio.wait_for(bulk.push(ticket, b"x"), 20)
            assert late.value.failure.reason is Reason.TIMED_OUT
            await bulk.close()

    run(scenario())


@pytest.mark.usefixtures("hasty")
def test_bytes_that_are_computed_for_longer_than_a_dead_link_is_borne_are_waited_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter()
            port = int(app.data_address.rpartition(":")[2])
            client = DataClient()
            with proxied(PROXY, port) as proxy:
                pulling = asyncio.ensure_future(client.pull(f"{PROXY}:{port}", "t5", 7, 3600 * 10**9))
                for _ in range(2):
                    await asyncio.sleep(1.2)  # longer than tries last; the host has the call each time
                    proxy.drop()
                await asyncio.sleep(1.2)
                assert not pulling.done()
                await controller.send(fetch(5, 1, ticket="t5"))
                assert b"".join(await asyncio.wait_for(pulling, 20)) == b"fetch-5"
            await client.close()

    run(scenario())


def test_a_call_that_keeps_breaking_fails_with_what_broke_first_and_says_if_its_ticket_is_used_up() -> None:
    def failure(text: str) -> Failure:
        return Failure(Reason.BUFFER_LOST, text)

    calls: list[float] = []

    async def call(left_s: float, again: bool) -> None:
        assert again is bool(calls)
        calls.append(left_s)
        if len(calls) == 1:
            raise Broken(failure("first"))
        raise PathwaysError(failure("used"))

    async def refused(_left_s: float, _again: bool) -> None:
        raise PathwaysError(failure("used"))

    async def scenario() -> None:
        with pytest.raises(Spent) as spent:
            await repeated("it", call, 10**10)
        assert spent.value.failure == failure("first")
        assert len(calls) == 5
        with pytest.raises(PathwaysError) as plain:
            await repeated("it", refused, 10**10)
        assert not isinstance(plain.value, Broken)
        assert plain.value.failure == failure("used")

    asyncio.run(scenario())
