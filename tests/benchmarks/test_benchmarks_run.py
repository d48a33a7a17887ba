"""The benchmarks run: tiny sizes on real clusters, so that none of them rots. What they measure here says nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pathways.testing import cluster

from tests.benchmarks import bulk, calls, emulation, faults, gangs, journal, pauses, pipeline, run, shares, smallest, tenancy
from tests.benchmarks.faulty import Held, faulty, kill
from tests.benchmarks.report import Section
from tests.tools import needs

pytestmark = [pytest.mark.slow, pytest.mark.cluster]


@pytest.fixture(autouse=True)
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides load the emulator of device time. Nobody waits for a machine that is idle, or takes a pair again for that."""
    needs("emulated device time", "g++")
    for each in (calls, gangs, journal, pipeline, smallest):
        monkeypatch.setattr(each, "BUDGET_S_PER_PAIR", 0.0)
    monkeypatch.setattr(gangs, "PLACED_BUDGET_S", 0.0)


def page(section: Section, folder: Path) -> str:
    """The section's page; every plot that it names is there."""
    run.keep(section, ["commit: none"], folder)
    text = (folder / f"{section.name}.md").read_text()
    for plot in section.plots:
        assert (folder / f"{plot.file}.png").stat().st_size > 5000
        assert f"({plot.file}.png)" in text
    return text


def test_gang_steps_are_measured_on_both_sides_and_kept(tmp_path: Path) -> None:
    section = gangs.run_on(2, pairs=2, divide_by=8)
    text = page(section, tmp_path)
    assert "| OpByOp, 2 hosts: ratio to JAX async | at least 0.25; aim 0.40 |" in text
    assert {claim.verdict for claim in section.claims if claim.bar} == {"undecided"}  # two pairs decide nothing
    assert "| threads placed: Chained, 2 hosts: ratio to JAX async, threads placed |  |" in text
    kept = json.loads((tmp_path / run.RESULTS).read_text())[section.name]["data"]["rows"]
    assert [len(kept[row][side]) for row in kept for side in ("ours", "theirs")] == [2] * 2 * len(kept)


def test_calls_are_measured_with_and_without_a_door(tmp_path: Path) -> None:
    text = page(calls.run_pairs(2, divide_by=10), tmp_path)
    assert "| a call awaited, p50 | at most 1.00 ms |" in text
    assert "| chained, without |" in text


def test_bulk_data_is_moved_in_every_way_and_compared(tmp_path: Path) -> None:
    section = bulk.run_sizes((4 << 20,), samples=1)
    text = page(section, tmp_path)
    assert "| put, sharded, 4 MiB | at least 1.50 GiB/s |" in text
    assert "| move, one, 4 MiB | at least 3.00 GiB/s |" in text
    assert "| during a put, one, 4 MiB, the controller grew by | at most 64.0 MiB |" in text
    assert len(section.tables[0].rows) == len(bulk.OURS) + len(bulk.LOCAL) + len(bulk.STREAMS)


def test_smallest_computation_is_found_with_emulated_device_time(tmp_path: Path) -> None:
    section = smallest.run_on(2, pairs=2, durations_us=(200, 3000), sample_s=0.02)
    page(section, tmp_path)
    for claim in section.claims:
        assert 0.2 <= claim.figure.median < 10
    # A step is busy for at least as long as it was asked to be: the emulator ran, on both sides.
    assert all(float(row[2].replace(",", "")) >= float(row[1]) for row in section.tables[0].rows)


def test_emulated_device_time_lasts_as_long_as_asked(tmp_path: Path) -> None:
    section = emulation.run_rounds(2, (500,), steps=10)
    page(section, tmp_path)
    ((_, busy, *_),) = section.tables[0].rows
    assert float(busy.replace(",", "")) >= 500


def test_pipelines_are_dispatched_in_both_ways(tmp_path: Path) -> None:
    section = pipeline.run_pairs(2, stages_max=2, calls=8)
    page(section, tmp_path)
    latencies_us = {(row[0], row[1]): float(row[4].replace(",", "")) for row in section.tables[0].rows}
    # The emulated link takes a millisecond for what goes from one stage to the next.
    assert latencies_us["1 Gbit/s, 1 ms", "2"] > 1000


def test_shares_are_measured_and_drawn(tmp_path: Path) -> None:
    section = shares.measured(1, 2.0)
    text = page(section, tmp_path)
    assert "| shares 1:2:4:8: the furthest from its share | at most 5.00 % |" in text
    assert {claim.verdict for claim in section.claims} <= {"undecided", "NOT met"}  # one sample decides nothing good
    for taken in section.data.values():
        assert sum(taken[0]) == pytest.approx(1)


def test_utilisation_is_measured_by_number_of_clients(tmp_path: Path) -> None:
    section = tenancy.measured(1, 0.6, clients=(1, 2), kinds=tuple(tenancy.KINDS))
    text = page(section, tmp_path)
    assert "| traced programs | 2 |" in text
    for (busy, worked), *_ in section.data.values():
        assert 0 < worked <= busy <= 100


def test_faults_are_seen_by_name_and_what_was_held_is_told(tmp_path: Path) -> None:
    with faulty() as ours:
        seen = [ours.sample(kill, Held(1 << 20, 1 << 20, 2))]
    assert seen[0].right, seen[0].message
    assert 0 < seen[0].detected_s < seen[0].again_s < seen[0].all_again_s
    jax = [{"detected_s": 0.5, "again_s": 3.0, "error": "connection 17 closed", "victim": "1"}]
    text = page(faults.section({name: seen for name, *_ in faults.FAULTS}, {"kill": jax}), tmp_path)
    assert "| executor killed (SIGKILL): seen after | at most 0.20 s |" in text
    assert "| plain JAX: process killed (SIGKILL) | 1 | 0.50 (0.50 to 0.50) | 3.00 (3.00 to 3.00) | 0 of 1 |" in text
    held = faults.reform_section({held: seen for held, _ in faults.HELD})
    assert [claim.figure.median for claim in held.claims] == [0.0] * 4


def test_pauses_are_those_of_a_client_that_awaits_its_gangs(tmp_path: Path) -> None:
    with cluster() as running, pauses.awaiting(running) as client:
        seconds = pauses.paused(running, client, pauses.stop_controller)
    assert seconds >= pauses.HELD_S, "a call waits for as long as the controller stands still"
    text = page(pauses.section({"controller stopped": [seconds, seconds]}), tmp_path)
    assert f"| controller stopped | 2 | {seconds:.3f} | {seconds:.3f} to {seconds:.3f} |" in text


def test_the_journal_is_measured_against_one_in_memory(tmp_path: Path) -> None:
    section = journal.run_pairs(2, divide_by=20)
    text = page(section, tmp_path)
    assert "| calls a second with the journal, over those without | at least 0.95 |" in text
    assert all(claim.figure.median > 0 for claim in section.claims)
