"""Every feature script is plain JAX, but for those of what JAX has no word for; some script covers every promise."""

from __future__ import annotations

from pathlib import Path

import pytest

OURS = {"put_and_fetch", "reshard", "virtual_slices"}
FEATURES = sorted(Path(__file__).with_name("features").glob("*.py"))


@pytest.mark.parametrize("path", FEATURES, ids=lambda path: path.stem)
def test_script_imports_nothing_of_ours(path: Path) -> None:
    text = path.read_text()
    assert ("import pathways as pw" in text) == (path.stem in OURS)
    assert "from pathways" not in text
    assert "\ndef run():" in text


def test_there_is_a_script_for_every_promise() -> None:
    assert len(FEATURES) >= 33
