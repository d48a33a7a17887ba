"""A host goes on over another connection, as the incarnation that it was; a daemon that is gone is not waited for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from pathways_common.model.ids import HostName
from pathways_proto.v1 import workers_pb2
from pathways_server.core import effects, events
from pathways_server.rpc import workers
from pathways_server.rpc.daemon_probe import refuses
from pathways_worker.app import App as Worker

from tests.unit.server_shell.scripted_core import TIMEOUT_S, Controller, controller
from tests.unit.server_shell.test_framed_workers import run
from tests.unit.server_shell.test_session_streams import both
from tests.unit.worker.fake_controller import FakeController, daemon, until

HOST = HostName("a0")


@dataclass
class Address:
    """Where the worker finds its controller."""

    port: int


@asynccontextmanager
async def joined(path: Path, transport: str) -> AsyncIterator[tuple[Controller, Worker]]:
    """A controller with a scripted core, and a worker daemon that has joined it."""
    async with controller(path, transport) as running:
        address = cast("FakeController", Address(int(running.app.address.rpartition(":")[2])))
        async with daemon(path, address, auth=True) as worker:
            await running.core.wait_for(events.HostJoined)
            yield running, worker


def say(running: Controller, *commands: effects.HostCommand) -> None:
    """The core sends these to the host, in one step."""
    sent: list[effects.Effect] = [effects.SendToHost(HOST, command) for command in commands]
    running.core.answers[events.TraceRequested] = lambda _event: sent
    running.app.loop.post((events.TraceRequested(1, 0),))


def cut(running: Controller) -> None:
    """The host's connection is gone, for the controller as for the worker."""
    (peer,) = running.app.loop.hosts.values()
    stream = running.app._workers._streams[peer.name]
    if stream.attached is not None:
        stream.attached.sever()


@both
def test_commands_and_events_around_breaks_arrive_once_and_in_order(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, transport) as (running, worker):
            asked = 0
            for breaks in range(1, 5):
                for _ in range(10):
                    asked += 1
                    say(running, effects.ReportHoldings(asked))
                    await asyncio.sleep(0)
                cut(running)
                asked += 1
                say(running, effects.ReportHoldings(asked))
                await running.core.wait_for(events.HostResumed, breaks)
                # Cut before it has read its welcome it would come back once more, and count one link less than broke.
                await until(lambda breaks=breaks: worker.counters.resumed == breaks, "the worker to be back")
            told = await running.core.wait_for(events.HoldingsReported, asked)
            assert [each.number for each in told] == list(range(1, asked + 1))
            assert worker.counters.resumed == 4
            assert len(running.core.of(events.HostJoined)) == 1
            assert running.core.of(events.HostLost) == []

    run(scenario)


@both
def test_an_incarnation_that_was_given_up_joins_anew(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with joined(tmp_path, transport) as (running, worker):
            given_up = lambda event: [effects.HostGivenUp(event.host, event.incarnation, "it did not come back")]  # noqa: E731
            running.core.answers[events.HostDetached] = given_up
            cut(running)
            first, second = await running.core.wait_for(events.HostJoined, 2)
            assert second.incarnation > first.incarnation
            assert running.core.of(events.HostResumed) == []
            say(running, effects.ReportHoldings(7))
            (told,) = await running.core.wait_for(events.HoldingsReported)
            assert told.number == 7
            assert (worker.counters.joined, worker.counters.resumed) == (2, 0)

    run(scenario)


def hello(data_address: str, **more: Any) -> workers_pb2.WorkerFrame:
    fields = {"host": "a0", "island": "a", "device_count": 1, "data_address": data_address, "resumable": True} | more
    return workers_pb2.WorkerFrame(hello=workers_pb2.WorkerHello(**fields))


async def cut_off(running: Controller, data_address: str) -> None:
    """A worker joins and loses its connection."""
    call = running.worker_call()
    await call.write(hello(data_address))
    assert (await call.read()).welcome.grace_ns == 5 * 10**9
    (await call._call()).abort("test")
    await running.core.wait_for(events.HostDetached)


def test_signs_of_life_are_told_while_an_answer_is_overdue_and_only_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_OVERDUE_NS", 0)

    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            call = running.worker_call()
            await call.write(hello("127.0.0.1:1"))
            incarnation = (await call.read()).welcome.incarnation
            framed = await call._call()

            async def gives_a_sign(number: int, event: workers_pb2.HostEvent) -> None:
                """And then says something, which is acknowledged."""
                framed.put(b"")
                await call.write(workers_pb2.WorkerFrame(sequence=number, events=[event]))
                while (await call.read()).received < number:
                    pass

            line = workers_pb2.HostEvent(log=workers_pb2.Log(lines=["nothing new"]))
            await gives_a_sign(1, line)
            assert running.core.of(events.HostHeard) == []
            say(running, effects.Probe(7))
            assert (await call.read()).commands[0].probe.number == 7
            framed.put(b"")
            assert await running.core.wait_for(events.HostHeard) == [events.HostHeard(HOST, incarnation)]
            await gives_a_sign(2, workers_pb2.HostEvent(pulse=workers_pb2.Pulse(number=7)))
            heard = len(running.core.of(events.HostHeard))
            await gives_a_sign(3, line)
            assert len(running.core.of(events.HostHeard)) == heard

    run(scenario)


def test_a_daemon_that_is_gone_is_lost_without_a_grace(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            with socket.socket() as closed:
                closed.bind(("127.0.0.1", 0))
                address = f"127.0.0.1:{closed.getsockname()[1]}"
                assert await refuses(address)
                await cut_off(running, address)
                (lost,) = await running.core.wait_for(events.HostLost)
                assert lost.reason.endswith("and its daemon is gone")

    run(scenario)


def test_a_daemon_that_listens_is_waited_for_until_another_takes_its_name(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            with socket.create_server(("127.0.0.1", 0)) as listener:
                address = f"127.0.0.1:{listener.getsockname()[1]}"
                await cut_off(running, address)
                assert not await refuses(address)
                assert running.core.of(events.HostLost) == []
                another = running.worker_call()
                await another.write(hello(address))
                assert (await another.read()).welcome.incarnation == 2
                order = [type(event) for event in running.core.seen]
                assert order == [events.HostJoined, events.HostDetached, events.HostLost, events.HostJoined]

    run(scenario)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"incarnation": 9, "last_term": 1}, "incarnation 9 of host a0 is over; join again"),
        ({"incarnation": 1, "last_term": 4}, "this is life 1 of the controller and not life 4; join again"),
    ],
)
def test_what_is_of_another_life_is_told_to_join_again(tmp_path: Path, more: dict[str, Any], sentence: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            first = running.worker_call()
            await first.write(hello("127.0.0.1:1"))
            assert (await first.read()).welcome.incarnation == 1
            call = running.worker_call()
            await call.write(hello("127.0.0.1:1", resume=True, connection=1, **more))
            refused = (await call.read()).refused
            assert (refused.failure.message, refused.join_again) == (sentence, True)
            assert running.core.of(events.HostLost) == []

    run(scenario)


def test_the_same_name_from_another_daemon_is_refused_while_the_first_is_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, "framed") as running:
            first = running.worker_call()
            await first.write(hello("127.0.0.1:1"))
            assert (await first.read()).welcome.incarnation == 1
            call = running.worker_call()
            await call.write(hello("127.0.0.1:1"))
            frame = await asyncio.wait_for(call.read(), TIMEOUT_S)
            assert "has joined already" in frame.refused.failure.message

    run(scenario)
