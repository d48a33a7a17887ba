"""What of a compiled program can be kept under a name; the rest is refused before the cluster is asked."""

from __future__ import annotations

import types
from typing import Any

import pytest
from pathways import _program_calls, _registering, errors


class Asked:
    def __init__(self) -> None:
        self.calls: list[Any] = []

    def register(self, run: Any, name: str, replace: bool) -> int:
        self.calls.append((run, name, replace))
        return 4


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    runner = Asked()
    monkeypatch.setattr(_program_calls, "runner", lambda: runner)
    return runner


def definition(run: Any = "run", hidden: tuple[Any, ...] = (), fusion: Any = None) -> Any:
    return types.SimpleNamespace(run=run, hidden=hidden, fusion=fusion)


def test_a_program_is_registered_and_its_version_returned(asked: Asked) -> None:
    assert _registering.register("f", definition(), "team/step.v-1_a", True) == 4
    assert asked.calls == [("run", "team/step.v-1_a", True)]


def test_a_program_is_fused_before_it_is_registered(asked: Asked) -> None:
    fusion = types.SimpleNamespace(fuse=lambda: asked.calls.append("fused"))
    _registering.register("f", definition(fusion=fusion), "f", False)
    assert asked.calls == ["fused", ("run", "f", False)]


@pytest.mark.parametrize("name", ["", "a b", "/a", "a/", "-", "é", "x" * 201, "a\n"])
def test_a_name_that_is_none_is_refused(asked: Asked, name: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="is no name for a program"):
        _registering.register("f", definition(), name, False)
    assert asked.calls == []


def test_a_program_without_work_for_the_cluster_is_refused(asked: Asked) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="computes nothing on the cluster"):
        _registering.register("f", definition(run=None), "f", False)
