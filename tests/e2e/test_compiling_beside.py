"""While one client compiles a program that takes seconds, another one's awaited calls on the same hosts go on; and with
several such programs in line, another one's tiny program is compiled after one of them.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.e2e.lines import Lines, stop

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SCRIPT = str(Path(__file__).with_name("scripts") / "compiling_beside.py")
WAIT_S = 120.0
# Several hundred in a second when nobody compiles; XLA's compiler has its share of the processors.
CALLS_MIN = 50
# A program is read, and its image made, without letting go of the interpreter: tenths of a second. When executors compiled on the
# thread that launches, it was nearly all of the compilation.
PAUSE_MAX_S = 1.5


def hear(lines: Lines) -> dict[str, Any]:
    said = lines.next(WAIT_S)
    assert said is not None, "the script says nothing"
    found: dict[str, Any] = json.loads(said)
    return found


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def test_calls_of_others_go_on_while_a_program_is_compiled(cluster: Cluster) -> None:
    caller = cluster.start(SCRIPT, "call", stdin=True)
    # Another program every time, or an image would be loaded.
    compiler = cluster.start(SCRIPT, "compile", str(random.randrange(1 << 16)), stdin=True)
    try:
        calls, compiling = Lines(caller), Lines(compiler)
        assert hear(calls)["ready"]
        assert hear(compiling)["ready"]
        tell(caller)
        tell(compiler)
        compiled = hear(compiling)
        assert caller.stdin is not None
        caller.stdin.close()
        ends_s = hear(calls)["ends_s"]
        assert (caller.wait(WAIT_S), compiler.wait(WAIT_S)) == (0, 0)
    finally:
        stop(compiler)
        stop(caller)
    began_s, ended_s = compiled["began_s"], compiled["ended_s"]
    during = [end_s for end_s in ends_s if began_s <= end_s <= ended_s]
    longest_s = max(after - before for before, after in itertools.pairwise([began_s, *during, ended_s]))
    print(f"{len(during)} calls ended in the {ended_s - began_s:.1f} s of a compilation, the longest pause was {longest_s:.2f} s")
    assert ended_s - began_s > 3, "it was to take seconds"
    assert len(during) >= CALLS_MIN
    assert longest_s < PAUSE_MAX_S


def test_a_tiny_program_is_compiled_while_another_client_has_long_ones_in_line(cluster: Cluster) -> None:
    seed = str(random.randrange(1 << 16))
    greedy = cluster.start(SCRIPT, "queue", seed, stdin=True)
    other = cluster.start(SCRIPT, "small", seed, stdin=True)
    try:
        queued, small = Lines(greedy), Lines(other)
        assert hear(queued)["ready"]
        assert hear(small)["ready"]
        tell(greedy)
        assert hear(queued)["compiled"] == 1, "now all the others are in line"
        tell(other)
        compiled = hear(small)
        while "ends_s" not in (said := hear(queued)):
            pass
        assert (greedy.wait(WAIT_S), other.wait(WAIT_S)) == (0, 0)
    finally:
        stop(other)
        stop(greedy)
    took_s = compiled["ended_s"] - compiled["began_s"]
    during = sum(compiled["began_s"] <= end_s <= compiled["ended_s"] for end_s in said["ends_s"])
    behind = sum(end_s > compiled["ended_s"] for end_s in said["ends_s"])
    print(f"the tiny program took {took_s:.2f} s; {during} long ones ended meanwhile, {behind} afterwards")
    # One is at work when it comes, and may end just before the next is begun.
    assert during <= 2
    assert behind >= 2
