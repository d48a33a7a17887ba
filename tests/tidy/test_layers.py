"""The layers hold: import contracts, generated code, and what the controller and the door really load when they start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.tree import ROOT

PROBE = """
import importlib, sys
importlib.import_module(sys.argv[1])
heavy = {"jax", "jaxlib", "cloudpickle"}
print(*sorted(heavy & set(sys.modules)))
picklers = {id(sys.modules[name]) for name in ("pickle", "_pickle") if name in sys.modules}
ours = [module for name, module in sys.modules.items() if name.startswith("pathways")]
print(*sorted(m.__name__ for m in ours if any(id(value) in picklers for value in vars(m).values())))
"""


def loaded_by(module: str, path: str = "") -> list[str]:
    """What a fresh process loads that it must not: heavy modules, and modules of ours that hold a pickler."""
    environment = {"PYTHONPATH": path, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE, module], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "module", ["pathways_server.main", "pathways_server.app", "pathways_door.main", "pathways_door.door", "pathways_worker.app"]
)
def test_starting_controller_door_or_daemon_loads_neither_jax_nor_pickle(module: str) -> None:
    assert loaded_by(module) == []


def test_the_probe_sees_a_module_that_loads_them(tmp_path: Path) -> None:
    (tmp_path / "pathways_bad.py").write_text("import pickle\nimport cloudpickle\n")
    assert loaded_by("pathways_bad", str(tmp_path)) == ["cloudpickle", "pathways_bad"]


def test_import_contracts_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_generated_code_is_what_the_sources_give() -> None:
    command = [sys.executable, "proto/generate.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
