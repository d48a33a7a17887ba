"""Links on which everything takes 5 s each way, under a cluster with the deadlines that it has by itself: nobody is given up."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pathways_common.model.bounds import GRACE_NS, KEEPALIVE_NS
from pathways_server.core.config import CoreConfig

from tests.e2e.lines import Lines
from tests.e2e.loopback_proxy import LoopbackProxy
from tests.e2e.test_dropped_links import CLIENTS, LINE_S, SCRIPTS, Linked, Links, behind_proxies, read_until, start, stepping

pytestmark = [pytest.mark.slow, pytest.mark.waits, pytest.mark.cluster]
WAY_S = 5.0


class Ordinary(Linked):
    """With the deadlines of a cluster that nobody configured."""

    keepalive_s, lease_s, grace_s = KEEPALIVE_NS / 1e9, CoreConfig().lease_ns // 10**9, GRACE_NS // 10**9


@pytest.fixture(scope="module")
def ordinary() -> Iterator[Links]:
    with behind_proxies(Ordinary) as links:
        yield links


@contextmanager
def far(*proxies: LoopbackProxy) -> Iterator[None]:
    for proxy in proxies:
        proxy.away(WAY_S)
    try:
        yield
    finally:
        for proxy in proxies:
            proxy.mend()


def test_links_of_clients_and_hosts_that_take_5_s_each_way_only_slow_things_down(ordinary: Links) -> None:
    cluster = ordinary.cluster
    before = (cluster.incarnations(), cluster.epoch())
    with stepping(cluster, CLIENTS, 400) as lines:
        read_until(lines, 4)
        sessions = cluster.session_numbers()
        connections = ordinary.clients.connections + ordinary.hosts.connections
        with far(ordinary.clients, ordinary.hosts):
            while lines.next(WAY_S) is not None:  # what came before
                pass
            began_s = time.monotonic()
            for _ in range(2):
                assert (lines.next(LINE_S) or "").startswith("step")
            # To the controller, to the host, and back; of the first, some was on its way already.
            assert time.monotonic() - began_s > 4 * WAY_S
        assert (lines.next(LINE_S) or "").startswith("step")
        assert cluster.session_numbers() == sessions
        assert ordinary.clients.connections + ordinary.hosts.connections == connections, "a link was given up"
    assert "host stuck" not in cluster.log_of("controller")
    assert (cluster.incarnations(), cluster.epoch()) == before


def test_bytes_on_links_that_take_5_s_each_way_arrive_whole(ordinary: Links) -> None:
    cluster = ordinary.cluster
    before = (cluster.incarnations(), cluster.epoch())
    process = start(cluster, "127.0.0.1", str(SCRIPTS / "moving.py"), "6")
    try:
        lines = Lines(process)
        read_until(lines, 3)
        with far(ordinary.data, ordinary.hosts):
            read_until(lines, 4)
        while (line := lines.next(LINE_S)) is not None and line.startswith("step"):
            pass
        assert line == "values right", process.stderr.read() if process.poll() is not None and process.stderr else line
    finally:
        process.kill()
    assert (cluster.incarnations(), cluster.epoch()) == before
