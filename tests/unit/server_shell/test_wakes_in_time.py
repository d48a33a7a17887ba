"""A core that asks to be woken is not woken before: it would find no room yet, and would not ask for the same time again."""

from __future__ import annotations

import time
from pathlib import Path

import uvloop
from pathways_common.model.ids import IslandName, SessionNumber
from pathways_server.core import effects, events

from tests.unit.server_shell.scripted_core import ScriptedCore
from tests.unit.server_shell.test_turns_and_fuzz import make_loop

ISLAND = IslandName("a")
# The loop rounds to whole milliseconds, half of them down.
AHEAD_NS = [100_000 * number for number in range(-2, 30)]


def test_the_core_is_woken_when_its_time_has_come_and_not_a_part_of_a_millisecond_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        core = ScriptedCore()
        loop = make_loop(tmp_path, core)
        asked_ns, woken_ns = [], []

        def ask(event: events.FenceRequested) -> list[effects.Effect]:
            asked_ns.append(time.monotonic_ns() + AHEAD_NS[event.fence_id])
            return [effects.WakeAt(ISLAND, asked_ns[-1])]

        def woken(_event: events.WindowDue) -> list[effects.Effect]:
            woken_ns.append(time.monotonic_ns())
            return []

        core.answers |= {events.FenceRequested: ask, events.WindowDue: woken}
        for number in range(len(AHEAD_NS)):
            loop.post((events.FenceRequested(SessionNumber(1), number),))
            await core.wait_for(events.WindowDue, number + 1)
        early_ns = [asked - woken for asked, woken in zip(asked_ns, woken_ns, strict=True) if woken < asked]
        assert early_ns == []
        assert core.of(events.WindowDue) == [events.WindowDue(ISLAND)] * len(AHEAD_NS)

    uvloop.run(scenario())
