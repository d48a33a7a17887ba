"""What a benchmark gives: a section of the report, as data. Markdown and plots are made of it, and of nothing else.

A benchmark is a module with `run(quick: bool) -> Section`, named in `SECTIONS` of run.py. It prints nothing on standard output;
`quick` asks for a few samples instead of enough for a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from tests.benchmarks.claims import Claim
from tests.benchmarks.statistics_of_pairs import Interval


@dataclass(frozen=True)
class Table:
    """Cells are text already. `note` stands above it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Series:
    """One line of a plot: points (x, median, low, high); low and high bound the interval and may equal the median."""

    name: str
    points: Sequence[tuple[float, float, float, float]]


@dataclass(frozen=True)
class Plot:
    """Becomes `<file>.png` beside the section's page.

    With `categories`, x counts them from 0 and the series are groups of bars, or with `stacked` parts of one bar. With `spans`
    they are rows, and a point (row, begin, end, 0) is a box in its row.
    """

    file: str
    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    log_x: bool = False
    log_y: bool = False
    categories: Sequence[str] = ()
    stacked: bool = False
    bars: Sequence[tuple[str, float]] = ()  # horizontal lines: what must hold
    spans: bool = False


@dataclass(frozen=True)
class Section:
    """One page: `<name>.md`, with its claims first. `data` is kept in the result file for whoever computes further: JSON only.

    `text` says in a few sentences what was measured and how; `misses` says for what was not reached why, as far as known.
    """

    name: str
    title: str
    text: str
    claims: Sequence[Claim] = ()
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    misses: Sequence[str] = ()
    data: dict[str, Any] = field(default_factory=dict)


def as_json(section: Section) -> dict[str, Any]:
    """The section for the result file; each claim with its verdict."""
    verdicts = [asdict(claim) | {"verdict": claim.verdict} for claim in section.claims]
    return asdict(section) | {"claims": verdicts}


def from_json(kept: Mapping[str, Any]) -> Section:
    """The section as it was before `as_json`; verdicts are worked out again."""
    claims = [
        Claim(**{**{key: value for key, value in claim.items() if key != "verdict"}, "figure": Interval(**claim["figure"])})
        for claim in kept["claims"]
    ]
    tables = [Table(**table) for table in kept["tables"]]
    plots = [
        Plot(**{**plot, "series": [Series(each["name"], [tuple(point) for point in each["points"]]) for each in plot["series"]]})
        for plot in kept["plots"]
    ]
    names = {each.name for each in fields(Section)}
    plain = {key: value for key, value in kept.items() if key in names}
    return Section(**{**plain, "claims": claims, "tables": tables, "plots": plots})


def claim_lines(claims: Sequence[Claim]) -> list[str]:
    rows = [(claim.what, claim.wanted, claim.measured, claim.verdict) for claim in claims]
    return table_lines(Table(("claim", "wanted", "median (95 % interval)", "verdict"), rows))


def table_lines(table: Table) -> list[str]:
    lines = [table.note, ""] if table.note else []
    lines += ["| " + " | ".join(table.head) + " |", "|---" * len(table.head) + "|"]
    return lines + ["| " + " | ".join(row) + " |" for row in table.rows]


def markdown(section: Section, facts: Sequence[str]) -> str:
    """The section's page. `facts` are lines about machine, versions and commit."""
    facts_lines = [f"- {fact}" for fact in facts]
    parts = [[f"# {section.title}"], *([facts_lines] if facts else []), [section.text]]
    if section.claims:
        parts.append(claim_lines(section.claims))
    parts += [table_lines(table) for table in section.tables]
    parts += [[f"![{plot.title}]({plot.file}.png)"] for plot in section.plots]
    if section.misses:
        parts.append(["Not reached, and why:", "", *(f"- {miss}" for miss in section.misses)])
    return "\n\n".join("\n".join(part) for part in parts) + "\n"
