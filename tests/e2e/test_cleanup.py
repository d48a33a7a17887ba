"""Nothing stays: not after `pathways down`, not after Ctrl-C or the end of a client at any moment, not after an ephemeral
cluster."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.cluster import PATHWAYS, ROOT, Cluster, free_port, lives, plain_environment, running_cluster, wait_until
from tests.e2e.lines import Lines

pytestmark = [pytest.mark.cluster, pytest.mark.waits]
SCRIPTS = Path(__file__).with_name("scripts")
END_TIMEOUT_S = 30.0


def family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def living(processes: list[psutil.Process]) -> list[int]:
    return [process.pid for process in processes if lives(process)]


def interrupt(process: subprocess.Popen[str], times: int) -> list[psutil.Process]:
    """Ctrl-C as a terminal sends it: to the whole process group. Returns who was there."""
    members = family(process.pid)
    for _ in range(times):
        try:
            os.killpg(process.pid, signal.SIGINT)
        except ProcessLookupError:
            break
    return members


def told_until_the_end(process: subprocess.Popen[str]) -> str:
    """What the run wrote on its standard error.

    Python ignores a KeyboardInterrupt that comes while it calls back, say under an import, and says so: Ctrl-C is pressed again.
    """
    try:
        return process.communicate(timeout=END_TIMEOUT_S)[1]
    except subprocess.TimeoutExpired as late:
        written = bytes(late.stderr or b"").decode()
        assert "Exception ignored in" in written, written
        assert "KeyboardInterrupt" in written, written
    interrupt(process, 1)
    return process.communicate(timeout=END_TIMEOUT_S)[1]


def interrupted_run(cluster: Cluster, delay_s: float, times: int) -> None:
    process = cluster.start(str(SCRIPTS / "ticker.py"))
    members = [psutil.Process(process.pid)]
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(delay_s)
        members = interrupt(process, times)
        err = told_until_the_end(process)
    finally:
        for member in members:
            with suppress(psutil.NoSuchProcess):
                member.kill()
    assert process.returncode != 0
    assert "pathways/cli" not in err, f"a traceback of ours after {delay_s:.2f} s:\n{err}"
    wait_until(lambda: not living(members), f"every process of a run that was interrupted after {delay_s:.2f} s to end")


def two_at_a_time(runs: list[Callable[[], None]]) -> None:
    """Most of what such a run does is to wait for its moment."""
    with ThreadPoolExecutor(2) as threads:
        ended = [threads.submit(run) for run in runs]
    for each in ended:
        each.result()


def check_interruptions(cluster: Cluster, moments: int) -> None:
    moment = random.Random(2026)
    two_at_a_time([partial(interrupted_run, cluster, moment.uniform(0.1, 6.0), times=1 + index % 2) for index in range(moments)])
    wait_until(lambda: cluster.sessions() == 0, "the sessions of interrupted runs to be closed")


def test_interrupted_runs_leave_no_process_and_no_session(cluster: Cluster) -> None:
    check_interruptions(cluster, moments=3)


@pytest.mark.slow
def test_twenty_interrupted_runs_leave_no_process_and_no_session(cluster: Cluster) -> None:
    check_interruptions(cluster, moments=20)


def killed(run: subprocess.Popen[str]) -> bool:
    """Kills the script of a run wherever it is in its start, but not its door; whether the run has ended."""
    with suppress(psutil.Error):
        for each in psutil.Process(run.pid).children(recursive=True):
            with suppress(psutil.Error):
                if "ticker.py" in " ".join(each.cmdline()) and "pathways_door" not in each.cmdline():
                    each.kill()
    return run.poll() is not None


def killed_run(cluster: Cluster, delay_s: float) -> None:
    process = cluster.start(str(SCRIPTS / "ticker.py"))
    try:
        with suppress(subprocess.TimeoutExpired):
            process.wait(delay_s)
        wait_until(lambda: killed(process), "a script that was killed to end its run")
    finally:
        process.kill()


@pytest.mark.slow
def test_clients_killed_at_any_moment_leave_nothing(cluster: Cluster) -> None:
    moment = random.Random(26)
    two_at_a_time([partial(killed_run, cluster, moment.uniform(0.2, 6.0)) for _ in range(10)])
    wait_until(lambda: cluster.sessions() == 0, "the sessions of killed clients to be closed")
    cluster.check_leaks(set())


def test_down_ends_everything_under_a_running_script() -> None:
    with running_cluster(islands=1, hosts=1, devices=1) as cluster:
        process = cluster.start(str(SCRIPTS / "ticker.py"))
        try:
            assert Lines(process).next(60) == "step 1"
            members = family(process.pid)
            assert cluster.down().returncode == 0
            assert process.wait(60) != 0
        finally:
            process.kill()
        wait_until(lambda: not living(members), "the script and its door to end")
        wait_until(lambda: not cluster.leftovers(), "every process of the cluster to end")
        cluster.up()  # the same state directory serves again


def test_interrupted_foreground_cluster_ends_everything(tmp_path: Path) -> None:
    command = [PATHWAYS, "up", "--islands", "1", "--hosts", "1", "--devices", "1", "--port", str(free_port())]
    process = subprocess.Popen(
        [*command, "--state-dir", str(tmp_path)],
        env=plain_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any(line.startswith("ready grpc://127.0.0.1:") for line in lines)
        members = interrupt(process, times=1)
        process.communicate(timeout=END_TIMEOUT_S)
    finally:
        process.kill()
    wait_until(lambda: not living(members), "every process of an interrupted cluster to end")


def test_ephemeral_cluster_serves_one_script_and_is_gone(tmp_path: Path) -> None:
    state = {"PATHWAYS_STATE_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    script = [str(SCRIPTS / "gangs.py"), "4", "0"]
    process = subprocess.Popen(
        [PATHWAYS, "run", "--islands", "1", "--hosts", "1", "--devices", "1", "--", sys.executable, *script],
        env=plain_environment() | state,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    lines = Lines(process)
    try:
        said = [lines.next(120)]
        members = family(process.pid)
        said.append(lines.next(60))
        process.wait(60)
    finally:
        process.kill()
    assert process.stderr is not None
    assert process.returncode == 0, process.stderr.read()
    assert said == ["devices 1", "result [4.0]"]
    assert lines.drain() == []
    wait_until(lambda: not living(members), "every process of an ephemeral cluster to end")
