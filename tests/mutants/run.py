"""Shows that every checker bites: applies each patch of this folder to a copy of the tree and demands that its test fails.

A patch begins with `rule:` (what it breaks) and `test:` (the pytest node that must fail) and goes on as a unified diff
against the tree. `seeds:` may name seeds of the simulation that are known to catch it: they are tried before all others,
which only a survivor costs. `python tests/mutants/run.py [NAME ...]` runs all or the named ones, one on each core; the exit
code counts survivors. With `--hint` the seeds that catch are looked for anew and written into the patches; without it the run
says where they are out of date.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from copies import Copy
from forks import Ended, import_foreign, run_pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGES = ("proto", "client", "server", "worker")
COPIED = (*PACKAGES, "tests", "pyproject.toml")
TEST_TIMEOUT_S = 300.0
# Each needs a few hundred megabytes.
MUTANTS_AT_ONCE_MAX = 4
# A test stops at the first seed that breaks; only a survivor costs all of them.
SEEDS = "1000"
# Plugins of pytest, and the word in the text of a test that needs them.
PLUGINS = {
    "hypothesispytest": "hypothesis",
    "anyio": "anyio",
    "jaxtyping": "jaxtyping",
    "xdist": "xdist",
    "pathways": "pathways_cluster",
}
# Tests of these folders have fixtures of their folder's.
WITH_FIXTURES = ("tests/unit/client/",)
_USES_CLUSTER = re.compile(r"\bcluster: Cluster\b")
# How a failure of the simulation names the seed that broke.
_FAILED = re.compile(r"^\d+ failed", re.MULTILINE)  # its last line; an error before or behind the test is none
_BROKEN_SEED = re.compile(r"seed (\d+) \(islands")
ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PATHWAYS_SIMULATION_SEEDS": SEEDS,
    "PATHWAYS_SIMULATION_PROCESSES": "1",  # the mutants beside this one have the other cores
    "PYTHONHASHSEED": "1",  # a mutant that depends on the order of a set is caught everywhere or nowhere
}
# With it pytest writes out whatever there is, in full.
NOT_FOR_TESTS = ("CI",)


@dataclass(frozen=True)
class Verdict:
    """`problem`: empty if the mutant was caught, else why not. `seed`: which one caught it, if the patch names others or none."""

    problem: str
    seed: str
    took_s: float


_tree: Copy | None = None


def begin(folder: str) -> None:
    """What a process does before its first mutant: a tree of its own, and imports."""
    global _tree
    import_foreign()
    _tree = Copy(ROOT, Path(tempfile.mkdtemp(dir=folder)), COPIED)


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


def words_for(tree: Path, test: str) -> list[str]:
    """What pytest is told. Plugins and fixtures that a test does not use take longer to import than most tests to run."""
    file = tree / test.partition("::")[0]
    text = file.read_text() if file.is_file() else ""
    # Else pytest writes out what an assertion compares and a test was given, which for tables that name one another takes long.
    words = ["-q", "-x", "--assert=plain", "--tb=short", "-p", "no:cacheprovider", f"--basetemp={tree / 'basetemp'}"]
    for plugin, word in PLUGINS.items():
        if word not in text:
            words += ["-p", f"no:{plugin}"]
    if not any(test.startswith(folder) for folder in WITH_FIXTURES) and not _USES_CLUSTER.search(text):
        words.append("--noconftest")
    return [*words, test]


def run_test(tree: Path, test: str, first_seeds: str) -> Ended:
    os.environ["PATHWAYS_SIMULATION_FIRST"] = first_seeds
    return run_pytest(tree, tree / "output.txt", PACKAGES, words_for(tree, test), TEST_TIMEOUT_S)


def judge(patch: Path, hint: bool = False) -> Verdict:
    """Whether the mutant was caught. `hint`: write down which seed caught it, whatever the patch says now."""
    found = headers(patch)
    test, seeds = found["test"], found.get("seeds", "").replace(" ", "")
    began_s = time.monotonic()

    def verdict(problem: str, seed: str = "") -> Verdict:
        return Verdict(problem, seed if seed not in seeds.split(",") else "", time.monotonic() - began_s)

    assert _tree is not None
    _tree.mend()
    problem = _tree.apply(patch)
    if problem:
        return verdict(f"the patch no longer applies: {problem}")
    result = run_test(_tree.path, test, "" if hint else seeds)
    if result.late:
        return verdict(f"{test} did not end within {TEST_TIMEOUT_S} s")
    if result.code == 1 and _FAILED.search(result.output):
        seed = _BROKEN_SEED.search(result.output)
        if hint and seed is not None:
            write_hint(patch, seed.group(1))
        return verdict("", seed.group(1) if seed is not None else "")
    if result.code == 0:
        return verdict(f"{test} passes with the mutant")
    return verdict(f"{test} could not be run (exit {result.code}): {result.output[-800:]}")


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
    parser.add_argument("--patches", type=Path, default=HERE, help="the folder that they lie in")
    parser.add_argument(
        "--at-once", type=int, default=min(os.cpu_count() or 1, MUTANTS_AT_ONCE_MAX), help="default: one on each core"
    )
    options = parser.parse_args()
    patches = sorted(options.patches.resolve().glob("*.patch"))
    if options.names:
        patches = [patch for patch in patches if patch.stem in options.names]
    survivors: list[str] = []
    os.environ.update(ENVIRONMENT)
    for name in NOT_FOR_TESTS:
        os.environ.pop(name, None)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="pathways-mutants-"))
        # New processes, since the seed of hashes is set when one begins.
        spawning = multiprocessing.get_context("spawn")
        pool = stack.enter_context(ProcessPoolExecutor(options.at_once, spawning, begin, (folder,)))
        for patch, verdict in zip(patches, pool.map(partial(judge, hint=options.hint), patches), strict=True):
            if verdict.problem:
                survivors.append(f"{patch.stem}: {verdict.problem}")
            word = "SURVIVED" if verdict.problem else "caught  "
            print(f"{word} {verdict.took_s:5.1f} s {patch.stem}: {headers(patch)['rule']}", flush=True)
            if verdict.seed and not options.hint:
                print(f"         by seed {verdict.seed}, which it does not name: --hint {patch.stem}", flush=True)
    # At the end, where whoever reads a long log looks first.
    print("".join(f"{survivor}\n" for survivor in survivors), end="")
    print(f"{len(patches) - len(survivors)} of {len(patches)} mutants caught")
    return len(survivors) if patches else 1


if __name__ == "__main__":
    sys.exit(main())
