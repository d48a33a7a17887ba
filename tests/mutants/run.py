"""Shows that every checker bites: applies each patch of this folder to a copy of the tree and demands that its test fails.

A patch begins with `rule:` (what it breaks) and `test:` (the pytest node that must fail) and goes on as a unified diff
against the tree. `python tests/mutants/run.py [NAME ...]` runs all or the named ones, one on each core; the exit code counts
survivors.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGES = ("proto", "client", "server", "worker")
COPIED = (*PACKAGES, "tests", "pyproject.toml")
TEST_TIMEOUT_S = 300
# Each needs a few hundred megabytes.
MUTANTS_AT_ONCE_MAX = 4
# A test stops at the first seed that breaks; only a survivor costs all of them.
SEEDS = "100"


def headers(patch: Path) -> dict[str, str]:
    """The `name: value` lines before the diff."""
    found: dict[str, str] = {}
    for line in patch.read_text().splitlines():
        if line.startswith("--- "):
            break
        name, separator, value = line.partition(": ")
        if separator:
            found[name] = value.strip()
    missing = {"rule", "test"} - set(found)
    if missing:
        raise SystemExit(f"{patch.name}: no {' and no '.join(sorted(missing))} line before the diff")
    return found


def copy_tree(target: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__", ".*_cache"))
        else:
            shutil.copy(source, target / name)


def run_test(tree: Path, test: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(tree / package) for package in PACKAGES)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PATHWAYS_SIMULATION_SEEDS": SEEDS}
    environment["PATHWAYS_SIMULATION_PROCESSES"] = "1"  # the mutants beside this one have the other cores
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TEST_TIMEOUT_S, check=False)


def judge(patch: Path) -> str:
    """Empty if the mutant was caught, else why not."""
    test = headers(patch)["test"]
    with tempfile.TemporaryDirectory(prefix="pathways-mutant-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        applied = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", str(patch)], cwd=tree, capture_output=True, text=True, timeout=60, check=False
        )
        if applied.returncode:
            return f"the patch no longer applies: {applied.stderr.strip()}"
        try:
            result = run_test(tree, test)
        except subprocess.TimeoutExpired:
            return f"{test} did not end within {TEST_TIMEOUT_S} s"
    if result.returncode == 1 and " failed" in result.stdout:
        return ""
    if result.returncode == 0:
        return f"{test} passes with the mutant"
    return f"{test} could not be run (exit {result.returncode}): {result.stdout[-400:]}{result.stderr[-400:]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="applies each mutant to a copy of the tree and demands that its test fails")
    parser.add_argument("names", nargs="*", help="mutants to run, without .patch; default: all")
    options = parser.parse_args()
    patches = sorted(HERE.glob("*.patch"))
    if options.names:
        patches = [patch for patch in patches if patch.stem in options.names]
    survivors = 0
    with ThreadPoolExecutor(min(os.cpu_count() or 1, MUTANTS_AT_ONCE_MAX)) as threads:
        for patch, problem in zip(patches, threads.map(judge, patches), strict=True):
            survivors += bool(problem)
            print(f"{'SURVIVED' if problem else 'caught  '} {patch.stem}: {headers(patch)['rule']}", flush=True)
            if problem:
                print(f"         {problem}", flush=True)
    print(f"{len(patches) - survivors} of {len(patches)} mutants caught")
    return survivors if patches else 1


if __name__ == "__main__":
    sys.exit(main())
