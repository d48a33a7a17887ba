"""Cells of a daemon: which lives of them there are, whatever opens and closes them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pathways_common.model.failure import Reason, fail
from pathways_common.process.tasks import Supervisor, TaskFailed
from pathways_worker.cells import Cells

from tests.unit.worker.fake_controller import until


class Lives:
    """What became of each life of a cell; `end` says how the next ones end by themselves. Ending takes a moment."""

    def __init__(self) -> None:
        self.supervisor = Supervisor()
        self.cells = Cells(self.supervisor, self.live)
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.together = 0
        self.end: Callable[[], Awaitable[None]] | None = None

    async def live(self, tenant: str) -> None:
        self.begun.append(tenant)
        alive = [each for each in set(self.begun) if self.begun.count(each) - self.ended.count(each) > 1]
        self.together += len(alive)
        try:
            if self.end is not None:
                await self.end()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.ended.append(tenant)


def test_a_cell_that_is_open_stays_and_each_tenant_has_its_own() -> None:
    async def story() -> None:
        lives = Lives()
        for tenant in ("ads", "web", "ads"):
            lives.cells.open(tenant)
        await until(lambda: len(lives.begun) == 2, "both cells")
        lives.cells.close("ads")
        await until(lambda: lives.ended == ["ads"], "the end of one")
        lives.cells.close_all()
        await lives.cells.wait_gone(5)
        assert (lives.begun, lives.ended) == (["ads", "web"], ["ads", "web"])

    asyncio.run(story())


def test_a_cell_opened_again_while_it_ends_lives_anew_and_never_twice_at_once() -> None:
    async def story() -> None:
        lives = Lives()
        lives.cells.open("ads")
        await until(lambda: lives.begun, "the cell")
        lives.cells.close("ads")
        lives.cells.open("ads")
        await until(lambda: len(lives.begun) == 2, "the second life")
        assert (lives.ended, lives.together) == (["ads"], 0)
        lives.cells.close("ads")
        await lives.cells.wait_gone(5)
        assert lives.ended == ["ads", "ads"]

    asyncio.run(story())


def test_a_cell_that_cannot_join_is_tried_again_only_if_that_may_help() -> None:
    async def story() -> None:
        lives = Lives()

        async def busy() -> None:
            if len(lives.begun) == 1:
                raise fail(Reason.UNAVAILABLE, "a host named a0+ads has joined already", retryable=True)

        lives.end = busy
        lives.cells.open("ads")
        await until(lambda: len(lives.begun) == 2, "another try")

        async def wrong() -> None:
            raise fail(Reason.UNAUTHENTICATED, "another secret")

        lives.end = wrong
        lives.cells.open("web")
        await until(lambda: "web" in lives.ended, "the failed try")
        lives.end = None
        lives.cells.open("web")  # the controller asks again
        await until(lambda: lives.begun.count("web") == 2, "the next one")
        lives.cells.close_all()
        await lives.cells.wait_gone(5)
        assert not lives.supervisor.stopping

    asyncio.run(story())


def test_a_defect_in_a_cell_ends_the_daemon() -> None:
    async def story() -> None:
        lives = Lives()

        async def broken() -> None:
            raise RuntimeError("a defect")

        lives.end = broken
        lives.cells.open("ads")
        with pytest.raises(TaskFailed):
            await lives.supervisor.run_until_stopped()

    asyncio.run(story())
