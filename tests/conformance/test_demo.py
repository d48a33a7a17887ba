"""The demonstration says "identical" only when every loss has the same bits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cluster import ROOT
from tests.conformance.side import load

DEMO = load(ROOT / "examples/demo.py")
LOSSES = {"training": [(0.1).hex(), (0.3).hex()], "evaluation": [(2.5).hex()]}


def compared(tmp_path: Path, ours: dict[str, list[str]], local: dict[str, list[str]]) -> bool:
    for name, losses in (("ours", ours), ("local", local)):
        (tmp_path / name).write_text(json.dumps(losses))
    return bool(DEMO.compare(tmp_path / "ours", tmp_path / "local"))


def test_equal_losses_are_identical(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compared(tmp_path, LOSSES, LOSSES)
    assert capsys.readouterr().out.count("bit-identical: all") == 2


@pytest.mark.parametrize("training", [[(0.1).hex(), (0.1 + 0.2).hex()], [(0.1).hex()]])
def test_one_bit_or_one_step_is_a_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str], training: list[str]) -> None:
    assert not compared(tmp_path, LOSSES | {"training": training}, LOSSES)
    assert "NOT identical" in capsys.readouterr().out
