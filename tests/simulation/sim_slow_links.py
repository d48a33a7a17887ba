"""Links of hosts on which all takes longer than half the deadline, each way, for a while: nothing is lost, nobody is stuck.

In a third of the seeds with stuck hosts, from a random stream of its own. Signs of life come on such a link as on any other, and
the controller hears of them.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from pathways_common.model.ids import HostName
from pathways_server.core import events

from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster
    from tests.simulation.sim_host import SimHost

WAY_NS = 1700 * MILLISECOND_NS  # a round trip is longer than the deadline, and shorter than a step of forming an epoch
_SIGN_NS = 700 * MILLISECOND_NS
# Until nothing is on its way any more, and a quick answer has come.
_REST_NS = 4 * WAY_NS


class SlowLinks:
    """Belongs to one cluster. `count`: how often a link became slow."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._random = Random(f"slow links {cluster.world.seed}")
        self.drawn = cluster.stuck_hosts.limit_ns > 0 and self._random.random() < 1 / 3
        self.count = 0
        self._until_ns: dict[str, int] = {}

    def start(self) -> None:
        if self.drawn:
            self._later()

    def _later(self) -> None:
        self._world.after(int(self._random.uniform(1000, 5000) * MILLISECOND_NS), self._strike)

    def _strike(self) -> None:
        if not self._cluster.faults.on:
            return
        host = self._random.choice(list(self._cluster.hosts.values()))
        duration_ns = int(self._random.uniform(5000, 15000) * MILLISECOND_NS)
        if not self.has_slow_link(host.name) and host.inbox is None:
            self.count += 1
            self._until_ns[host.name] = self._moving_ns() + duration_ns
            self._show_life(host)
        self._later()

    def way_ns(self, name: str) -> int:
        """How much longer what is sent now takes to or from a host."""
        slow = self._cluster.faults.on and self._moving_ns() < self._until_ns.get(name, 0)
        return WAY_NS if slow else 0

    def has_slow_link(self, name: str) -> bool:
        """Whether anything that a host said or was told may be old still."""
        return name in self._until_ns and self._moving_ns() < self._until_ns[name] + _REST_NS

    def _moving_ns(self) -> int:
        """Time in which not everything stood still, what is on its way among it."""
        return self._world.now_ns - self._world.still_ns

    def _show_life(self, host: SimHost) -> None:
        if not self.has_slow_link(host.name):
            return
        end = host.end
        if host.up and host.inbox is None and end is not None and end.open and not end.broken and not end.away:
            self._cluster.post(events.HostHeard(HostName(host.name), host.incarnation))
        self._world.after(_SIGN_NS, lambda: self._show_life(host))
