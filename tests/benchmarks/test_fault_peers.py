"""What stands beside ours under faults leaves no process behind, whatever becomes of the benchmark."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.benchmarks import run
from tests.benchmarks.fault_peers import PARENT
from tests.benchmarks.faults import PEERS
from tests.cluster import free_port, lives, local_environment, wait_until

STARTER = """
import os, subprocess, sys
print(subprocess.Popen(sys.argv[2:], env=os.environ | {sys.argv[1]: str(os.getpid())}, stdout=sys.stderr).pid, flush=True)
sys.stdin.read()
"""


@contextmanager
def started(*words: str) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """Who starts `fault_peers.py` with these words, and that process."""
    command = [sys.executable, "-c", STARTER, PARENT, sys.executable, PEERS, *words]
    environment = local_environment(1) | {"PATH": os.environ["PATH"]}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        child = psutil.Process(int(starter.stdout.readline()))
        family = [child]
        try:
            yield starter, child
        finally:
            with suppress(psutil.NoSuchProcess):
                family += child.children(recursive=True)
            for process in family:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            starter.kill()


def test_a_member_that_waits_for_its_group_ends_with_who_started_it() -> None:
    port = free_port()
    with started("jax-member", "0", str(port)) as (starter, member):

        def waits() -> bool:
            with socket.socket() as dialler:
                return dialler.connect_ex(("127.0.0.1", port)) == 0

        wait_until(waits, "the first member to serve its group")
        starter.kill()
        wait_until(lambda: not lives(member), "the member to end", 10)


def test_members_end_with_the_script_that_ends_with_the_benchmark() -> None:
    with started("jax", "stop", "1") as (starter, script):
        wait_until(lambda: len(script.children()) == 2, "both members to be started")
        members = script.children()
        starter.kill()
        wait_until(lambda: not any(map(lives, [script, *members])), "the script and its members to end", 10)


@pytest.mark.parametrize(("code", "ends"), [("a side gave nothing", False), (143, True)])
def test_a_benchmark_that_gives_up_is_left_out_and_sigterm_ends_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str | int, ends: bool
) -> None:
    def give_up(_quick: bool) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(run, "runner", lambda _name: give_up)
    monkeypatch.setattr(run, "facts", lambda _quick: [])
    if ends:
        with pytest.raises(SystemExit):
            run.measure("calls", True, tmp_path)
    else:
        assert not run.measure("calls", True, tmp_path)
