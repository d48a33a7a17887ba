"""Executors that die at the moment at which another host of their island runs what they have no part in.

Drawn from a random stream of its own: chance hardly ever meets that moment.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster
    from tests.simulation.sim_host import SimHost

KIND = "death beside others"
_LOOK_NS = 3 * MILLISECOND_NS


class Bystanders:
    """Looks again and again while faults are on, in some seeds."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        draw = Random(f"bystanders {seed}")
        self.left = draw.choice((0, 0, 0, 1, 2)) if not cluster.stuck_hosts.limit_ns else 0
        self.pause_ns = draw.randrange(20, 400) * MILLISECOND_NS

    def start(self) -> None:
        if self.left:
            self.cluster.world.after(self.pause_ns, self.look)

    def look(self) -> None:
        cluster = self.cluster
        if not cluster.faults.on or not self.left:
            return
        victim = next((host for host in cluster.hosts.values() if self.stands_by(host)), None)
        if victim is not None:
            self.left -= 1
            cluster.faults.counts[KIND] = cluster.faults.counts.get(KIND, 0) + 1
            cluster.lost_islands[victim.island] = None
            victim.kill_executor()
        cluster.world.after(_LOOK_NS if victim is None else self.pause_ns, self.look)

    def stands_by(self, host: SimHost) -> bool:
        executor = host.executor
        if executor is None or not host.up:
            return False
        for other in self.cluster.hosts.values():
            busy = other.executor
            if busy is None or other is host or other.island != host.island or busy.epoch != executor.epoch:
                continue
            if any(all(place // busy.per_host != executor.rank for place in gang.devices) for gang in busy.launched):
                return True
        return False
