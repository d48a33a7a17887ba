"""The whole system under virtual time, many seeds: every checker by name, and that the seeds are not hollow.

`PATHWAYS_SIMULATION_SEEDS` (or `SIM_SEEDS`) sets how many seeds are run (default 150), PATHWAYS_SIMULATION_PROCESSES in how
many processes (default: one for each core, at most 8), PATHWAYS_SIMULATION_FIRST which ones before the others; a failure
prints seed, options, the end of its story and the command that replays it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pathways_server.core.transitions import TABLE

from tests.simulation.checkers.all_rules import NAMES
from tests.simulation.checkers.endings import IN_TIME, WAITED
from tests.simulation.sim_absences import ABSENCE_KINDS
from tests.simulation.sim_faults import FAULT_KINDS
from tests.simulation.sim_migrations import MIGRATION_KINDS
from tests.simulation.sim_other_copies import COPY_KINDS
from tests.simulation.sim_played import PROCESSES, Played, seeds_in_order
from tests.simulation.sim_rescues import RESCUE_KINDS
from tests.simulation.sim_restart import RESTART_KINDS
from tests.simulation.sim_run import Result, run_seed

ROOT = Path(__file__).parents[2]
SEEDS = int(os.environ.get("PATHWAYS_SIMULATION_SEEDS") or os.environ.get("SIM_SEEDS") or 150)
ORDER = seeds_in_order(SEEDS)
# Rows that need minutes of patience or another machine, or that few of hundreds of seeds take, and the unit tests that take them.
TAKEN_BY_UNIT_TESTS = {
    ("IslandState", "COORDINATING", "WAITING"): (
        "test_a_host_that_goes_while_the_coordination_service_starts_sends_the_island_back_to_waiting"
    ),
    ("BufferState", "RESTORING", "POISONED"): "test_an_array_that_cannot_be_restored_is_lost_and_freed_where_it_came_back",
    ("BufferState", "SPILLING", "POISONED"): "test_what_is_on_its_way_to_a_store_or_back_is_lost_with_the_epoch",
    ("BufferState", "SPILLED", "POISONED"): "test_what_is_spilled_is_lost_with_a_host_that_keeps_a_part",
    ("BufferState", "PRESENT", "PENDING"): "test_what_has_an_equal_shard_on_a_survivor_is_made_again_of_that",
    ("SliceState", "SUSPENDED", "ENDED"): "test_it_can_be_read_released_and_closed_while_it_is_suspended",
    ("ExecutableState", "IDLE", "FAILED"): "test_a_compilation_for_an_island_that_never_comes_back_times_out",
}


@pytest.fixture(scope="module")
def results() -> Iterator[Played[Result]]:
    with Played(run_seed, ORDER) as played:
        yield played


SENTENCES = {
    "order": "every_member_launches_the_same_gangs_in_the_same_order",
    "values": "every_value_is_exact",
    "failures": "every_failure_can_have_happened_to_what_it_is_reported_for",
    "exclusive": "exclusive_devices_are_never_shared_and_shapes_are_kept",
    "acyclic": "nothing_granted_waits_for_what_is_not",
    "accounting": "every_granted_launch_is_made_once",
    "device time": "device_time_is_booked_once_and_skew_to_nobody",
    "quotas": "nothing_goes_beyond_a_quota",
    "memory": "devices_never_hold_more_than_their_memory_and_what_is_used_is_not_spilled",
    "turns": "an_island_and_its_cells_never_compute_at_the_same_time",
    "endings": "epochs_end_only_with_one_of_their_hosts",
    "progress": "everything_accepted_ends",
    "leaks": "nothing_is_left_after_the_last_session",
    "invariants": "the_tables_agree_after_every_step",
    "commands": "hosts_are_told_only_of_what_they_have",
    "images": "executors_are_given_images_of_what_they_are_to_load",
    "holdings": "no_question_for_leaks_finds_any_while_work_is_in_flight",
    "stories": "every_cause_that_a_client_hears_of_has_a_story",
    "links": "frames_arrive_in_order",
    "restarts": "a_controller_that_is_made_again_is_the_one_that_was_killed",
    "stale": "nothing_is_done_about_what_is_over",
    "survivors": "what_survivors_hold_outlives_an_epoch",
    "leases": "nobody_is_given_up_before_or_after_its_time",
    "replay": "a_seed_that_breaks_breaks_again",
}


def test_every_rule_has_a_sentence() -> None:
    assert {*SENTENCES} == {*NAMES, "replay"}


@pytest.mark.parametrize("checker", [pytest.param(name, id=sentence) for name, sentence in SENTENCES.items()])
def test_the_system_holds(results: Played[Result], checker: str) -> None:
    for result in results:
        assert checker not in [name for name, _ in result.violations], result.report()


def test_seeds_are_not_hollow(results: Played[Result], capsys: pytest.CaptureFixture[str]) -> None:
    count = len(ORDER)
    rows: Counter[tuple[str, str, str]] = Counter()
    faults: Counter[str] = Counter()
    looks: Counter[str] = Counter()
    for result in results:
        rows.update(result.rows)
        faults.update(kind for kind, times in result.faults.items() if times)
        looks.update(result.looks)
    events = sum(result.events for result in results) / count
    wanted = [(type(source).__name__, source.name, target.name) for source, targets in TABLE.items() for target in targets]
    missing = [row for row in wanted if not rows[row] and row not in TAKEN_BY_UNIT_TESTS]
    with capsys.disabled():
        values, runs = sum(result.values for result in results) / count, sum(result.runs for result in results) / count
        ticks = sum(result.ticks for result in results) / count
        print(
            f"\n  {count} seeds: {events:.0f} events (and {ticks:.0f} ticks), {values:.0f} exact values, {runs:.0f} runs a seed"
        )
        compiled, reused, pulled = (sum(result.images[index] for result in results) for index in range(3))
        print(f"  executables: {compiled} compiled, {reused} reused, {pulled} images pulled")
        fused = [result.fused for result in results]
        split = sum(result.split for result in results)
        moved = [sum(result.spilled[index] for result in results) for index in range(3)]
        print(f"  arrays spilled {moved[0]}, restored {moved[1]}, in {sum(result.spilled[0] > 0 for result in results)} seeds")
        print(f"  work that failed because memory was stuck: {moved[2]}")
        kept = {kind: sum(result.rescues[kind] for result in results) for kind in RESCUE_KINDS}
        print(f"  parts that outlive an epoch: {kept}")
        answers, compared = (sum(result.inspected[index] for result in results) for index in range(2))
        print(f"  questions for leaks answered in full: {answers}, objects compared: {compared}")
        print(f"  fused launches: {sum(fused)}, in {sum(map(bool, fused))} seeds; ranges split again: {split}")
        waited = Counter(kind for result in results for kind in result.waited)
        print(f"  seeds in which quotas were waited for: {dict(waited)}; refusals: {sum(result.refused for result in results)}")
        print(f"  transition rows taken: {len(wanted) - len(missing)} of {len(wanted)}; missing: {missing or 'none'}")
        print("  seeds per fault kind: " + ", ".join(f"{kind} {faults[kind]}" for kind in FAULT_KINDS))
        print("  seeds per kind of absence: " + ", ".join(f"{kind} {faults[kind]}" for kind in (*ABSENCE_KINDS, *RESTART_KINDS)))
        print("  seeds with " + ", ".join(f"{kind} {faults[kind]}" for kind in COPY_KINDS))
        print("  seeds per kind of move: " + ", ".join(f"{kind} {faults[kind]}" for kind in MIGRATION_KINDS))
        print("  rules, times applied: " + ", ".join(f"{name} {looks[name]}" for name in NAMES))
        print(f"  epochs that ended when others had: {looks[IN_TIME]} of {looks[WAITED]} that waited for them")
    assert events >= 500
    assert sum(result.runs for result in results) >= 10 * count
    assert min(compiled, reused) >= count
    assert count < 100 or sum(result.accounted for result in results) >= count // 20, "the books of hardly any seed are checked"
    assert answers >= 10 * count
    assert compared >= 100 * count
    if count >= 100:
        assert pulled * 4 >= count
        assert min(moved[:2]) >= count, "hardly anything is spilled and restored"
        assert looks[IN_TIME] * 75 >= count, "hardly any epoch lets others end what they run"
        assert moved[2] * 4 >= count, "hardly anything waits for memory in vain"
        assert kept["kept"] * 10 >= count, "hardly anything outlives an epoch"
        assert not missing, f"no seed takes {missing}"
        assert split >= count // 4, "hardly anything that could be fused is split again"
        hollow = [name for name in NAMES if looks[name] * 5 < count]  # few hear anything of what is over
        assert not hollow, f"{hollow} hardly look at anything"
    if count >= 1000:  # what few seeds meet is a matter of luck
        assert sum(fused) * 2 >= count, "hardly anything is fused"
        assert all(waited[kind] * 6 >= count for kind in ("programs", "memory")), f"quotas are hardly met: {waited}"
    if count >= 200:  # of few seeds a sixth is a matter of luck
        spilling = sum(result.spilled[0] > 0 for result in results)  # nothing else can refuse to spill
        # A third of the seeds have cells or absences of their own, and less of the rest.
        rare = [kind for kind in FAULT_KINDS if faults[kind] * 6 < (spilling if kind == "refused spill" else count)]
        rare += [kind for kind in (*ABSENCE_KINDS, *RESTART_KINDS) if faults[kind] * 30 < count]
        rare += [kind for kind in MIGRATION_KINDS if faults[kind] * 60 < count]
        rare += [kind for kind in COPY_KINDS if faults[kind] * 200 < count]
        assert not rare, f"fewer than a sixth of the seeds have {rare}"


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
