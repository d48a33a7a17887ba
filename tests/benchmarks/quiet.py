"""Samples in which something else used the machine are taken again: both sides swing wildly then, each in its own way.

Judged by CPU time alone, never by what was measured: what all cores spent, less what the measured processes spent. Within a
budget of time; a pair that stayed disturbed is kept and counted, and the page says so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# Of one core, over a sample. A tick of /proc/stat is 10 ms, and samples take some tenths of a second.
FOREIGN_MAX = 0.2
# Of all cores: what idle daemons and a kernel use.
IDLE_MAX = 0.1
TRIES = 6
LOOK_S = 0.1
WAIT_MAX_S = 1.0
# More than one pair in so many.
LOUD_ABOVE = 4


def machine_cpu_seconds() -> float:
    """CPU time of all cores since the machine was started, stolen time included, idle time not."""
    user, nice, system, _idle, _waiting, *more = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK")


def wait_until_idle(timeout_s: float) -> None:
    """Returns when the machine has been idle for a moment, or after that long."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        before_s, began_s = machine_cpu_seconds(), time.monotonic()
        time.sleep(LOOK_S)
        share = (machine_cpu_seconds() - before_s) / (time.monotonic() - began_s)
        if share <= IDLE_MAX * (os.cpu_count() or 1):
            return


class Quiet:
    """`budget_s`: how long may be spent on waiting and on taking samples again, in all."""

    def __init__(self, budget_s: float, wait: Callable[[float], None] = wait_until_idle) -> None:
        self._budget_s = budget_s
        self._wait = wait
        self.taken = 0
        self.repeated = 0
        self.disturbed = 0

    def take(self, samples: Sequence[Callable[[], dict[str, Any]]]) -> list[dict[str, Any]]:
        """The answers of samples that belong together, of the least disturbed try.

        Each has `foreign`: how many cores others used meanwhile.
        """
        self.taken += 1
        tries: list[list[dict[str, Any]]] = []
        while True:
            began_s = time.monotonic()
            self._wait(min(WAIT_MAX_S, self._budget_s))
            # The first try itself is what a pair costs anyway; all else is paid from the budget.
            if not tries:
                self._budget_s -= time.monotonic() - began_s
            tries.append([sample() for sample in samples])
            if _disturbance(tries[-1]) <= FOREIGN_MAX:
                return tries[-1]
            if len(tries) > 1:
                self._budget_s -= time.monotonic() - began_s
            if self._budget_s <= 0 or len(tries) == TRIES:
                self.disturbed += 1
                return min(tries, key=_disturbance)
            self.repeated += 1

    @property
    def loud(self) -> bool:
        """Whether so many pairs were disturbed that nothing can be concluded."""
        return self.disturbed > self.taken / LOUD_ABOVE

    def __str__(self) -> str:
        kept = f"{self.disturbed} of {self.taken} pairs were kept though" if self.disturbed else "No pair was kept in which"
        words = f"{kept} something else used more than {FOREIGN_MAX} of a core meanwhile"
        return f"{words}; such pairs were taken again {self.repeated} times."


def _disturbance(answers: Sequence[dict[str, Any]]) -> float:
    return max(float(answer["foreign"]) for answer in answers)
