"""The door between a stock JAX client process and a stand-in cluster: each check of stock_client.py is a test."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

HERE = Path(__file__).parent
WAIT_S = 60
CHECKS = re.findall(r"^def ([a-z]\w*)\(", (HERE / "stock_client.py").read_text(), re.MULTILINE)


@dataclass
class Outcome:
    """What one run of all checks said, and what the cluster and the door said at their ends."""

    errors: dict[str, str] = field(default_factory=dict)
    first_goodbye: dict[str, Any] = field(default_factory=dict)
    door_exit: int | None = None


def _start(arguments: list[str], **environment: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = subprocess.Popen(
        [sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **environment}
    )
    return process, _next_line(process)


def _next_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], WAIT_S)
    assert ready, f"{process.args} said nothing for {WAIT_S} s"
    line: dict[str, Any] = json.loads(process.stdout.readline())
    return line


def _end(process: subprocess.Popen[str]) -> int:
    assert process.stdin is not None
    process.stdin.close()
    try:
        return process.wait(WAIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def _run_client(
    door: dict[str, Any],
    outcome: Outcome,
    cluster: subprocess.Popen[str] | None,
    *wanted: str,
    script: str = "stock_client.py",
) -> None:
    environment = {
        **os.environ,
        "JAX_PLATFORMS": "proxy,cpu",
        "JAX_BACKEND_TARGET": "grpc://" + door["address"],
        "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS": "true",
        "DOOR_SECRET": "sesame",
    }
    client = subprocess.Popen(
        [sys.executable, str(HERE / script), *wanted],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
    )  # fmt: skip
    assert client.stdout is not None
    assert client.stdin is not None
    try:
        for line in client.stdout:
            said = json.loads(line)
            if said["name"] == "end the cluster":
                assert cluster is not None
                cluster.send_signal(signal.SIGKILL)
                cluster.wait(WAIT_S)
                client.stdin.write("gone\n")
                client.stdin.flush()
            else:
                outcome.errors[said["name"]] = said["error"]
        assert client.wait(WAIT_S) == 0, f"the client ended early; run {script} by hand to see why"
    finally:
        client.kill()


@pytest.fixture(scope="module", params=["http2", "grpc"])
def outcome(request: pytest.FixtureRequest) -> Iterator[Outcome]:
    """One cluster, one door, two clients one after the other; the second sees the cluster go."""
    out = Outcome()
    cluster, there = _start([str(HERE / "fake_cluster.py"), "4"], JAX_PLATFORMS="cpu", FAKE_TOKEN="open")
    door, here = _start(
        ["-m", "pathways_door", "--controller", there["address"], "--ifrt-transport", request.param],
        PATHWAYS_TOKEN="open", PATHWAYS_DOOR_SECRET="sesame",
    )  # fmt: skip
    try:
        *most, last = CHECKS
        _run_client(here, out, None, *most)
        out.first_goodbye = _next_line(cluster)
        _run_client(here, out, cluster, last)
        out.door_exit = _end(door)
        yield out
    finally:
        for process in (door, cluster):
            process.kill()
            process.wait(WAIT_S)
            for stream in (process.stdin, process.stdout):
                _close(stream)


def _close(stream: IO[str] | None) -> None:
    if stream is not None:
        stream.close()


@pytest.mark.parametrize("check", CHECKS)
def test_stock_jax_through_the_door(outcome: Outcome, check: str) -> None:
    assert outcome.errors[check] == ""


def test_every_value_is_released_before_the_goodbye(outcome: Outcome) -> None:
    assert outcome.first_goodbye["goodbye"] == "the client disconnected"
    assert outcome.first_goodbye["values"] == 0


def test_rearranging_arrays_sends_no_views_unless_they_are_used_whole(outcome: Outcome) -> None:
    counts = outcome.first_goodbye["counts"]
    assert counts["make_view"] < 10
    assert counts["fetch"] > 50


def test_door_ends_with_its_owner(outcome: Outcome) -> None:
    assert outcome.door_exit == 0


def _refused(*arguments: str, **environment: str) -> dict[str, Any]:
    door, said = _start(["-m", "pathways_door", *arguments], **environment)
    try:
        assert door.wait(WAIT_S) == 1
    finally:
        door.kill()
        for stream in (door.stdin, door.stdout):
            _close(stream)
    failure: dict[str, Any] = said["failure"]
    return failure


def test_a_transport_that_does_not_exist_is_refused_with_its_alternatives() -> None:
    command = [sys.executable, "-m", "pathways_door", "--controller", "127.0.0.1:1"]
    environment = os.environ | {"PATHWAYS_IFRT_TRANSPORT": "carrier pigeon"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("PATHWAYS_IFRT_TRANSPORT is 'carrier pigeon'; set it to grpc or http2, or unset it\n")


def test_door_says_in_one_sentence_why_it_did_not_open() -> None:
    failure = _refused("--controller", "127.0.0.1:1")
    assert failure["reason"] == "UNAVAILABLE"
    assert failure["message"].startswith("the controller cannot be reached")
    assert "\n" not in failure["message"]


def test_door_passes_on_the_refusals_of_the_cluster() -> None:
    cluster, there = _start([str(HERE / "fake_cluster.py"), "1"], JAX_PLATFORMS="cpu", FAKE_TOKEN="open")
    try:
        wrong = _refused("--controller", there["address"], PATHWAYS_TOKEN="shut")
        assert wrong == {"reason": "UNAUTHENTICATED", "message": "the token is wrong: set PATHWAYS_TOKEN"}
        unknown = _refused("--controller", there["address"], "--islands", "z", PATHWAYS_TOKEN="open")
        assert unknown["message"] == "there is no island z; islands are a"
    finally:
        _end(cluster)
        _close(cluster.stdout)


def test_far_door_serves_any_client_with_a_session_each() -> None:
    cluster, there = _start([str(HERE / "fake_cluster.py"), "4"], JAX_PLATFORMS="cpu")
    door, here = _start(["-m", "pathways_door", "--controller", there["address"], "--far", "ads"])
    try:
        assert (here["session_number"], here["devices"]) == (0, 0)
        for number in (1, 2):
            outcome = Outcome()
            _run_client(here, outcome, None, "jit_computes_again_and_again")
            assert outcome.errors == {"jit_computes_again_and_again": ""}
            assert _next_line(cluster)["session"] == number
        outcome = Outcome()
        _run_client(here, outcome, None, "colocated_python_runs_on_its_devices")
        assert "not run for clients without a token" in outcome.errors["colocated_python_runs_on_its_devices"]
        door.terminate()
        assert door.wait(WAIT_S) == 0
    finally:
        door.kill()
        _end(cluster)
        for stream in (door.stdin, door.stdout, cluster.stdout):
            _close(stream)


def test_client_with_a_wrong_secret_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR_TIMEOUT_S", "2")
    cluster, there = _start([str(HERE / "fake_cluster.py"), "1"], JAX_PLATFORMS="cpu")
    door, here = _start(["-m", "pathways_door", "--controller", there["address"]], PATHWAYS_DOOR_SECRET="another")
    try:
        outcome = Outcome()
        _run_client(here, outcome, None, "jit_computes_again_and_again")
        assert "does not match this door's secret" in outcome.errors["jit_computes_again_and_again"]
    finally:
        _end(door)
        _end(cluster)
        for stream in (door.stdout, cluster.stdout):
            _close(stream)
