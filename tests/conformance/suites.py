"""Runs files of other people's tests on a cluster and on plain local JAX, and says what passes locally and not there.

Every file runs in a process of its own; one that crashes, or says nothing for long, is ended, and another one goes on behind that
test. Plain local JAX runs what did not pass on the cluster. Outcomes are kept below `--output`, as lines of JSON, so that a run
may be continued (`--fresh` starts anew). Known failures stand in `suite_expectations.toml`, each with its reason.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from tests.cluster import ROOT, Cluster, end_on_sigterm, local_environment, running_cluster
from tests.conformance.suite_plugin import EVERY_VARIABLE, LOG_VARIABLE, PASSED_VARIABLE
from tests.conformance.suite_verdicts import (
    Outcome,
    Tally,
    forget,
    is_finished,
    read_expectations,
    read_outcomes,
    say_finished,
    table,
    tally,
)

EXPECTATIONS = Path(__file__).with_name("suite_expectations.toml")
# A compilation of a large program beside other work takes a minute.
SILENT_S = 150.0
GENERATED_CASES = "2"
ACTIVE_TIMEOUT_S = 60.0
# How often in a row a process may end before its first test.
STARTS_MAX = 3


def command(file: Path) -> list[str]:
    """What follows `python`."""
    return [
        "-P",
        "-m",
        "pytest",
        "-q",
        "-p",
        "suite_plugin",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(file.parent),
        str(file),
    ]


def environment(log: Path, every: int = 1, passed: Path | None = None) -> dict[str, str]:
    """`passed`: a log of another run, whose tests that passed are left out."""
    return {
        LOG_VARIABLE: str(log),
        PASSED_VARIABLE: str(passed or ""),
        EVERY_VARIABLE: str(every),
        "PYTHONPATH": str(Path(__file__).parent),
        "JAX_NUM_GENERATED_CASES": GENERATED_CASES,
        # The client switches it off when it begins, which would be held against whichever test is the first.
        "JAX_ENABLE_COMPILATION_CACHE": "false",
    }


class OutOfTime(Exception):
    """The run was to take no longer."""


def watch(
    words: Sequence[str], environment: dict[str, str], log: Path, silent_s: float = SILENT_S, until_s: float = math.inf
) -> None:
    """Starts processes until every test of the file has an outcome, or they end before their first test. OutOfTime at `until_s`,
    by the monotonic clock."""
    if is_finished(log):
        return
    without_test = 0
    while without_test < STARTS_MAX:
        before = len(read_outcomes(log))
        try:
            finished = _one_process(words, environment, log, silent_s, until_s)
        except BaseException:
            _forget_started(log)
            raise
        without_test = 0 if len(read_outcomes(log)) > before else without_test + 1
        if finished:
            break
    say_finished(log)


def _one_process(words: Sequence[str], environment: dict[str, str], log: Path, silent_s: float, until_s: float) -> bool:
    """Whether it ended by itself and as pytest does. What it prints is beside the log."""
    with open(log.with_suffix(".out"), "a") as out:
        process = subprocess.Popen(
            words, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
        )
        size, since_s = -1, time.monotonic()
        try:
            while process.poll() is None:
                now = log.stat().st_size if log.exists() else 0
                if now != size:
                    size, since_s = now, time.monotonic()
                elif time.monotonic() - since_s > silent_s:
                    break
                if time.monotonic() > until_s:
                    raise OutOfTime
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(20)
    # 0: all passed, 1: some failed, 5: none left to run.
    return process.returncode in (0, 1, 5)


def _forget_started(log: Path) -> None:
    """Whoever stopped us did so in the middle of a test, which is run again the next time."""
    lines = log.read_text().splitlines(keepends=True) if log.exists() else []
    if lines and '"started"' in lines[-1]:
        log.write_text("".join(lines[:-1]))


def run_locally(file: Path, log: Path, devices: int, every: int, passed: Path | None, until_s: float) -> None:
    watch([sys.executable, *command(file)], local_environment(devices) | environment(log, every, passed), log, until_s=until_s)


def run_on(cluster: Cluster, file: Path, log: Path, every: int, until_s: float) -> list[str]:
    """What was wrong with the cluster meanwhile or is afterwards."""
    before = epochs(cluster)
    watch(cluster.command(*command(file)), cluster.environment | environment(log, every), log, until_s=until_s)
    deadline_s = time.monotonic() + ACTIVE_TIMEOUT_S
    while not all(island.state == "ACTIVE" for island in cluster.status().islands):
        if time.monotonic() > deadline_s:
            return ["the cluster is not ACTIVE any more" + cluster.logs()]
        time.sleep(0.5)
    after = epochs(cluster)
    return [] if after == before else [f"an executor ended (epochs were {before} and are {after})"]


def part_of(every: int) -> str:
    """What the name of a file is followed by where only a part of its tests runs; its outcomes are kept apart."""
    return f" (1 in {every})" if every > 1 else ""


def epochs(cluster: Cluster) -> dict[str, int]:
    return {island.name: island.epoch for island in cluster.status().islands}


def parser_of(description: str | None, shape: str, output: str) -> argparse.ArgumentParser:
    """What both runners understand. `shape`: of the cluster, if nothing is said; `output`: a folder below build/."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default=shape, metavar="IxHxD", help="islands, hosts, devices per host (default %(default)s)")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / output, metavar="DIR", help="where outcomes are kept")
    parser.add_argument("--fresh", action="store_true", help="forget the outcomes of earlier runs on a cluster")
    parser.add_argument("--again", action="store_true", help="forget those that were not as expected, and run them once more")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every n-th test of a file (default: all)")
    parser.add_argument("--local-only", action="store_true", help="run plain local JAX only, and compare nothing")
    parser.add_argument("--seconds", type=float, default=math.inf, metavar="N", help="stop then; the same command goes on later")
    parser.add_argument("--table-only", action="store_true", help="run nothing; show what is known")
    return parser


def run(files: Mapping[str, Path], options: argparse.Namespace) -> int:
    """Runs them by name, as `parser_of` was told, and prints the table; 1 if anything is not as expected, or not run."""
    end_on_sigterm()
    local, here = (options.output / name for name in (f"local-{math.prod(shape_of(options))}", options.shape))
    if options.fresh:
        shutil.rmtree(here, ignore_errors=True)
    for folder in (local, here):
        folder.mkdir(parents=True, exist_ok=True)
    logs = {name: (local / f"{part}.jsonl", here / f"{part}.jsonl") for name in files for part in [name + part_of(options.every)]}
    if options.again:
        for pair in logs.values():
            found = tally(*map(read_outcomes, pair), read_expectations(EXPECTATIONS))
            forget(pair[0], [])
            forget(pair[1], found.failed + found.crashed)
    problems = [] if options.table_only else _run_files(files, logs, options)
    if options.local_only:
        return 0
    tallies: dict[str, Tally] = {}
    for name, pair in logs.items():
        outcomes = tuple(read_outcomes(log) for log in pair)
        tallies[pair[1].stem] = found = tally(*outcomes, read_expectations(EXPECTATIONS))
        show(pair[1].stem, found.failed + found.crashed, outcomes[1])
        problems += [f"{name}: {kind} {test}" for kind in ("failed", "crashed") for test in getattr(found, kind)]
    print("\n" + table(tallies))
    for each in tallies.values():
        for test in each.mended:
            print(f"passes and is expected to fail: {test}")
    print("\n".join(problems))
    return 1 if problems else 0


def shape_of(options: argparse.Namespace) -> tuple[int, int, int]:
    islands, hosts, devices = map(int, options.shape.split("x"))
    return islands, hosts, devices


def _run_files(files: Mapping[str, Path], logs: Mapping[str, tuple[Path, Path]], options: argparse.Namespace) -> list[str]:
    """Problems with the cluster. `logs`: of plain local JAX and of the cluster."""
    shape, until_s = shape_of(options), time.monotonic() + options.seconds
    problems: list[str] = []
    try:
        with nullcontext() if options.local_only else running_cluster(*shape) as cluster:
            for name, file in files.items():
                local, here = logs[name]
                if cluster is not None:
                    problems += [f"{name}: {wrong}" for wrong in run_on(cluster, file, here, options.every, until_s)]
                run_locally(file, local, math.prod(shape), options.every, None if options.local_only else here, until_s)
    except OutOfTime:
        problems.append(f"stopped after {options.seconds:.0f} s; the same command goes on")
    return problems


def show(name: str, failed: Sequence[str], outcomes: dict[str, Outcome]) -> None:
    print(f"{name}: {len(failed)} not as expected", flush=True)
    for test in failed:
        last = [line for line in outcomes.get(test, Outcome("failed", "not run")).text.splitlines() if line.startswith("E ")][-3:]
        print(f"  {test}\n    " + "\n    ".join(line[:300] for line in last), flush=True)
