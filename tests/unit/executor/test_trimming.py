"""Freed memory is given back to the system whenever it was freed, even while the thread that gives it back is behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pathways_worker.executor import trimming
from pathways_worker.executor.trimming import TRIM_BYTES, Trimmer

MIB = 1 << 20
BASE_BYTES = 300 * MIB


class Machine:
    """A process: what it holds besides arrays, live arrays, and what the C library keeps of those that are gone."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own_bytes, self.live_bytes, self.kept_bytes = BASE_BYTES, 0, 0
        self.late: list[Callable[[], None]] = []
        monkeypatch.setattr(trimming, "resident_bytes", lambda: self.own_bytes + self.live_bytes + self.kept_bytes)
        self.trimmer = Trimmer()
        monkeypatch.setattr(self.trimmer, "_trim", self._trim)
        monkeypatch.setattr(self.trimmer._lane, "put", self.late.append)

    def _trim(self, _: int) -> None:
        self.kept_bytes = 0

    def look(self) -> None:
        self.trimmer.observe(self.live_bytes)

    def free(self, size_bytes: int) -> None:
        self.live_bytes -= size_bytes
        self.kept_bytes += size_bytes

    def run_late(self) -> None:
        """The thread that trims gets its turn."""
        late = self.late[:]
        self.late.clear()
        for action in late:
            action()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(monkeypatch)
    made.look()
    return made


def test_what_was_freed_goes_back_if_it_is_worth_it(machine: Machine) -> None:
    machine.live_bytes = 3 * TRIM_BYTES
    machine.look()
    machine.free(TRIM_BYTES // 2)
    machine.look()
    assert machine.late == []
    machine.free(TRIM_BYTES)
    machine.look()
    machine.run_late()
    assert machine.kept_bytes == 0


def test_what_the_runtime_holds_itself_is_trimmed_for_once(machine: Machine) -> None:
    machine.own_bytes += 2 * TRIM_BYTES
    for _ in range(5):
        machine.look()
        machine.run_late()
    machine.look()
    assert machine.late == []
    machine.live_bytes += 2 * TRIM_BYTES
    machine.look()
    machine.free(2 * TRIM_BYTES)
    machine.look()
    machine.run_late()
    assert machine.kept_bytes == 0


def test_a_trim_that_comes_late_takes_nothing_that_grew_meanwhile_for_the_runtimes_own(machine: Machine) -> None:
    """Bytes on their way to arrays are held twice for a while, so a look may find much when little is live."""
    machine.live_bytes = 10 * MIB
    machine.own_bytes += TRIM_BYTES
    machine.look()
    machine.own_bytes -= TRIM_BYTES
    machine.live_bytes = 200 * MIB
    machine.run_late()
    machine.free(200 * MIB)
    machine.look()
    machine.run_late()
    assert machine.kept_bytes == 0, "it stays with the process for good"


def test_what_is_freed_behind_a_trim_that_is_under_way_goes_back_with_the_next_look(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.live_bytes = 300 * MIB
    machine.look()
    machine.free(TRIM_BYTES)
    machine.look()

    def freed_behind_it(_: int) -> None:
        machine.kept_bytes = 0
        machine.free(200 * MIB)

    monkeypatch.setattr(machine.trimmer, "_trim", freed_behind_it)
    machine.run_late()
    monkeypatch.setattr(machine.trimmer, "_trim", machine._trim)
    machine.look()
    machine.run_late()
    assert machine.kept_bytes == 0
