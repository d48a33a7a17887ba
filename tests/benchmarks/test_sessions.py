"""Slopes and what is left are those of the samples; memory is read as the kernel tells it. All of it made up but this process."""

from __future__ import annotations

import os
from collections.abc import Callable

import psutil
import pytest

from tests.benchmarks import sessions
from tests.benchmarks.process_memory import Held, held, own_bytes
from tests.benchmarks.report import markdown
from tests.benchmarks.sessions import LOCAL, PHASES, Mark

ROLLUP = """55eb8ef78000-7ffdddcce000 ---p 00000000 00:00 0                          [rollup]
Rss:               58640 kB
Pss:               33407 kB
Pss_Dirty:         30204 kB
Pss_Anon:          30204 kB
Pss_File:           3203 kB
Pss_Shmem:           100 kB
SwapPss:               7 kB
"""


def marks(size_bytes: Callable[[int], float], count: int = 40_000, end: float = 0.0) -> list[Mark]:
    """Forty marks of a client and a door, and one after all was dropped."""
    found = []
    for done in range(0, count + 1, count // 40):
        one = Held(int(size_bytes(done)), 10, 5, 300)
        found.append(Mark(done, done / 1000, {"client": one, "door": one}))
    last = Held(int(end), 10, 5, 300)
    return [*found, Mark(count, count / 1000, {"client": last, "door": last})]


def test_the_slope_is_of_the_last_half_and_what_is_left_of_the_end() -> None:
    found = marks(lambda done: 1e6 + (100 * done if done < 20_000 else 2e6 + 3 * (done - 20_000)), end=1e6 + 80_000)
    figure = sessions.slope(found, "door")
    assert (round(figure.median, 3), figure.samples) == (3.0, 21)
    assert figure.low == pytest.approx(3.0, abs=0.01)
    assert sessions.left_bytes(found, "door") == 2.0


def test_a_process_that_grows_with_what_is_over_does_not_meet_its_bar() -> None:
    for grows, verdict in ((0.0, "met"), (20.0, "NOT met"), (16.0, "undecided")):
        found = {phase.what: marks(lambda done, grows=grows: 1e6 + grows * done + done % 3000) for phase in PHASES}  # type: ignore[misc]
        section = sessions.section(found, found)
        (claim,) = [claim for claim in section.claims if claim.what == "dispatches: door, more for each dispatch"]
        assert claim.verdict == verdict, claim
    assert not section.misses
    assert f"| {LOCAL} | 40,000 | 1.0 |" in markdown(section, ["commit: none"])
    assert len(section.plots) == len(PHASES)


def test_what_was_held_and_is_not_given_back_is_a_miss() -> None:
    found = {phase.what: marks(lambda done: 1e6, end=1e6 + 4096 * 40_000) for phase in PHASES}
    assert sessions.section(found, found).misses == [
        "kept: door had 4,096 B left of each kept program, 2048 were wanted",
        "arrays: door had 4,096 B left of each live array, 512 were wanted",
    ]


def test_memory_of_its_own_is_what_no_library_is() -> None:
    assert own_bytes(ROLLUP) == (30204 + 100 + 7) * 1024
    before = held([psutil.Process()])["client"]
    block, descriptor = bytearray(os.urandom(1 << 20) * 32), os.open("/dev/null", os.O_RDONLY)
    after = held([psutil.Process()])["client"]
    os.close(descriptor)
    assert 31 << 20 <= after.memory_bytes - before.memory_bytes <= 40 << 20, len(block)
    assert after.descriptors == before.descriptors + 1
