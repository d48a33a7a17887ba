"""A pytest plugin for the process that runs one file of tests: what became of each test, as lines of JSON, as it happens.

A process that crashes or is ended leaves a test that was started and has no outcome; the next process leaves out what is in the
file already. Loaded by name (`-p suite_plugin`), so it imports nothing of ours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

LOG_VARIABLE = "SUITE_LOG"
EVERY_VARIABLE = "SUITE_EVERY"
PASSED_VARIABLE = "SUITE_PASSED"
_TEXT_CHARACTERS_MAX = 4000


def _say(**line: Any) -> None:
    with open(os.environ[LOG_VARIABLE], "a") as log:
        log.write(json.dumps(line) + "\n")


def _tests(log: str, *outcomes: str) -> set[str]:
    """Those that a log names, with one of these outcomes if any are given."""
    try:
        with open(log) as lines:
            return {
                line["test"]
                for line in map(json.loads, lines)
                if "test" in line and line["outcome"] in (outcomes or (line["outcome"],))
            }
    except FileNotFoundError:
        return set()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what earlier processes got to, what passed elsewhere, and all but every n-th test where a part is wanted."""
    out = _tests(os.environ[LOG_VARIABLE]) | _tests(os.environ.get(PASSED_VARIABLE, ""), "passed")
    wanted = items[:: int(os.environ.get(EVERY_VARIABLE, "1"))]
    left = [item for item in wanted if item.nodeid not in out]
    kept = set(left)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    _say(collected=len(left), of=len(items))
    items[:] = left


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Says that a test begins."""
    _say(test=item.nodeid, outcome="started")
    return (yield)  # type: ignore[no-any-return]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Says how a test ended: by its call, unless it never came to that or fell in its teardown."""
    if report.when == "call" or report.outcome != "passed":
        text = "" if report.passed else str(report.longrepr)[-_TEXT_CHARACTERS_MAX:]
        _say(test=report.nodeid, outcome=report.outcome, seconds=round(report.duration, 3), text=text)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """A file that cannot be imported."""
    if report.failed:
        _say(unreadable=report.nodeid, text=str(report.longrepr)[-_TEXT_CHARACTERS_MAX:])
