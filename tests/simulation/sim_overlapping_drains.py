"""Hosts that are drained while another one is, in some of the seeds in which hosts are drained within their island.

They are asked for soon after the first, or when its island is about to form again under its sessions. Each is stopped once it is
empty and comes back, or is taken back before that. Draws are its own, so that seeds without any of it go on as they would.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pathways_common.model.ids import HostName
from pathways_server.core import events

from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

BESIDE = "host drained beside another"
AT_ONCE = "hosts DRAINED at once"
MEANWHILE = "host drained while an island is about to form"


class OverlappingDrains:
    """Belongs to one cluster. `draining`: hosts that are to be taken back some time; `counts`: how often what happened."""

    def __init__(self, cluster: Cluster, seed: int, draining: dict[str, None], counts: dict[str, int]) -> None:
        self._cluster = cluster
        self._random = random.Random(f"overlapping drains {seed}")
        self._drawn = self._random.random() < 0.5
        self._draining = draining
        self._counts = counts

    def on_drain(self) -> None:
        """A host begins to be drained: others follow."""
        if not self._drawn:
            return
        for _ in range(self._random.choice([1, 1, 2])):
            if self._random.random() < 0.5:
                self._later(self._ask, 0, 20)
            else:
                self._await_regrouping()

    def _later(self, action: Any, low_ms: float, high_ms: float) -> None:
        self._cluster.world.after(int(self._random.uniform(low_ms, high_ms) * MILLISECOND_NS), action)

    def _await_regrouping(self) -> None:
        if any(each.migrations for each in self._cluster.core.state.regroupings.values()):
            self._counts[MEANWHILE] += 1
            self._ask()
        elif self._draining and self._cluster.faults.on:
            self._cluster.world.after(2 * MILLISECOND_NS, self._await_regrouping)

    def _ask(self) -> None:
        """Not of the last host: somebody has to take it all."""
        cluster, draining = self._cluster, self._draining
        hosts = [each for each in cluster.hosts.values() if each.up and each.island in cluster.sizes]
        there = [host.name for host in hosts if host.name not in draining]
        if cluster.faults.on and draining and len(there) > 1:
            name = self._random.choice(there)
            self._counts[BESIDE] += 1
            draining[name] = None
            cluster.post(events.DrainSet(HostName(name), True))
            self._later(lambda: self._look(name), 5, 40)

    def _look(self, name: str) -> None:
        cluster = self._cluster
        drains = cluster.core.state.drains
        drain = drains.get(HostName(name))
        if drain is None or not cluster.faults.on:
            return
        if drain.drained:
            self._counts[AT_ONCE] += any(other.drained for other in drains.values() if other is not drain)
            if cluster.hosts[name].up and self._random.random() < 0.7:
                cluster.migrations.end_daemon(name)
                self._later(lambda: cluster.start_host(name), 1, 60)
            self._later(lambda: self._take_back(name), 1, 80)
        elif self._random.random() < 0.1:
            self._take_back(name)
        else:
            self._later(lambda: self._look(name), 5, 40)

    def _take_back(self, name: str) -> None:
        if self._draining.pop(name, 0) is None:
            self._cluster.post(events.DrainSet(HostName(name), False))
