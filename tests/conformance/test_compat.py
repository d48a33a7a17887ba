"""What a version of jaxlib can and cannot do is judged by name and words; nothing unexpected passes."""

from __future__ import annotations

import pytest
from pathways_common.model.jaxlibs import CLIENT_JAXLIBS, unserved_client

from tests.conformance import compat
from tests.conformance.compat_verdicts import EXPECTED, left_out, refused_row, served_row, table
from tests.conformance.run import FEATURES

SENTENCE = unserved_client("0.7.2")


def test_a_failure_is_expected_by_name_and_words_only() -> None:
    known = {"colocated": "needs the jaxlib of the hosts"}
    row = served_row("0.8.3", {"jit": "", "colocated": "Error\ncolocated Python needs the jaxlib of the hosts at"}, known)
    assert (row.passed, row.expected, row.problems) == (1, 1, ())
    assert served_row("0.8.3", {"jit": "trace\nKeyError: 3", "colocated": known["colocated"]}, known).problems == (
        "jit failed: KeyError: 3",
    )
    assert served_row("0.8.3", {"colocated": "KeyError: 3"}, known).problems == ("colocated failed: KeyError: 3",)
    assert served_row("0.8.3", {"colocated": ""}, known).problems == ("colocated passes now and is expected to fail",)
    assert served_row("0.8.3", {"jit": ""}, known).problems == ("colocated is expected to fail and was not tried",)
    assert served_row("0.8.3", {}, {}).problems == ("no script was tried",)


def test_a_refusal_is_one_sentence_and_nothing_else() -> None:
    assert refused_row("0.7.2", 1, "", f"pathways: {SENTENCE}\n").problems == ()
    assert refused_row("0.7.2", 1, "", f"pathways: {SENTENCE}\n").refused == SENTENCE
    for code, out, err in (
        (0, "", f"pathways: {SENTENCE}\n"),
        (1, "2\n", f"pathways: {SENTENCE}\n"),
        (1, "", f"Traceback\npathways: {SENTENCE}\n"),
        (1, "", "RuntimeError: something else\n"),
        (-6, "", ""),
    ):
        assert len(refused_row("0.7.2", code, out, err).problems) == 1, (code, out, err)
    assert refused_row("0.8.3", 1, "", "pathways: \n").problems, "a version that is served"


def test_the_table_has_a_line_for_each_version() -> None:
    rows = [refused_row("0.7.2", 1, "", f"pathways: {SENTENCE}\n"), served_row("0.9.2", {"jit": ""}, {})]
    assert [line.split()[:4] for line in table(rows).splitlines()] == [
        ["jaxlib", "passed", "expected", "to"],
        ["0.7.2", "0", "0", "0"],
        ["0.9.2", "1", "0", "0"],
    ]


def test_expectations_are_of_versions_and_scripts_that_there_are() -> None:
    names = {path.stem for path in FEATURES.glob("*.py")}
    assert set(EXPECTED) <= set(CLIENT_JAXLIBS)
    assert set().union(*EXPECTED.values()) | left_out() <= names
    assert all(words for known in EXPECTED.values() for words in known.values())


@pytest.mark.parametrize("version", [*compat.REFUSED, *CLIENT_JAXLIBS])
def test_an_environment_has_the_jax_of_its_version_and_no_other_pin_of_it(version: str) -> None:
    wanted = [each for each in compat.requirements(version) if each.startswith("jax")]
    assert wanted == [f"jax=={version}.*", f"jaxlib=={version}.*"]
    assert any(each.startswith("grpcio>=") for each in compat.requirements(version))
    assert not [line for line in compat.pins().splitlines() if line.startswith(("jax=", "jaxlib="))]
