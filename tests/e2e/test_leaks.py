"""However a session ends, what it owned is gone, on every host; and what is shown of it while it is there is true."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from pathways_proto.v1 import cluster_pb2

from tests.cluster import PATHWAYS, ROOT, Cluster, wait_until
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster
OWNER = str(ROOT / "tests" / "e2e" / "scripts" / "owner.py")


@contextmanager
def owner(cluster: Cluster, end: str) -> Iterator[Lines]:
    process = cluster.start(OWNER, end, stdin=True)
    lines = Lines(process)
    try:
        # 2 * 1 + 1 is 3, and 2 * 3 + 1 is 7.
        assert lines.next(90) == "made 1.0 7.0"
        yield lines
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)
    finally:
        stop(process)


def asked(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [PATHWAYS, *words, "--address", cluster.address]
    return subprocess.run(command, env=cluster.environment, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("end", ["waits", "failed", "cancelled"])
def test_what_a_session_owns_has_an_owner_while_it_is_open_and_is_gone_when_it_ended(cluster: Cluster, end: str) -> None:
    with owner(cluster, end) as lines:
        if end != "waits":
            assert lines.next(60) == {"failed": "UserError", "cancelled": "CancelledError"}[end]
        open_sessions = cluster.session_numbers()
        assert len(open_sessions) == 1
        cluster.check_leaks(open_sessions)
        # Ten arrays and the executables, on both hosts.
        assert cluster.find_leaks().objects >= 20
    cluster.check_leaks(set())
    # A host keeps an image that another has pulled for two seconds, for who says that the call broke.
    wait_until(lambda: cluster.find_leaks().objects == 0, "the hosts to hold nothing")


@pytest.mark.parametrize("end", ["killed", "door"])
def test_what_a_killed_client_or_door_owned_is_gone_from_every_host(cluster: Cluster, end: str) -> None:
    with owner(cluster, end):
        pass
    cluster.check_leaks(set())
    # A host keeps an image that another has pulled for two seconds, for who says that the call broke.
    wait_until(lambda: cluster.find_leaks().objects == 0, "the hosts to hold nothing")


def test_arrays_that_a_script_lets_go_of_are_gone_while_it_goes_on(cluster: Cluster) -> None:
    with owner(cluster, "dropped") as lines:
        assert lines.next(60) == "let go 0"
        cluster.check_leaks(cluster.session_numbers())
        (session,) = cluster.status().sessions
        wait_until(lambda: cluster.status().sessions[0].live_bytes < 1 << 18, "the arrays that were let go of to be freed")
        assert session.session_number in cluster.session_numbers()


def test_the_commands_tell_what_there_is(cluster: Cluster) -> None:
    assert asked(cluster, "ps").stdout == "nothing is in line or in flight\n"
    assert asked(cluster, "buffers").stdout == "no session is open\n"
    with owner(cluster, "waits"):
        (number,) = cluster.session_numbers()
        told = json.loads(asked(cluster, "buffers", "-o", "json", "--session", str(number)).stdout)
        (session,) = told["sessions"]
        # 1 MiB split over both devices, eight results of it, the program's result, and one with a whole copy on each device.
        assert int(session["live_bytes"]) == 10 * (1 << 20) + 2 * (1 << 20)
        devices = [(each["host"], each["device"], int(each["live_bytes"])) for each in session["devices"]]
        assert devices == [("a0", 0, 6 << 20), ("a1", 0, 6 << 20)]
        assert [int(each["size_bytes"]) for each in session["largest"]] == [2 << 20] + [1 << 20] * 9
        shown = asked(cluster, "buffers", "--tenant", "nobody")
        assert (shown.returncode, shown.stdout) == (0, "no session is open\n")
        reason = asked(cluster, "why", "session", str(number))
        assert f"session {number} " in reason.stdout
        assert "waits for nothing here" in reason.stdout
        assert json.loads(asked(cluster, "ps", "-o", "json").stdout)["work"] == []
        clean = asked(cluster, "leaks")
        assert (clean.returncode, clean.stdout.startswith("no leaks: ")) == (0, True)
    unknown = asked(cluster, "why", "session", str(number))
    assert unknown.returncode == 1
    assert unknown.stderr == f"pathways: session {number} is not open\n"


@pytest.mark.parametrize("method", ["FindLeaks", "ListWork", "ListBuffers", "Explain"])
def test_every_view_needs_the_token(cluster: Cluster, method: str) -> None:
    request = getattr(cluster_pb2, f"{method}Request")()
    for token, problem in (("wrong", "the token is wrong"), ("", "no token was sent")):
        with pytest.raises(grpc.RpcError, match=problem) as caught:
            cluster.ask(method, request, token=token)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
