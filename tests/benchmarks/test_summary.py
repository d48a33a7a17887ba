"""The first page shows the claims of every section, each with the commit it was measured at."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks import run
from tests.benchmarks.claims import ratio_claim
from tests.benchmarks.report import Section
from tests.benchmarks.summary import NO_RAY, plots, summary


def section(name: str, ours: float) -> Section:
    return Section(name, name.title(), "Text.", [ratio_claim(f"{name} ratio", [ours] * 15, [1.0] * 15, 0.5)])


def test_sections_measured_at_different_commits_share_the_page(tmp_path: Path) -> None:
    run.keep(section("calls", 0.4), ["machine: m", "commit: abc"], tmp_path)
    run.keep(section("gangs", 0.6), ["machine: m", "commit: def"], tmp_path)
    text = summary(run.read_results(tmp_path))
    assert "| [calls ratio](calls.md) | at least 0.50 | 0.40 (0.40 to 0.40, 15 samples) | NOT met | abc |" in text
    assert "| [gangs ratio](gangs.md) | at least 0.50 | 0.60 (0.60 to 0.60, 15 samples) | met | def |" in text
    assert text.count("- machine: m") == 1
    assert NO_RAY in text


def test_section_measured_again_replaces_its_old_figures(tmp_path: Path) -> None:
    for ours in (0.4, 0.7):
        run.keep(section("calls", ours), ["commit: abc"], tmp_path)
    text = summary(run.read_results(tmp_path))
    assert "0.70" in text
    assert "0.40" not in text


@pytest.mark.parametrize("name", [name for name in run.SECTIONS if name != "fanout"])
def test_every_section_of_the_registry_can_be_called(name: str) -> None:
    assert callable(run.runner(name))


def test_profiles_of_the_first_and_the_last_commit_stand_together(tmp_path: Path) -> None:
    for commit, client_us in (("first", 30.0), ("middle", 20.0), ("third", 10.0)):
        measured = Section("calls", "Calls", "Text.", data={"cpu_us": {"call chained": {"client": client_us, "door": 5.0}}})
        run.keep(measured, [f"commit: {commit}"], tmp_path)
    text = summary(run.read_results(tmp_path))
    assert "| [call chained](calls.md) | first | 30.0 | 5.00 | 0.00 | 0.00 | 0.00 | 0.00 | 35.0 |" in text
    assert "| [call chained](calls.md) | third | 10.0 | 5.00 |" in text
    assert "middle" not in text


def test_gang_steps_of_several_numbers_of_hosts_are_drawn_together() -> None:
    rows = {"OpByOp": {"ours": [10.0], "theirs": [40.0]}, "Fused": {"ours": [90.0], "theirs": [100.0]}}
    kept = {f"gangs_{hosts}_hosts": {"data": {"hosts": hosts, "rows": rows}} for hosts in (4, 2)}
    assert plots({"gangs_2_hosts": kept["gangs_2_hosts"]}) == []
    (plot,) = plots(kept)
    assert [series.name for series in plot.series] == ["OpByOp", "Fused", "JAX async", "JAX fused"]
    assert plot.series[2].points == [(2.0, 40.0, 40.0, 40.0), (4.0, 40.0, 40.0, 40.0)]
