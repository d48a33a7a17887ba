"""The whole system under virtual time, many seeds: every checker by name, and that the seeds are not hollow.

`PATHWAYS_SIMULATION_SEEDS` (or `SIM_SEEDS`) sets how many seeds are run (default 20), PATHWAYS_SIMULATION_PROCESSES in how many
processes (default: one for each core, at most 8); a failure prints seed, options, the end of its story and the command that
replays it.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from pathways_server.core.transitions import TABLE

from tests.simulation.sim_cluster import FAULT_KINDS
from tests.simulation.sim_run import Result, run_seed

ROOT = Path(__file__).parents[2]
SEEDS = int(os.environ.get("PATHWAYS_SIMULATION_SEEDS") or os.environ.get("SIM_SEEDS") or 20)
PROCESSES = int(os.environ.get("PATHWAYS_SIMULATION_PROCESSES") or min(os.cpu_count() or 1, 8))
# Rows that need minutes of patience or another machine, and the unit tests that take them.
TAKEN_BY_UNIT_TESTS = {
    ("IslandState", "COORDINATING", "WAITING"): (
        "test_a_host_that_goes_while_the_coordination_service_starts_sends_the_island_back_to_waiting"
    ),
    ("ExecutableState", "IDLE", "FAILED"): "test_a_compilation_for_an_island_that_never_comes_back_times_out",
}


class Results:
    """Runs each seed once, when the first test asks for it; a test that fails early leaves the rest alone.

    As many seeds are under way as there are processes; they are looked at in their order.
    """

    def __init__(self) -> None:
        self._results: list[Result] = []
        self._under_way: deque[Future[Result]] = deque()
        # Not forked: a seed begins in an interpreter of its own, whatever other tests did in this one.
        self._pool = ProcessPoolExecutor(PROCESSES, multiprocessing.get_context("spawn")) if PROCESSES > 1 else None

    def __iter__(self) -> Iterator[Result]:
        for seed in range(SEEDS):
            if seed == len(self._results):
                self._results.append(self._run(seed))
            yield self._results[seed]

    def _run(self, seed: int) -> Result:
        if self._pool is None:
            return run_seed(seed)
        ahead = range(seed + len(self._under_way), min(seed + PROCESSES, SEEDS))
        self._under_way.extend(self._pool.submit(run_seed, next_seed) for next_seed in ahead)
        return self._under_way.popleft().result()

    def close(self) -> None:
        """Ends the processes."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    results = Results()
    yield results
    results.close()


@pytest.mark.parametrize(
    "checker",
    [
        pytest.param("order", id="every_member_launches_the_same_gangs_in_the_same_order"),
        pytest.param("values", id="every_value_is_exact"),
        pytest.param("failures", id="every_failure_can_have_happened_to_what_it_is_reported_for"),
        pytest.param("slices", id="exclusive_devices_are_never_shared_and_shapes_are_kept"),
        pytest.param("progress", id="everything_accepted_ends"),
        pytest.param("leaks", id="nothing_is_left_after_the_last_session"),
        pytest.param("invariants", id="the_tables_agree_after_every_step"),
        pytest.param("commands", id="hosts_are_told_only_of_what_they_have"),
        pytest.param("images", id="executors_are_given_images_of_what_they_are_to_load"),
        pytest.param("holdings", id="no_question_for_leaks_finds_any_while_work_is_in_flight"),
        pytest.param("links", id="frames_arrive_in_order"),
    ],
)
def test_the_system_holds(results: Results, checker: str) -> None:
    for result in results:
        assert checker not in [name for name, _ in result.violations], result.report()


def test_seeds_are_not_hollow(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    count = SEEDS
    rows: Counter[tuple[str, str, str]] = Counter()
    faults: Counter[str] = Counter()
    for result in results:
        rows.update(result.rows)
        faults.update(kind for kind, times in result.faults.items() if times)
    events = sum(result.events for result in results) / count
    wanted = [(type(source).__name__, source.name, target.name) for source, targets in TABLE.items() for target in targets]
    missing = [row for row in wanted if not rows[row] and row not in TAKEN_BY_UNIT_TESTS]
    with capsys.disabled():
        values, runs = sum(result.values for result in results) / count, sum(result.runs for result in results) / count
        print(f"\n  {count} seeds: {events:.0f} events, {values:.0f} exact values, {runs:.0f} runs a seed")
        compiled, reused, pulled = (sum(result.images[index] for result in results) for index in range(3))
        print(f"  executables: {compiled} compiled, {reused} reused, {pulled} images pulled")
        fused = [result.fused for result in results]
        split = sum(result.split for result in results)
        answers, compared = (sum(result.inspected[index] for result in results) for index in range(2))
        print(f"  questions for leaks answered in full: {answers}, objects compared: {compared}")
        print(f"  fused launches: {sum(fused)}, in {sum(map(bool, fused))} seeds; ranges split again: {split}")
        print(f"  transition rows taken: {len(wanted) - len(missing)} of {len(wanted)}")
        print("  seeds per fault kind: " + ", ".join(f"{kind} {faults[kind]}" for kind in FAULT_KINDS))
    assert events >= 500
    assert sum(result.runs for result in results) >= 10 * count
    assert min(compiled, reused) >= count
    assert answers >= 20 * count
    assert compared >= 200 * count
    if count >= 20:
        assert pulled * 4 >= count
        assert not missing, f"no seed takes {missing}"
        assert sum(fused) >= count, "hardly anything is fused"
        assert split >= count // 4, "hardly anything that could be fused is split again"
        rare = [kind for kind in FAULT_KINDS if faults[kind] * 5 < count]
        assert not rare, f"fewer than a fifth of the seeds have {rare}"


@pytest.mark.parametrize("seed", ["3", "7"])
def test_the_trace_does_not_depend_on_the_hash_seed(seed: str) -> None:
    def digest(hash_seed: str) -> list[str]:
        run = subprocess.run(
            [sys.executable, "-m", "tests.simulation.sim_run", seed], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        return [line for line in run.stdout.splitlines() if line.startswith("digest")]

    # Of a set of two, every other hash seed changes the order.
    with ThreadPoolExecutor(PROCESSES) as threads:
        digests = list(threads.map(digest, ("1", "2", "3", "4")))
    assert digests[0] != []
    assert digests == [digests[0]] * 4
