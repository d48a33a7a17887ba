"""Every library of the ecosystem has a script that knows nothing of clusters, and a bound on its version."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from tests.cluster import ROOT
from tests.conformance import ecosystem

# The module that a script must use -> the package that has it.
LIBRARIES = {
    "diffrax": "diffrax", "equinox": "equinox", "flax.nnx": "flax", "flax.linen": "flax", "numpyro": "numpyro", "optax": "optax",
    "orbax.checkpoint": "orbax-checkpoint", "pathwaysutils": "pathwaysutils", "rax": "rax",
}  # fmt: skip
SCRIPTS = sorted(ecosystem.SCRIPTS.glob("*.py"))


def _imported(text: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def test_there_is_a_script_for_every_library_and_none_imports_anything_of_ours() -> None:
    imported = [_imported(path.read_text()) for path in SCRIPTS]
    assert not set(LIBRARIES) - set().union(*imported)
    assert not [name for names in imported for name in names if name == "pathways" or name.startswith(("pathways.", "pathways_"))]


def test_every_library_is_bounded_and_pinned() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["ecosystem"]
    bounded = {re.split(r"[<>=]", wanted)[0] for wanted in extras if ">=" in wanted and "<" in wanted}
    assert bounded == set(LIBRARIES.values())
    pinned = {line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert bounded <= pinned


def test_a_missing_library_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: object) -> None:
        raise ModuleNotFoundError("No module named 'flax'", name="flax")

    monkeypatch.setattr(ecosystem, "load", load)
    with pytest.raises(SystemExit, match=r"flax is missing; call `make ecosystem`"):
        ecosystem.features(["flax_nnx"])
