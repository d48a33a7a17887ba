"""Shows that every checker bites: applies each patch of this folder to a copy of the tree and demands that its test fails.

A patch begins with `rule:` (what it breaks) and `test:` (the pytest node that must fail) and goes on as a unified diff
against the tree. `seeds:` may name seeds of the simulation that are known to catch it: they are tried before all others,
which only a survivor costs. `python tests/mutants/run.py [NAME ...]` runs all or the named ones, one on each core; the exit
code counts survivors. With `--hint` the seeds that catch are looked for anew and written into the patches.
"""

from __future__ import annotations

import argparse
import os
import re
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
SEEDS = "1000"
# How a failure of the simulation names the seed that broke.
_BROKEN_SEED = re.compile(r"seed (\d+) \(islands")


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
            # With what is compiled already: it goes by the times of the sources, and the patched ones are new.
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns(".*_cache"))
        else:
            shutil.copy(source, target / name)


def run_test(tree: Path, test: str, first_seeds: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(tree / package) for package in PACKAGES)
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PATHWAYS_SIMULATION_SEEDS": SEEDS}
    environment["PATHWAYS_SIMULATION_PROCESSES"] = "1"  # the mutants beside this one have the other cores
    environment["PYTHONHASHSEED"] = "1"  # a mutant that depends on the order of a set is caught everywhere or nowhere
    environment["PATHWAYS_SIMULATION_FIRST"] = first_seeds
    # With it pytest writes out whatever a failed assertion compares, which for tables that name one another takes minutes.
    environment.pop("CI", None)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    # Plugins that a test does not use take longer to import than most tests to run.
    if "hypothesis" not in (tree / test.partition("::")[0]).read_text():
        command += ["-p", "no:hypothesispytest"]
    if test.startswith("tests/simulation/"):
        command += ["-p", "no:pathways"]
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TEST_TIMEOUT_S, check=False)


def judge(patch: Path, hint: bool = False) -> str:
    """Empty if the mutant was caught, else why not. `hint`: write down which seed caught it, whatever the patch says now."""
    found = headers(patch)
    test = found["test"]
    with tempfile.TemporaryDirectory(prefix="pathways-mutant-") as folder:
        tree = Path(folder)
        copy_tree(tree)
        applied = subprocess.run(
            ["git", "apply", "--whitespace=nowarn", str(patch)], cwd=tree, capture_output=True, text=True, timeout=60, check=False
        )
        if applied.returncode:
            return f"the patch no longer applies: {applied.stderr.strip()}"
        try:
            result = run_test(tree, test, "" if hint else found.get("seeds", "").replace(" ", ""))
        except subprocess.TimeoutExpired:
            return f"{test} did not end within {TEST_TIMEOUT_S} s"
    if result.returncode == 1 and " failed" in result.stdout:
        seed = _BROKEN_SEED.search(result.stdout)
        if hint and seed is not None:
            write_hint(patch, seed.group(1))
        return ""
    if result.returncode == 0:
        return f"{test} passes with the mutant"
    return f"{test} could not be run (exit {result.returncode}): {result.stdout[-400:]}{result.stderr[-400:]}"


def write_hint(patch: Path, seed: str) -> None:
    """Puts the `seeds:` line behind the `test:` line, in place of an older one."""
    lines = [line for line in patch.read_text().splitlines() if not line.startswith("seeds: ")]
    place = next(index for index, line in enumerate(lines) if line.startswith("test: "))
    lines.insert(place + 1, f"seeds: {seed}")
    patch.write_text("\n".join(lines) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description="applies each mutant to a copy of the tree and demands that its test fails")
    parser.add_argument("names", nargs="*", help="mutants to run, without .patch; default: all")
    parser.add_argument("--hint", action="store_true", help="look for the seeds that catch anew and write them into the patches")
    options = parser.parse_args()
    patches = sorted(HERE.glob("*.patch"))
    if options.names:
        patches = [patch for patch in patches if patch.stem in options.names]
    survivors: list[str] = []
    with ThreadPoolExecutor(min(os.cpu_count() or 1, MUTANTS_AT_ONCE_MAX)) as threads:
        for patch, problem in zip(patches, threads.map(lambda patch: judge(patch, options.hint), patches), strict=True):
            if problem:
                survivors.append(f"{patch.stem}: {problem}")
            print(f"{'SURVIVED' if problem else 'caught  '} {patch.stem}: {headers(patch)['rule']}", flush=True)
    # At the end, where whoever reads a long log looks first.
    print("".join(f"{survivor}\n" for survivor in survivors), end="")
    print(f"{len(patches) - len(survivors)} of {len(patches)} mutants caught")
    return len(survivors) if patches else 1


if __name__ == "__main__":
    sys.exit(main())
