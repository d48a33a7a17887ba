"""What `pathways status` is told of the time in which members of gangs waited for each other."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from pathways_proto.v1 import cluster_pb2
from pathways_server.rpc.clusters import ClustersService
from pathways_server.shell.counters import Counters

from tests.unit.core.core_shares import MS, Bench


def test_how_long_devices_waited_for_the_last_member_is_shown_and_for_whom() -> None:
    bench = Bench(late_ns=MS)
    for name, length in (("ads", 2 * MS), ("maps", 5 * MS)):
        bench.join(name, length)
    bench.run(2_000 * MS)
    loop: Any = SimpleNamespace(core=bench.driver.core, hosts={})
    service = ClustersService(loop, Counters(), 1, "0.1.0", SimpleNamespace(visible_tenant=lambda context: context))  # type: ignore[arg-type]
    status = asyncio.run(service.get_status(cluster_pb2.GetStatusRequest(), None))
    (island,) = status.islands
    # In each gang a0 waits a millisecond for a1, on one device; the first four were granted alone, and told no times.
    gangs = bench.clients[1].ended + bench.clients[2].ended
    assert island.skew_seconds == pytest.approx((gangs - 4) / 1000)
    assert {host.name: host.late_seconds for host in island.hosts} == {"a0": 0, "a1": island.skew_seconds}
