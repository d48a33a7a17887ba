"""Every tidy rule catches a bad sample and passes a good one, so that a rule which checks nothing is noticed."""

from __future__ import annotations

import pytest

from tests.tidy import rules

LONG_FUNCTION = "def f() -> None:\n" + "    x = 1\n" * 70
SHORT_FUNCTION = "def f() -> None:\n" + "    x = 1\n" * 60
HOST = "https://py" + "pi.example/simple"
PLACE = "open('/tm" + "p/x')"

CASES = [
    (rules.file_length, "a.py", "x = 1\n" * 500, "x = 1\n" * 499),
    (rules.function_length, "a.py", LONG_FUNCTION, SHORT_FUNCTION),
    (rules.function_length, "a.py", "class C:\n    async " + LONG_FUNCTION.replace("\n", "\n    "), ""),
    (rules.module_docstring, "a.py", "x = 1\n", '"""A rule."""\nx = 1\n'),
    (rules.module_docstring, "a.py", '"""' + "line\n" * 20 + '"""\n', ""),
    (rules.future_annotations, "a.py", '"""Doc."""\ndef f(): ...\n', "from __future__ import annotations\ndef f(): ...\n"),
    (rules.future_annotations, "a.py", "class C: ...\n", "import os\n"),
    (rules.no_registries, "a.txt", f"fetch {HOST}\n", "numpy==2.4.6\n"),
    (rules.no_registries, "Makefile", "pip install --extra-in" + "dex-url x\n", "pip install --constraint x\n"),
    (rules.no_machine_paths, "a.py", PLACE + "\n", "Path('state') / 'tmp'\n"),
    (rules.never_unpickles, "a.py", "import pickle\n", "import json\n"),
    (rules.never_unpickles, "a.py", "def f():\n    from jax import numpy\n", "from pathways_common import model\n"),
    (rules.sentence_names, "test_a.py", "def test_it() -> None: ...\n", "def test_lost_host_is_named() -> None: ...\n"),
]


@pytest.mark.parametrize(("rule", "path", "bad", "good"), CASES)
def test_rule_catches_the_bad_sample_only(rule, path: str, bad: str, good: str) -> None:  # type: ignore[no-untyped-def]
    assert rule(path, bad), "the bad sample passed"
    assert rule(path, good) == []


@pytest.mark.parametrize("path", ["client/utils.py", "server/helpers.py", "worker/a/base.py"])
def test_names_that_say_nothing_are_caught(path: str) -> None:
    assert rules.module_name(path, "")


def test_the_package_pathways_common_is_allowed() -> None:
    assert rules.module_name("proto/pathways_common/model/ids.py", "") == []


def test_links_are_found_and_code_is_left_out() -> None:
    text = "See [a](docs/a.md#part), [`b`](../b.py), [web](https://x.example/) and `[c](no.md)`.\n```\n[d](no.md)\n```\n"
    assert rules.links(text) == ["docs/a.md", "../b.py"]


def test_commands_that_the_makefile_lacks_are_caught() -> None:
    targets = rules.make_targets("run: x\n\techo\nPYTHON := x\ntest:  ## t\n")
    assert targets == {"run", "test"}
    assert rules.unknown_make_commands("a.md", "`make run`, we make mistakes, ```\nmake test\nmake fly\n```", targets) == [
        "a.md: `make fly` is not in the Makefile"
    ]


def test_glossary_and_changelog_are_read() -> None:
    assert rules.glossary_entries("**door**: a process.\n\ntext **bold** here\n**gang**: shards.\n") == ["door", "gang"]
    assert rules.changelog_entries("# Changelog\n\n## Unreleased\n\n- one\n- two\n\n## 0.1\n\n- old\n") == 2
    assert rules.changelog_entries("# Changelog\n\n## Unreleased\n\n## 0.1\n\n- old\n") == 0
