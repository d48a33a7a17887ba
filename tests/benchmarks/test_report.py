"""What is measured reaches the page: claims first, with their verdicts, then tables and plots."""

from __future__ import annotations

import json

from tests.benchmarks.claims import ratio_claim
from tests.benchmarks.report import Plot, Section, Series, Table, as_json, from_json, markdown


def section() -> Section:
    return Section(
        name="chained",
        title="Chained programs",
        text="What was measured.",
        claims=[ratio_claim("chained, 2 hosts", [90.0] * 15, [100.0] * 15, bar=0.8, aim=1.0)],
        tables=[Table(("role", "us"), [("client", "3")], note="CPU per step.")],
        plots=[Plot("chained", "Rates", "hosts", "steps/s", [Series("ours", [(2.0, 90.0, 80.0, 95.0)])])],
        misses=["the aim: the daemon relays every frame"],
    )


def test_page_holds_claims_tables_plots_and_misses() -> None:
    assert markdown(section(), ["machine: m"]) == (
        "# Chained programs\n\n- machine: m\n\nWhat was measured.\n\n"
        "| claim | wanted | median (95 % interval) | verdict |\n|---|---|---|---|\n"
        "| chained, 2 hosts | at least 0.80; aim 1.00 | 0.90 (0.90 to 0.90, 15 samples) | met |\n\n"
        "CPU per step.\n\n| role | us |\n|---|---|\n| client | 3 |\n\n"
        "![Rates](chained.png)\n\n"
        "Not reached, and why:\n\n- the aim: the daemon relays every frame\n"
    )


def test_result_file_holds_figures_and_verdicts() -> None:
    kept = json.loads(json.dumps(as_json(section())))
    assert markdown(from_json(kept), []) == markdown(section(), [])
    assert kept["claims"][0]["verdict"] == "met"
    assert kept["claims"][0]["figure"] == {"median": 0.9, "low": 0.9, "high": 0.9, "samples": 15}
