"""`pathways diagnose` while an executor is stopped names it and what waits for it; `pathways story` tells why a run failed."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pathways_proto.v1 import cluster_pb2

from tests.cluster import PATHWAYS, Cluster, wait_until
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster
TICKER = str(Path(__file__).with_name("scripts") / "ticker.py")
# What the product promises for the answer, whatever is stuck.
PROMISED_S = 5.0
FAILS = """
import jax, numpy as np
def boom(x):
    raise ValueError("no such customer")
shape = jax.ShapeDtypeStruct((), np.float32)
f = jax.jit(lambda x: jax.pure_callback(boom, shape, x) + 1)
try:
    np.asarray(f(np.float32(1)))
except jax.errors.JaxRuntimeError as error:
    print(str(error).splitlines()[-1], flush=True)
input()
"""


def asked(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [PATHWAYS, *words, "--address", cluster.address]
    return subprocess.run(command, env=cluster.environment, capture_output=True, text=True, timeout=60, check=False)


def timed(cluster: Cluster, *words: str) -> tuple[float, subprocess.CompletedProcess[str]]:
    began_s = time.monotonic()
    done = asked(cluster, *words)
    return time.monotonic() - began_s, done


def told_of(cluster: Cluster, **fields: Any) -> list[str]:
    answer = cluster.ask("GetStory", cluster_pb2.GetStoryRequest(**fields))
    return [line.text for line in answer.lines]


@contextmanager
def ticking(cluster: Cluster) -> Iterator[None]:
    process = cluster.start(TICKER)
    lines = Lines(process)
    try:
        assert lines.next(90) == "step 1"
        yield
        # Nothing was lost by being looked at.
        assert any((lines.next(30) or "").startswith("step ") for _ in range(3))
    finally:
        stop(process)


def owes_a_gang(cluster: Cluster) -> bool:
    """Whether work stays in flight; what has ended is out of the books in a moment."""
    try:
        wait_until(lambda: not cluster.ask("ListWork", cluster_pb2.ListWorkRequest()).work, "the end of all work", 0.5)
    except AssertionError:
        return True
    return False


@contextmanager
def stopped(cluster: Cluster, host: str) -> Iterator[set[int]]:
    """In the middle of a gang. Stopped between its end and the read of its value, an executor owes nothing but bytes; it is
    let go on then, and stopped again."""
    processes = cluster.executors(host)

    def signalled(number: signal.Signals) -> None:
        for process in processes:
            process.send_signal(number)

    try:
        for _ in range(20):
            signalled(signal.SIGSTOP)
            if owes_a_gang(cluster):
                break
            signalled(signal.SIGCONT)
        yield {process.pid for process in processes}
    finally:
        signalled(signal.SIGCONT)


def check_parts(cluster: Cluster, answer: dict[str, Any], text: str) -> None:
    """What is promised of every host, and the last transitions; in the answer and in the text of the archive."""
    (island,) = cluster.status().islands
    for host in answer["hosts"]:
        name, figures = host["host"], host["diagnosis"]
        assert int(figures["epoch"]) == island.epoch
        assert int(figures["memory_bytes"]) > int(figures["memory_available_bytes"]) > 0
        assert {"DAEMON", "EXECUTOR"} <= {each["role"] for each in figures["processes"] if int(each["resident_bytes"]) > 1 << 20}
        assert int(host["finished"]["sequence"]) > 0
        assert int(host["queue"]) >= bool(host.get("running"))
        part = text[text.index(f"HOST {name}\n") :].partition("\n\n")[0]
        assert re.search(r"finished through \d+, \d+ arrays of .+, .+ of the machine's memory free; \d+ items wait for it", part)
        assert re.search(r"^  daemon \d+: state .*\n +Stack \(most recent call first\):\n +File ", part, re.M), part
        assert re.search(r"^  executor \d+: state ", part, re.M), part
    told = {(line["subject"], line["text"]) for line in answer["recent"]}
    assert any(subject == "island a" and "ACTIVE" in words for subject, words in told), told
    assert any(subject == "host a1" and "ACTIVE" in words for subject, words in told), told
    assert "LAST CHANGES of hosts and islands" in text


def test_a_stopped_executor_is_named_with_what_waits_for_it(cluster: Cluster, tmp_path: Path) -> None:
    archive = tmp_path / "night.tar.gz"
    with ticking(cluster):
        plain_s, _ = timed(cluster, "status")
        with stopped(cluster, "a1") as pids:
            took_s, done = timed(cluster, "diagnose", "--output", str(archive))
        assert done.returncode == 0, done.stderr
        heading, verdict = done.stdout.splitlines()[:2]
        assert heading == "VERDICT"
        found = re.fullmatch(r" *the executor of a1 \(pid (\d+)\) cannot answer: state T \(stopped\); .*", verdict)
        assert found is not None, done.stdout
        assert int(found[1]) in pids
        # It may have been stopped between the end of a gang and the report of it, or when a0 had what it needs to finish alone.
        waits = r"not finished gang \d+ of program \d+\.\d+.*|finished gang \d+ of program .* and has not said so.*"
        assert re.search(rf"It has ({waits})\.$", verdict), verdict
        # Beyond what any command costs on this machine now.
        assert took_s - plain_s < PROMISED_S
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
        answer = json.load(packed.extractfile("night/diagnosis.json") or pytest.fail("no diagnosis"))
        text = (packed.extractfile("night/everything.txt") or pytest.fail("no text")).read().decode()
    assert names >= {"diagnosis.txt", "everything.txt", "status.json", "work.json", "buffers.json", "logs/a1.log"}
    hosts = {host["host"]: host for host in answer["hosts"]}
    processes = {name: {each["role"]: each for each in host["diagnosis"]["processes"]} for name, host in hosts.items()}
    # The stacks of those that live: the executor's loop, and the daemon's answer to the question.
    assert any("dispatcher.py" in line for line in processes["a0"]["EXECUTOR"]["stacks"])
    assert processes["a1"]["EXECUTOR"]["stacks"] == []
    assert processes["a1"]["DAEMON"]["stacks"]
    check_parts(cluster, answer, text)
    gangs = {name: host.get("running") or {} for name, host in hosts.items()}
    assert "a1" in gangs["a1"]["unfinished_hosts"]
    if verdict.endswith(", and a0 with it."):
        assert gangs["a0"]["sequence"] == gangs["a1"]["sequence"]
        assert "a1" in gangs["a0"]["unfinished_hosts"]
        assert all(int(host["finished"]["sequence"]) < int(host["running"]["sequence"]) for host in hosts.values())


@pytest.mark.slow
def test_a_stopped_daemon_is_named_with_the_kernels_word(cluster: Cluster) -> None:
    (daemon,) = [process for process in cluster.processes() if "a0" in process.cmdline() and "--island" in process.cmdline()]
    daemon.send_signal(signal.SIGSTOP)
    try:
        done = asked(cluster, "diagnose")
    finally:
        daemon.send_signal(signal.SIGCONT)
    silence = f"its daemon (pid {daemon.pid}) did not answer within 2 s: state T (stopped)"
    assert done.stdout.splitlines()[1].strip() == f"host a0 is stuck or cut off: {silence}.", done.stdout
    # The daemon cannot speak for its executor, but the kernel of this machine can.
    assert re.search(r"^  executor of a0 \(pid \d+\): state S ", done.stdout, re.M), done.stdout


@pytest.mark.slow
def test_a_stopped_controller_is_named_and_an_archive_is_written_all_the_same(cluster: Cluster, tmp_path: Path) -> None:
    archive = tmp_path / "night.tar.gz"
    (controller,) = [each for each in cluster.processes() if "pathways_server" in " ".join(each.cmdline())]
    controller.send_signal(signal.SIGSTOP)
    try:
        done = asked(cluster, "diagnose", "--output", str(archive))
    finally:
        controller.send_signal(signal.SIGCONT)
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"its process: controller (pid {controller.pid}): state T (stopped)" in done.stdout
    for host in ("a0", "a1"):
        assert re.search(rf"^  executor of {host} \(pid \d+\): state ", done.stdout, re.M), done.stdout
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    assert names >= {"diagnosis.txt", "diagnosis.json", "logs/controller.log", "logs/a0.log", "logs/a1.log"}


def test_a_healthy_cluster_is_said_to_be_so_and_its_executors_survive_being_asked(cluster: Cluster) -> None:
    epochs = [island.epoch for island in cluster.status().islands]
    with ticking(cluster):
        for _ in range(2):
            done = asked(cluster, "diagnose")
            assert done.stdout.splitlines()[1].strip().startswith("nothing is stuck: every process of 2 hosts answers"), (
                done.stdout
            )
    assert [island.epoch for island in cluster.status().islands] == epochs


def test_the_story_of_a_failed_run_has_its_cause_and_is_found_by_run_session_and_failure(cluster: Cluster) -> None:
    process = cluster.start("-c", FAILS, stdin=True)
    lines = Lines(process)
    try:
        last = lines.next(90) or ""
        found = re.fullmatch(r"\[pathways reason=USER_ERROR host=(\w+) id=(\w+)\]", last)
        assert found is not None, last
        host, failure = found.groups()
        told = asked(cluster, "story", "failure", failure)
        assert told.returncode == 0, told.stderr
        assert "no such customer" in told.stdout
        run = re.search(r"run (\d+)\.(\d+)  failed for this cause", told.stdout)
        assert run is not None, told.stdout
        whole = asked(cluster, "story", "run", f"{run[1]}.{run[2]}").stdout
        moments = [whole.find(words) for words in ("asked for by tenant default", "granted on island a as gang", failure)]
        assert sorted(moments) == moments, whole
        assert moments[0] >= 0, whole
        for fields in ({"kind": "SESSION", "number": int(run[1])}, {"kind": "HOST", "name": host}):
            assert any(failure in text for text in told_of(cluster, **fields))
        nothing = asked(cluster, "story", "failure", "f999999")
        assert nothing.returncode == 1
        assert nothing.stderr.startswith("pathways: nothing is remembered of failure f999999")
    finally:
        process.communicate("\n", timeout=60)
    number = int(run[1])
    wait_until(
        lambda: any("session closed" in text for text in told_of(cluster, kind="SESSION", number=number)),
        "the end of its session",
    )


def test_versions_of_the_cluster_are_shown_beside_those_of_the_command(cluster: Cluster) -> None:
    done = asked(cluster, "version")
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()[-2:]
    assert [row.split("  ")[0] for row in rows] == ["this installation, worker a0, worker a1", "controller"]
