"""Every launch that was granted is made once by each of its members, none that was not, and the figures of hosts count them all.

What the end of an epoch cuts off is a tail. A gang is its session's: it was granted while the session was open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_common.model.ids import HostName
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.checkers.checker import Checker
from tests.simulation.checkers.grants import Grant

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster


class Accounting(Checker):
    name = "accounting"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.granted_to: dict[tuple[HostName, int], list[tuple[int, int]]] = {}
        self.counted: dict[HostName, int] = {}  # since it joined
        self.closed: dict[int, None] = {}

    def before(self, event: events.Event) -> None:
        if isinstance(event, events.SessionClosed):
            self.closed[event.session] = None
        elif isinstance(event, events.HostJoined):
            self.counted[event.host] = 0

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, out.LeaseEnded):
                self.closed[effect.session] = None

    def granted(self, grant: Grant) -> None:
        self.look()
        if grant.execution_id >> 40 in self.closed:
            self.violate(f"{grant} is for a session that has ended")
        self.counted[grant.host] = self.counted.get(grant.host, 0) + grant.gangs
        booked = self.granted_to.setdefault((grant.host, grant.epoch), [])
        booked += [(sequence, grant.execution_id) for sequence in grant.sequences]

    def at_end(self) -> None:
        self.at_end_of_broken()
        for island in self.cluster.core.snapshot(self.world.now_ns).islands:
            for figures in island.hosts:
                counted = self.counted[HostName(figures.name)]
                if figures.gangs_granted != counted:
                    self.violate(f"the figures of {figures.name} say {figures.gangs_granted} gangs, it was granted {counted}")
        for name, host in self.cluster.hosts.items():
            executor = host.executor
            granted = self.granted_to.get((HostName(name), executor.epoch), []) if executor is not None else []
            if executor is not None and granted:
                self.look()
                if len(executor.launches) != len(granted) or executor.finished != granted[-1][0]:
                    self.violate(f"{name} finished {executor.finished} of epoch {executor.epoch} and was granted {granted[-1]}")

    def at_end_of_broken(self) -> None:
        """However the seed ended: what was launched is what was granted, from the first on."""
        for (_, epoch), logs in self.cluster.launch_logs().items():
            for name, launches in logs:
                self.look()
                granted = self.granted_to.get((HostName(name), epoch), [])
                if launches != granted[: len(launches)]:
                    self.violate(f"{name} launched {launches[-4:]} of epoch {epoch}, granted were {granted[-4:]}")
