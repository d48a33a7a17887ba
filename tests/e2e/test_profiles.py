"""JAX's own profiler around work on a cluster: its files have what every host launched for this session, and for nobody else."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import PATHWAYS, Cluster
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster
SCRIPT = str(Path(__file__).with_name("scripts") / "profiled.py")
HOSTS = ("a0", "a1")
# What the script launches while it is profiled: each function alone, and both in a program.
DOUBLED, SUMMED, PROGRAMS = 3, 5, 1


def command(cluster: Cluster, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    line = [PATHWAYS, *words, "--address", cluster.address]
    return subprocess.run(line, env=cluster.environment | environment, capture_output=True, text=True, timeout=60, check=False)


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@contextmanager
def running(cluster: Cluster, *words: str, **environment: str) -> Iterator[tuple[subprocess.Popen[str], Lines]]:
    """The script, once it is ready."""
    process = cluster.start(SCRIPT, *words, stdin=True, **environment)
    lines = Lines(process)
    try:
        assert lines.next(120) == "ready"
        yield process, lines
    finally:
        stop(process)


def timeline(folder: Path) -> list[dict[str, Any]]:
    """The events of the one trace below a folder, as a viewer reads them."""
    (path,) = folder.glob("plugins/profile/*/*.trace.json.gz")
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return events


def of_hosts(events: list[dict[str, Any]], kind: str) -> dict[str, list[dict[str, Any]]]:
    """Events of a kind by the host on whose track they are."""
    names = {event["pid"]: event["args"]["name"].split()[0] for event in events if event.get("name") == "process_name"}
    found: dict[str, list[dict[str, Any]]] = {}
    for event in events:
        if event.get("cat") == kind:
            found.setdefault(names[event["pid"]], []).append(event)
    return found


def nodes_of(event: dict[str, Any]) -> int:
    """How many functions a launch stands for: neighbours in a program may be launched as one."""
    first: int = event["args"]["node"] or 0
    return int(event["args"].get("last_node", first)) - first + 1


def profile(cluster: Cluster, folder: Path, **environment: str) -> tuple[int, str]:
    """Runs the script to its end: the number of its session, and its errors."""
    before = cluster.session_numbers()
    with running(cluster, "profile", str(folder), **environment) as (process, lines):
        (session,) = cluster.session_numbers() - before
        go_on(process)
        assert lines.next(60) == "[56.0]"
        go_on(process)
        assert lines.next(60) == "stopped"
        go_on(process)
        assert process.wait(60) == 0
        assert process.stderr is not None
        return session, process.stderr.read()


def test_a_profile_of_jax_has_the_launches_of_every_host_and_of_nobody_else(cluster: Cluster, tmp_path: Path) -> None:
    tokens = [command(cluster, "tenants", "add", name).stdout.strip() for name in ("profiler", "neighbour")]
    try:
        with running(cluster, "beside", PATHWAYS_TOKEN=tokens[1]) as (neighbour, _):
            session, errors = profile(cluster, tmp_path, PATHWAYS_TOKEN=tokens[0])
            go_on(neighbour)
            assert neighbour.wait(60) == 0
    finally:
        for name in ("profiler", "neighbour"):
            command(cluster, "tenants", "remove", name)
    assert errors == ""
    events = timeline(tmp_path)
    launches = of_hosts(events, "launches")
    assert tuple(sorted(launches)) == HOSTS
    (steps,) = [event for event in events if event.get("name") == "the steps"]
    for host, mine in launches.items():
        alone = Counter(event["name"] for event in mine if not event["args"]["node"])
        assert alone == {"jit_doubled": DOUBLED, "jit_summed": SUMMED}, host
        assert sum(nodes_of(event) for event in mine if event["args"]["node"]) == 2 * PROGRAMS, host
        assert {event["args"]["execution"].partition(".")[0] for event in mine} == {str(session)}
        for event in mine:
            assert event["ph"] == "X"
            assert event["dur"] >= 0
            # On one machine all clocks are one: what the client asked for began after it had asked.
            assert steps["ts"] <= event["ts"] <= steps["ts"] + steps["dur"], (event, steps)
        assert len(of_hosts(events, "dispatch")[host]) == len(mine)
    check_order(launches)


def check_order(launches: dict[str, list[dict[str, Any]]]) -> None:
    """Every host launched the same gangs in the island's order."""
    orders = [sorted(mine, key=lambda event: event["ts"]) for mine in launches.values()]
    sequences = [[event["args"]["sequence"] for event in order] for order in orders]
    assert sequences[0] == sequences[1] == sorted(set(sequences[0]))
    # Each call waited for its result, so no member of a gang began before the gang before it had begun on the other host.
    for first, second in ((0, 1), (1, 0)):
        for earlier, later in zip(orders[first], orders[second][1:], strict=False):
            assert earlier["ts"] <= later["ts"] + later["dur"]


def test_a_sessions_launches_are_shown_to_its_tenant_and_hidden_from_others(cluster: Cluster, tmp_path: Path) -> None:
    tokens = [command(cluster, "tenants", "add", name).stdout.strip() for name in ("owner", "stranger")]
    before = cluster.session_numbers()
    try:
        with running(cluster, "profile", str(tmp_path), PATHWAYS_TOKEN=tokens[0]) as _:
            (session,) = cluster.session_numbers() - before
            shown = command(cluster, "trace", "--session", str(session), PATHWAYS_TOKEN=tokens[0])
            assert shown.returncode == 0, shown.stderr
            for name in ("jit_doubled", "jit_summed", "jit_unprofiled"):
                (line,) = [line for line in shown.stdout.splitlines() if f" {name} " in line]
                assert line.split("│")[3].strip() == "2", "launched by both hosts"
            written = command(cluster, "trace", "--session", str(session), "-o", str(tmp_path / "session.json"))
            assert written.returncode == 0, written.stderr
            assert (
                tuple(sorted(of_hosts(json.loads((tmp_path / "session.json").read_text())["traceEvents"], "launches"))) == HOSTS
            )
            hidden = command(cluster, "trace", "--session", str(session), PATHWAYS_TOKEN=tokens[1])
            unknown = command(cluster, "trace", "--session", str(session + 1000), PATHWAYS_TOKEN=tokens[1])
            assert hidden.returncode == unknown.returncode == 1
            assert hidden.stderr == unknown.stderr.replace(str(session + 1000), str(session))
            assert f"session {session} is not open" in hidden.stderr
    finally:
        for name in ("owner", "stranger"):
            command(cluster, "tenants", "remove", name)


def test_a_host_that_does_not_answer_is_a_warning_and_the_script_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    with running(cluster, "profile", str(tmp_path)) as (process, lines):
        go_on(process)
        assert lines.next(60) == "[56.0]"
        stopped = cluster.executors("a1")
        for executor in stopped:
            executor.send_signal(signal.SIGSTOP)
        try:
            go_on(process)
            assert process.stderr is not None
            warning = process.stderr.readline()
        finally:
            for executor in stopped:
                executor.send_signal(signal.SIGCONT)
        assert lines.next(60) == "stopped"
        go_on(process)
        assert process.wait(60) == 0
    assert warning == "a profile of JAX has not all of the cluster in it: no answer came from a1 within 2 s\n"
    assert tuple(of_hosts(timeline(tmp_path), "launches")) == ("a0",)
