"""The bytes of a spilled buffer are those of the sending that was asked for, never the rest of an earlier one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pathways_common.model.failure import Failure
from pathways_common.process.tasks import Supervisor
from pathways_proto.v1 import spilling_pb2, workers_pb2
from pathways_worker.shell.counters import Counters
from pathways_worker.shell.spill_agent import SPILL, SpillAgent
from pathways_worker.shell.spill_files import SpillFolder
from pathways_worker.shell.wire import Item

BUFFER, SENDER = 1, 7


class Rest:
    """The rest of the daemon: one executor, of which nothing is asked here."""

    has_executor = True
    sender = SENDER

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def send_item(self, item: Item) -> None:
        """Goes nowhere."""

    async def send_spilled(self, buffer_id: int, data: bytes, failure: Failure | None) -> None:
        """Goes nowhere."""

    def tell(self, event: workers_pb2.HostEvent) -> None:
        if event.HasField("array_spilled"):
            self.answers.append(event.array_spilled)

    def store_changed(self) -> None:
        """Nobody waits."""


def offer(agent: SpillAgent) -> None:
    offered = spilling_pb2.SpillOffered(buffer_id=BUFFER)
    offered.shards.add(size_bytes=4)
    agent.on_offered(offered)


@pytest.mark.parametrize("changed", [False, True], ids=["same_epoch", "rescue"])
def test_the_rest_of_a_spill_that_the_disk_refused_is_not_taken_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    async def scenario() -> None:
        rest = Rest()
        folder = SpillFolder(tmp_path, "a0")
        agent = SpillAgent(0, 1 << 20, folder, Counters(), Supervisor(), rest)
        agent.on_command(SPILL, spilling_pb2.SpillArray(buffer_id=BUFFER, spill_number=1))
        offer(agent)
        with monkeypatch.context() as patch:
            patch.setattr(folder, "file", full)
            await agent.on_bytes(SENDER, BUFFER, b"A")
        assert rest.answers[0].failure.reason == "RESOURCE_EXHAUSTED"
        if changed:
            # The epoch ends, and its executor is asked for what is kept of it.
            agent.executor_changed()
        assert agent.keep(BUFFER, 2, True)
        offer(agent)
        for piece in (b"B", b"CD", b"A", b"BC", b"D"):
            assert len(rest.answers) == 1
            await agent.on_bytes(SENDER, BUFFER, piece)
        assert [(answer.spill_number, answer.size_bytes) for answer in rest.answers[1:]] == [(2, 4)]
        (file,) = agent._files.values()
        assert b"".join(file.pieces()) == b"ABCD"
        agent.close()
        agent.remove_folder()

    asyncio.run(scenario())


def test_what_one_executor_still_owes_is_no_matter_of_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        rest = Rest()
        agent = SpillAgent(1 << 20, 0, SpillFolder(tmp_path, "a0"), Counters(), Supervisor(), rest)
        assert agent.keep(BUFFER, 1, True)
        offer(agent)
        await agent.on_bytes(SENDER, BUFFER, b"AB")
        agent.executor_changed()
        assert rest.answers[0].failure.reason == "BUFFER_LOST"
        rest.sender = SENDER + 1
        assert agent.keep(BUFFER, 2, True)
        offer(agent)
        for sender, piece in ((SENDER + 1, b"ab"), (SENDER, b"C"), (SENDER, b"D"), (SENDER, b"E"), (SENDER + 1, b"cd")):
            assert len(rest.answers) == 1
            await agent.on_bytes(sender, BUFFER, piece)
        (block,) = agent._memory.values()
        assert b"".join(bytes(piece) for piece in block.pieces()) == b"abcd"
        agent.executor_changed()
        agent.executor_gone(SENDER)
        assert agent._void_bytes == {}
        agent.close()

    asyncio.run(scenario())
