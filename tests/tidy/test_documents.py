"""Documents stay true: links resolve, commands exist, the glossary has every word of ours once, the changelog has an entry."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.tidy import rules
from tests.tidy.tree import ROOT, files

# One meaning each, the same word in proto, code, command line, metrics and documents.
WORDS = (
    "binding buffer controller coordinator device door epoch executable execution executor failure fence frame gang grant host "
    "incarnation island poison prepare program sequence session shard state_directory term ticket view virtual_device worker"
)
DOCUMENTS = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "docs/architecture.md",
    "docs/life-of-a-program.md",
    "docs/glossary.md",
    "docs/decisions/README.md",
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_document_is_there(name: str) -> None:
    assert (ROOT / name).is_file()


def test_links_in_documents_resolve() -> None:
    broken = [
        f"{path} -> {target}"
        for path, text in files(".md")
        for target in rules.links(text)
        if not ((ROOT / path).parent / target).exists()
    ]
    assert broken == []


def test_tests_that_a_document_names_exist() -> None:
    """`a_killed_daemon_...` stands for a test whose name begins like that."""
    tests = "\n".join(text for path, text in files(".py") if path.startswith("tests/"))
    named = [(path, name) for path, text in files(".md") for name in re.findall(r"`([a-z]\w+_)\.\.\.`", text)]
    assert len(named) > 30, "the check looks for something else than the documents write"
    assert [each for each in named if f"def test_{each[1]}" not in tests] == []


def test_commands_in_documents_are_in_the_makefile() -> None:
    targets = rules.make_targets((ROOT / "Makefile").read_text())
    unknown = [line for path, text in files(".md") for line in rules.unknown_make_commands(path, text, targets)]
    assert unknown == []
    assert {"run", "test", "setup", "check", "ci", "sim", "mutants", "bench", "conformance", "soak", "clean"} <= targets


def test_every_command_line_tool_of_the_readme_is_installed() -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert {"pathways", "pathways-server", "pathways-worker"} == set(scripts)


def test_glossary_explains_every_word_once_and_in_order() -> None:
    entries = rules.glossary_entries((ROOT / "docs/glossary.md").read_text())
    assert entries == sorted(set(entries), key=str.lower)
    missing = [word for word in (word.replace("_", " ") for word in WORDS.split()) if word not in entries]
    assert missing == []


def test_changelog_has_an_entry() -> None:
    assert rules.changelog_entries((ROOT / "CHANGELOG.md").read_text()) > 0


def test_decisions_are_numbered_without_gaps_and_listed() -> None:
    folder = ROOT / "docs/decisions"
    names = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    listed = rules.links((folder / "README.md").read_text())
    assert [name for name in names if name not in listed] == []


@pytest.mark.parametrize("heading", ["## Context", "## Decision", "## Consequence"])
def test_every_decision_has_its_parts(heading: str) -> None:
    folder = ROOT / "docs/decisions"
    without = [path.name for path in sorted(folder.glob("[0-9]*.md")) if heading not in path.read_text()]
    assert without == []
