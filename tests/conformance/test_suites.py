"""The runner of JAX's tests, with a few small files in place of JAX's: what is counted, and that nothing is lost on the way."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import jax
import pytest

from tests.cluster import plain_environment
from tests.conformance import jax_suite, library_suites, suites
from tests.conformance.suite_verdicts import (
    Expectation,
    Outcome,
    forget,
    is_finished,
    read_expectations,
    read_outcomes,
    table,
    tally,
)

PASSED, FAILED, SKIPPED, CRASHED = (Outcome(each) for each in ("passed", "failed", "skipped", "crashed"))

TESTS = """
import os, signal, time
import pytest

def test_passes(): pass
def test_fails(): assert 1 == 2, "told"
@pytest.mark.skip
def test_is_skipped(): pass
def test_kills_its_process(): os.kill(os.getpid(), signal.SIGKILL)
def test_hangs(): time.sleep(600)
@pytest.fixture
def broken():
    yield
    raise ValueError("late")
def test_falls_in_its_teardown(broken): pass
def test_comes_last(): pass
"""


@pytest.mark.slow
def test_every_test_is_accounted_for_whatever_the_process_does(tmp_path: Path) -> None:
    file, log = tmp_path / "some_test.py", tmp_path / "some_test.jsonl"
    file.write_text(TESTS)
    words = [sys.executable, *suites.command(file)]
    suites.watch(words, plain_environment() | suites.environment(log), log, silent_s=5.0)
    outcomes = {test.partition("::")[2]: outcome for test, outcome in read_outcomes(log).items()}
    assert {name: each.outcome for name, each in outcomes.items()} == {
        "test_passes": "passed",
        "test_fails": "failed",
        "test_is_skipped": "skipped",
        "test_kills_its_process": "crashed",
        "test_hangs": "crashed",
        "test_falls_in_its_teardown": "failed",
        "test_comes_last": "passed",
    }
    assert "told" in outcomes["test_fails"].text
    assert "late" in outcomes["test_falls_in_its_teardown"].text


def test_only_every_nth_test_is_run_where_a_part_is_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "some_test.py"
    file.write_text("".join(f"def test_{number}(): pass\n" for number in range(7)))
    for every, expected in ((1, range(7)), (3, (0, 3, 6))):
        log = tmp_path / f"some_test{suites.part_of(every)}.jsonl"
        suites.watch([sys.executable, *suites.command(file)], plain_environment() | suites.environment(log, every), log)
        assert read_outcomes(log) == {f"some_test.py::test_{number}": PASSED for number in expected}


def test_a_file_that_cannot_be_read_has_failed(tmp_path: Path) -> None:
    file, log = tmp_path / "some_test.py", tmp_path / "some_test.jsonl"
    file.write_text("import no_such_module\n")
    suites.watch([sys.executable, *suites.command(file)], plain_environment() | suites.environment(log), log)
    [(name, outcome)] = read_outcomes(log).items()
    assert (name, outcome.outcome) == ("some_test.py", "failed")
    assert "no_such_module" in outcome.text


def test_a_run_that_was_stopped_is_continued_at_the_same_test(tmp_path: Path) -> None:
    log = tmp_path / "some_test.jsonl"
    lines = [{"test": "a", "outcome": "started"}, {"test": "a", "outcome": "passed"}, {"test": "b", "outcome": "started"}]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_outcomes(log) == {"a": PASSED, "b": CRASHED}
    suites._forget_started(log)
    assert read_outcomes(log) == {"a": PASSED}
    suites._forget_started(log)
    assert read_outcomes(log) == {"a": PASSED}


def test_a_run_whose_time_is_over_stops_and_goes_on_at_the_same_test(tmp_path: Path) -> None:
    file, log, waits = tmp_path / "some_test.py", tmp_path / "some_test.jsonl", tmp_path / "waits"
    text = "import pathlib, time\ndef test_1(): pass\ndef test_2():\n  while pathlib.Path({!r}).exists(): time.sleep(0.1)\n"
    file.write_text(text.format(str(waits)))
    waits.touch()
    words, environment = [sys.executable, *suites.command(file)], plain_environment() | suites.environment(log)
    while "some_test.py::test_1" not in read_outcomes(log):
        with pytest.raises(suites.OutOfTime):
            suites.watch(words, environment, log, until_s=time.monotonic() + 5.0)
    assert read_outcomes(log) == {"some_test.py::test_1": PASSED}
    assert not is_finished(log)
    waits.unlink()
    suites.watch(words, environment, log)
    assert read_outcomes(log) == {f"some_test.py::test_{number}": PASSED for number in (1, 2)}
    assert is_finished(log)


def test_a_file_that_is_through_is_not_read_again_unless_some_of_it_is_forgotten(tmp_path: Path) -> None:
    file, log = tmp_path / "some_test.py", tmp_path / "some_test.jsonl"
    file.write_text("def test_1(): assert False\ndef test_2(): pass\n")
    words, environment = [sys.executable, *suites.command(file)], plain_environment() | suites.environment(log)
    suites.watch(words, environment, log)
    file.write_text("def test_1(): pass\ndef test_2(): assert False\n")
    suites.watch(words, environment, log)
    assert {test[-1]: each.outcome for test, each in read_outcomes(log).items()} == {"1": "failed", "2": "passed"}
    forget(log, ["some_test.py::test_1"])
    suites.watch(words, environment, log)
    assert {test[-1]: each.outcome for test, each in read_outcomes(log).items()} == {"1": "passed", "2": "passed"}


def test_what_passed_elsewhere_is_left_out(tmp_path: Path) -> None:
    file, log, other = (tmp_path / name for name in ("some_test.py", "some_test.jsonl", "other.jsonl"))
    file.write_text("".join(f"def test_{number}(): pass\n" for number in range(3)))
    lines = [{"test": f"some_test.py::test_{n}", "outcome": word} for n, word in enumerate(("passed", "failed", "started"))]
    other.write_text("".join(json.dumps(line) + "\n" for line in lines))
    suites.watch([sys.executable, *suites.command(file)], plain_environment() | suites.environment(log, 1, other), log)
    assert read_outcomes(log) == {f"some_test.py::test_{number}": PASSED for number in (1, 2)}


def test_what_passes_on_the_cluster_needs_no_word_of_plain_jax() -> None:
    here = {"good": PASSED, "out": SKIPPED, "bad": FAILED, "known": FAILED, "both": FAILED}
    found = tally({"bad": PASSED, "both": FAILED}, here, [Expectation("known", "jaxlib", "cannot")])
    assert (found.local, found.passed, found.skipped, found.expected, found.failed) == (3, 1, 1, 1, ["bad"])


def test_only_what_passes_locally_is_asked_for() -> None:
    local = dict.fromkeys(("same", "known", "new", "gone", "dead", "better", "no device"), PASSED) | {
        "red": FAILED,
        "out": SKIPPED,
    }
    here = {
        "same": PASSED, "known": FAILED, "new": FAILED, "dead": CRASHED, "better": PASSED, "no device": SKIPPED, "red": FAILED,
        "out": SKIPPED,
    }  # fmt: skip
    expectations = [Expectation("kno*", "jaxlib", "cannot"), Expectation("better", "pathways", "later")]
    found = tally(local, here, expectations)
    assert (found.local, found.passed, found.skipped, found.expected, found.ours) == (6, 2, 2, 1, 0)
    assert (found.failed, found.crashed, found.mended) == (["new", "gone"], ["dead"], ["better"])
    assert found.percent == pytest.approx(100 * 2 / 6)
    assert table({"x_test": found}).splitlines()[1].split() == ["x_test", "2", "6", "33.3", "2", "1", "0", "2", "1"]


def test_an_expectation_may_name_several_tests(tmp_path: Path) -> None:
    path = tmp_path / "expected.toml"
    path.write_text('[[expected]]\ntests = ["a", "b*"]\nby = "pathways"\nreason = "not yet"\n')
    assert read_expectations(path) == [Expectation("a", "pathways", "not yet"), Expectation("b*", "pathways", "not yet")]


def test_every_expectation_of_ours_says_who_refuses_and_why() -> None:
    for each in read_expectations(suites.EXPECTATIONS):
        assert "_test.py::" in each.tests
        assert each.by
        assert len(each.reason.split()) > 3


@pytest.mark.parametrize("what", ["no checkout", "another version"])
def test_a_checkout_that_is_not_of_the_installed_version_is_refused(tmp_path: Path, what: str) -> None:
    if what == "another version":
        (tmp_path / "jax").mkdir()
        (tmp_path / "tests").mkdir()
        (tmp_path / "jax" / "version.py").write_text('_version = "0.1.2"\n')
    sentence = "is no checkout of JAX" if what == "no checkout" else rf"is JAX 0.1.2 and {jax.__version__} is installed"
    with pytest.raises(SystemExit, match=sentence):
        jax_suite.tests_of(tmp_path)


def test_the_tests_of_a_library_are_those_in_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("__init__.py", "_src/some_test.py", "test_other.py", "tests.py"):
        (tmp_path / "a_library" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a_library" / name).touch()
    (tmp_path / "without_tests").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    found = library_suites.files_of("a_library")
    folder = tmp_path / "a_library"
    assert found == {"a_library._src.some_test": folder / "_src/some_test.py", "a_library.test_other": folder / "test_other.py"}
    with pytest.raises(SystemExit, match="the package of without_tests has no tests in it"):
        library_suites.files_of("without_tests")
    with pytest.raises(SystemExit, match="no_such_library is not installed"):
        library_suites.files_of("no_such_library")
