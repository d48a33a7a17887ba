"""A host that understands or compiles something differently takes part in nothing: it is named, with what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster import running_cluster

pytestmark = pytest.mark.cluster
SCRIPT = str(Path(__file__).with_name("scripts") / "one_gang.py")
FAULTS = str(Path(__file__).with_name("faults"))


def said_with(**faults: str) -> dict[str, str]:
    """What a jitted function and a traced program give."""
    with running_cluster(islands=1, hosts=2, devices=1, PYTHONPATH=FAULTS, **faults) as cluster:
        done = cluster.run(SCRIPT, PYTHONPATH="")
        assert done.returncode == 0, done.stderr
    said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert sorted(said) == ["jit", "program"], done.stdout
    return said


def test_a_host_that_reads_a_program_differently_is_refused_by_name() -> None:
    said = said_with(MISREAD_PLANS="a1")
    assert said["jit"] == "[2.0, 2.0]"
    assert "host a1 understood program" in said["program"]
    assert "they differ in its steps" in said["program"]
    assert "reason=PROGRAM_REFUSED host=a1" in said["program"]


def test_a_host_that_compiles_with_other_flags_is_refused_by_name() -> None:
    said = said_with(OTHER_FLAGS="a1")
    for words in said.values():
        assert "they differ in its compiler flags" in words
        assert "hosts a0 and a1" in words or "hosts a1 and a0" in words
        assert "reason=PROGRAM_REFUSED" in words
