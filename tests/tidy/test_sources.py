"""The house rules hold in every file that people write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.tidy import rules
from tests.tidy.tree import PLAIN_SCRIPTS, PRODUCT, files

Rule = Callable[[str, str], list[str]]


def breaches(rule: Rule, suffixes: tuple[str, ...], only: tuple[str, ...] = (), without: tuple[str, ...] = ()) -> list[str]:
    found = []
    for path, text in files(*suffixes):
        if (not only or path.startswith(only)) and not (without and path.startswith(without)):
            found += rule(path, text)
    return found


@pytest.mark.parametrize("rule", [rules.function_length, rules.module_name, rules.module_docstring], ids=lambda r: r.__name__)
def test_every_python_file_keeps(rule: Rule) -> None:
    assert breaches(rule, (".py",)) == []


def test_every_source_file_is_short() -> None:
    assert breaches(rules.file_length, (".py", ".proto")) == []


def test_product_and_tests_annotate_lazily() -> None:
    assert breaches(rules.future_annotations, (".py",), without=PLAIN_SCRIPTS) == []


def test_no_file_names_a_package_index() -> None:
    assert breaches(rules.no_registries, ()) == []


def test_no_file_names_a_place_of_one_machine() -> None:
    assert breaches(rules.no_machine_paths, ()) == []


def test_controller_and_door_have_no_import_of_jax_or_pickle() -> None:
    only = ("server/", "client/pathways_door/", "proto/pathways_common/")
    assert breaches(rules.never_unpickles, (".py",), only=only) == []


def test_names_of_tests_are_sentences() -> None:
    assert breaches(rules.sentence_names, (".py",), only=("tests/",)) == []


def test_the_walk_sees_the_product() -> None:
    seen = [path for path, _ in files(".py")]
    assert all(any(path.startswith(part) for path in seen) for part in PRODUCT)
    assert "Makefile" in [path for path, _ in files()]
