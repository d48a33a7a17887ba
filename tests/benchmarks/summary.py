"""The first page of the results: every claim with its verdict, whatever run it comes from, and the plots that span sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.benchmarks.claims import number
from tests.benchmarks.report import Plot, Series, Table, from_json, table_lines
from tests.benchmarks.sides import ROLES
from tests.benchmarks.statistics_of_pairs import interval_of

HEAD = """# Benchmarks

Written by `make bench`; run it again rather than editing. [What was not reached, and why](../benchmarks.md).
"""
NO_RAY = "Ray was not measured in this run; `python tests/benchmarks/run.py --ray` does."


# Whose rates stand for JAX: what runs beside OpByOp, and beside Fused.
_JAX = {"JAX async": "OpByOp", "JAX fused": "Fused"}


def plots(results: Mapping[str, Mapping[str, Any]]) -> list[Plot]:
    """Gang steps by number of hosts, as in Fig. 5 of the paper, once there is more than one number."""
    measured = {kept["data"]["hosts"]: kept["data"]["rows"] for name, kept in results.items() if name.startswith("gangs_")}
    if len(measured) < 2:
        return []
    series = []
    rows = dict.fromkeys(row for each in measured.values() for row in each)
    for name, row, side in [*((row, row, "ours") for row in rows), *((name, row, "theirs") for name, row in _JAX.items())]:
        points = []
        for hosts in sorted(measured):
            if row in measured[hosts]:
                rate = interval_of(measured[hosts][row][side])
                points.append((float(hosts), rate.median, rate.low, rate.high))
        series.append(Series(name, points))
    return [Plot("gangs", "Gang steps by number of hosts", "hosts", "steps/s", series, log_y=True)]


def commit_in(facts: Sequence[str]) -> str:
    return next((fact.partition(": ")[2] for fact in facts if fact.startswith("commit: ")), "")


def profile_table(results: Mapping[str, Mapping[str, Any]]) -> Table:
    """Where the time went at the first commit that was measured, and goes at the last."""
    rows = []
    for name, kept in results.items():
        for row in kept["profiles"][-1]["cpu_us"] if kept["profiles"] else ():
            for profile in kept["profiles"]:
                cpu_us = profile["cpu_us"].get(row)
                if cpu_us:
                    figures = [number(cpu_us.get(role, 0.0)) for role in ROLES]
                    rows.append((f"[{row}]({name}.md)", profile["commit"], *figures, number(sum(cpu_us.values()))))
    note = "Where the time goes: microseconds of CPU per step, at the first commit that was measured and at the last."
    return Table(("", "commit", *ROLES, "all"), rows, note)


def summary(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The page, from the whole result file."""
    rows = []
    for name, kept in results.items():
        commit = commit_in(kept["facts"])
        for claim in from_json(kept).claims:
            rows.append((f"[{claim.what}]({name}.md)", claim.wanted, claim.measured, claim.verdict, commit))
    head = ("claim", "wanted", "median (95 % interval)", "verdict", "commit")
    parts = [HEAD.rstrip(), "\n".join(table_lines(Table(head, rows)))]
    parts += [f"![{plot.title}]({plot.file}.png)" for plot in plots(results)]
    parts.append("\n".join(table_lines(profile_table(results))))
    if "ray" not in results:
        parts.append(NO_RAY)
    facts = [fact for kept in results.values() for fact in kept["facts"] if fact.startswith(("machine", "versions", "**"))]
    parts.append("\n".join(f"- {fact}" for fact in dict.fromkeys(facts)))
    return "\n\n".join(parts) + "\n"
