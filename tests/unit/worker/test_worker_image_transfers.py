"""Images through real daemons: kept from one executor for the next, and pulled by one host from another under a ticket."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from pathways_proto.v1 import workers_pb2
from pathways_worker.app import App

from tests.unit.worker.fake_controller import FakeController, joined, run, until

Command = workers_pb2.HostCommand
KEY = "program/0x1"
IMAGE = b"image of program"
SECOND = 10**9


def load(executable: int, source: workers_pb2.ImageSource | None = None, image: bytes = b"", key: str = KEY) -> Command:
    message = workers_pb2.Load(executable_id=executable, program=b"program", epoch=1, image_key=key, source=source, image=image)
    return Command(load=message)


def offer(fetch_id: int, key: str = KEY) -> Command:
    message = workers_pb2.OfferImage(image_key=key, fetch_id=fetch_id, ticket=f"image-{fetch_id}", timeout_ns=20 * SECOND)
    return Command(offer_image=message)


def source(app: App, fetch_id: int, image: bytes = IMAGE) -> workers_pb2.ImageSource:
    return workers_pb2.ImageSource(
        host="a0", address=app.data_address, ticket=f"image-{fetch_id}", size_bytes=len(image),
        digest=hashlib.sha256(image).digest(), timeout_ns=20 * SECOND,
    )  # fmt: skip


async def loaded(controller: FakeController, executable: int) -> Any:
    """The answer of a Load."""

    def found() -> Any:
        return next((answer for answer in controller.of("loaded") if answer.executable_id == executable), None)

    return await until(found, f"executable {executable}")


def loads(controller: FakeController) -> list[str]:
    return [line for line in controller.log_lines() if line.startswith("load ")]


def test_an_image_stays_with_the_daemon_and_goes_to_the_next_executor(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, app):
            await controller.enter(1)
            await controller.send(load(1))
            answer = await loaded(controller, 1)
            assert (answer.reused, answer.image) == (False, b""), "the controller does not carry it"
            assert answer.kept == workers_pb2.KeptImage(size_bytes=len(IMAGE), digest=hashlib.sha256(IMAGE).digest())
            await controller.send(load(2))
            assert (await loaded(controller, 2)).reused
            await controller.enter(2)
            await controller.send(load(3))
            assert (await loaded(controller, 3)).kept == answer.kept
            assert loads(controller) == ["load 1 ", "load 2 image of program", "load 3 image of program"]
            assert (app.counters.executables_compiled, app.counters.executables_reused) == (1, 2)
            assert (app.counters.images, app.counters.image_bytes) == (1, len(IMAGE))

    run(scenario())


def test_an_image_that_comes_inside_a_command_is_not_looked_at(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path) as (controller, _):
            await controller.enter()
            await controller.send(load(1, image=b"somebody's code"))
            assert not (await loaded(controller, 1)).reused
            assert loads(controller) == ["load 1 "]

    run(scenario())


def test_a_host_pulls_an_image_from_another_and_compiles_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path / "a") as (first, giver), joined(tmp_path / "b", host="b0") as (second, taker):
            await first.enter()
            await second.enter()
            await first.send(load(1))
            await loaded(first, 1)
            # The Load may come before the offer is heard of.
            await second.send(load(7, source(giver, 31)), load(8, source(giver, 32)))
            await first.send(offer(31))
            assert [(await loaded(second, number)).reused for number in (7, 8)] == [True, True]
            assert loads(second) == ["load 7 image of program", "load 8 image of program"]
            assert (taker.counters.executables_compiled, taker.counters.bytes_received) == (0, len(IMAGE))
            assert giver.agent.transfers.open_count == 0

    run(scenario())


@pytest.mark.parametrize("what", ["other bytes", "another key"])
def test_a_pull_that_brings_something_else_or_nothing_ends_in_a_compilation(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with joined(tmp_path / "a") as (first, giver), joined(tmp_path / "b", host="b0") as (second, taker):
            await first.enter()
            await second.enter()
            await first.send(load(1), offer(31, KEY if what == "other bytes" else "nothing/0x1"))
            await loaded(first, 1)
            said = source(giver, 31, IMAGE if what == "another key" else b"other words here")
            await second.send(load(7, said))
            answer = await loaded(second, 7)
            assert (answer.reused, answer.kept.size_bytes) == (False, len(IMAGE))
            assert taker.counters.executables_compiled == 1

    run(scenario())
    assert [record.message for record in caplog.records].count("no image from another host; the program is compiled here") == 1


def test_an_image_that_kills_executors_kills_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path / "a") as (first, giver), joined(tmp_path / "b", host="b0") as (second, _):
            await first.enter()
            await second.enter()
            agent = giver.agent.images
            await first.send(load(1))
            await loaded(first, 1)
            agent._images[KEY] = agent._images[KEY]._replace(data=b"broken")
            await first.send(offer(31))
            await second.send(load(7, source(giver, 31, b"broken")))
            died = await second.event("executor_died")
            assert (died.exit, died.loading) == ("signal 9", 7)
            await second.enter(2)
            await second.send(load(9))
            assert not (await loaded(second, 9)).reused

    run(scenario())


def test_a_load_that_is_unloaded_while_it_waits_for_its_image_is_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with joined(tmp_path / "a") as (first, giver), joined(tmp_path / "b", host="b0") as (second, _):
            await first.enter()
            await second.enter()
            await second.send(load(7, source(giver, 31)))  # nobody offers it
            await second.send(Command(unload=workers_pb2.Unload(executable_ids=[7])))
            answer = await loaded(second, 7)
            assert (answer.epoch, answer.failure.reason, answer.failure.host) == (1, "CANCELLED", "b0")
            assert loads(second) == []

    run(scenario())
