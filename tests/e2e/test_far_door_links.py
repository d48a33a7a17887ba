"""Links between stock JAX and the controller's own door: dropped, carrying nothing, slow. None is resumed, and nothing is left.

The client is plain Python with JAX_BACKEND_TARGET; its numbers are those of numpy. Others go on, through doors of their own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster import ROOT, free_port, wait_until
from tests.e2e.lines import Lines, stop
from tests.e2e.loopback_proxy import LoopbackProxy, proxied
from tests.e2e.test_dropped_links import CLIENTS, FAR_S, LINE_S, SCRIPTS, Linked, behind_proxies, expected, read_until, stepping

pytestmark = [pytest.mark.slow, pytest.mark.waits, pytest.mark.cluster]
WAY_S = 5.0


class WithDoor(Linked):
    """With a door for stock JAX, which gives up who answers no ping for 12 s: a link of 5 s takes less, and one of 60 s more."""

    hosts_at = "127.0.0.1"
    keepalive_s = 6.0

    def start_controller(self) -> None:
        self.door_port = free_port()
        self.more = ("--ifrt-port", str(self.door_port))
        super().start_controller()


@pytest.fixture(scope="module")
def served() -> Iterator[WithDoor]:
    with behind_proxies(WithDoor) as links:
        assert isinstance(links.cluster, WithDoor)
        yield links.cluster


@contextmanager
def far_client(cluster: WithDoor, *words: str) -> Iterator[tuple[subprocess.Popen[str], Lines, LoopbackProxy]]:
    """A script of stock JAX on the door, behind a proxy of its own."""
    with proxied(CLIENTS, cluster.door_port) as proxy:
        stock = {"JAX_PLATFORMS": "proxy", "JAX_BACKEND_TARGET": f"grpc://{CLIENTS}:{cluster.door_port}"}
        process = subprocess.Popen(
            [sys.executable, *words], env=cluster.environment | stock, cwd=ROOT, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            yield process, Lines(process), proxy
        finally:
            proxy.mend()
            stop(process)


def test_a_far_client_whose_link_takes_5_s_each_way_is_only_slow(served: WithDoor) -> None:
    before = (served.incarnations(), served.epoch())
    with far_client(served, str(SCRIPTS / "wrapping_steps.py"), "200") as (process, lines, proxy):
        read_until(lines, 4)
        sessions, connections = served.session_numbers(), proxy.connections
        proxy.away(WAY_S)
        while lines.next(WAY_S) is not None:  # what came before
            pass
        began_s = time.monotonic()
        for _ in range(2):
            assert (lines.next(LINE_S) or "").startswith("step")
        # To the door and back; of the first, some was on its way already.
        assert time.monotonic() - began_s > 2 * WAY_S
        proxy.mend()
        assert (served.session_numbers(), proxy.connections) == (sessions, connections)
        while not (line := lines.next(LINE_S) or "values missing").startswith("values"):
            pass
        assert line == expected(200, devices=2)
        assert process.stdin is not None
        process.stdin.write("end\n")
        process.stdin.flush()
        assert process.wait(LINE_S) == 0
    assert (served.incarnations(), served.epoch()) == before


@pytest.mark.parametrize("fault", ["dropped", "carries nothing", "takes 60 s"])
def test_a_far_client_whose_link_is_gone_is_given_up_and_nobody_else_notices(served: WithDoor, fault: str) -> None:
    before = (served.incarnations(), served.epoch())
    with stepping(served, "127.0.0.1", 2000) as others:
        own = served.session_numbers()
        with far_client(served, str(SCRIPTS / "ticker.py")) as (process, lines, proxy):
            read_until(lines, 3)
            assert len(served.session_numbers() - own) == 1
            if fault == "dropped":
                proxy.drop()
            elif fault == "carries nothing":
                proxy.stall()
            else:
                proxy.away(FAR_S)
            wait_until(lambda: served.session_numbers() == own, "the session to be given up")
            served.check_leaks(own)
            proxy.mend()
            if fault != "takes 60 s":  # else it hears of the end a minute later
                assert process.wait(LINE_S) != 0
                assert process.stderr is not None
                assert "JaxRuntimeError" in process.stderr.read()
        number = int((others.next(LINE_S) or "").split()[1])
        read_until(others, number + 20)
    assert (served.incarnations(), served.epoch()) == before
