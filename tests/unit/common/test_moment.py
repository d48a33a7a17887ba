"""What is held back leaves once: when the moment is over, unless it left with something else."""

from __future__ import annotations

import asyncio

from pathways_common.rpc.moment import Moment


def test_a_moment_that_runs_is_over_once_however_often_it_is_begun() -> None:
    over: list[str] = []

    async def story() -> None:
        done = asyncio.Event()

        def passed() -> None:
            over.append("first")
            done.set()

        moment = Moment(passed, delay_ns=1)
        moment.begin()
        moment.begin()
        await asyncio.wait_for(done.wait(), 10)
        later = asyncio.Event()
        Moment(later.set, delay_ns=1).begin()  # begun after it, so over after it: a second `first` would have come
        await asyncio.wait_for(later.wait(), 10)

    asyncio.run(story())
    assert over == ["first"]


def test_an_ended_moment_is_never_over_and_may_begin_again() -> None:
    over: list[str] = []

    async def story() -> None:
        later = asyncio.Event()
        moment = Moment(lambda: over.append("held"), delay_ns=1)
        moment.begin()
        moment.end()
        Moment(later.set, delay_ns=1000).begin()
        await asyncio.wait_for(later.wait(), 10)
        assert over == []
        again = asyncio.Event()
        moment.begin()
        Moment(again.set, delay_ns=1000).begin()
        await asyncio.wait_for(again.wait(), 10)

    asyncio.run(story())
    assert over == ["held"]
