"""Connections that break for longer than a moment, in some of the seeds.

Clients and hosts come back in time or too late, and the controller is stopped meanwhile.

Unlike a broken link of sim_links, the controller is told: the core decides who is given up. Draws are its own, so that seeds
without absences go on as they would.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

ABSENCE_KINDS = ("session away", "lease ended", "host away", "grace ended", "controller stopped")
LEASE_NS, GRACE_NS, GAP_NS = 800 * MILLISECOND_NS, 400 * MILLISECOND_NS, 150 * MILLISECOND_NS


class Absences:
    """Belongs to one cluster. `skew_ns`: how long its controller was stopped in all, which only its clock knows."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._random = random.Random(f"absences {seed}")
        # Seeds with stuck hosts are seeds of their own.
        self.drawn = self._random.random() < 0.2 and not cluster.stuck_hosts.limit_ns
        self.counts: dict[str, int] = defaultdict(int)
        self.skew_ns = 0

    def start(self) -> None:
        """The first of them comes in a while."""
        if self.drawn:
            self._later(self._strike, 65, 110)

    def _later(self, action: Any, low_ms: float, high_ms: float) -> None:
        self._world.after(int(self._random.uniform(low_ms, high_ms) * MILLISECOND_NS), action)

    def _strike(self) -> None:
        if not self._cluster.faults.on:
            return
        draw = self._random
        if draw.random() < 0.65:
            self._take_client_away(late=draw.random() < 0.35)
        if draw.random() < 0.5:
            self._take_host_away(late=draw.random() < 0.3)
        if draw.random() < 0.25:
            self.counts["controller stopped"] += 1
            self.skew_ns += draw.randint(900, 1500) * MILLISECOND_NS
        self._later(self._strike, 20, 90)

    # ---- clients ----

    def _take_client_away(self, late: bool) -> None:
        there = [each for each in self._cluster.clients.values() if not each.closed and each.devices and not each.end.away]
        if len(there) < 2:
            return
        client = self._random.choice(there)
        self.counts["lease ended" if late else "session away"] += 1
        client.end.leave()
        self._later(lambda: self._notice_client(client), 1, 30)
        self._later(lambda: self._bring_client_back(client), *((1500, 3000) if late else (40, 500)))

    def _notice_client(self, client: Any) -> None:
        if not client.closed and client.end.away:
            self._cluster.post(events.SessionDetached(SessionNumber(client.number), "the connection broke"))

    def _bring_client_back(self, client: Any) -> None:
        if not client.closed:
            self._cluster.post(events.SessionResumed(SessionNumber(client.number)))
            client.end.come_back()

    def on_lease_ended(self, effect: out.LeaseEnded) -> None:
        """The client is told when it comes back; it asks for nothing any more."""
        client = self._cluster.clients[effect.session]
        client.end.close()
        self._cluster.forget_client(client)

    # ---- hosts ----

    def _take_host_away(self, late: bool) -> None:
        cluster = self._cluster
        there = [each for each in cluster.hosts.values() if each.up and each.end is not None and not each.end.away]
        if not there:
            return
        host = self._random.choice(there)
        self.counts["grace ended" if late else "host away"] += 1
        if late:
            cluster.lost_islands[host.island] = None
        incarnation = host.incarnation
        host.end.leave()
        self._later(lambda: self._notice_host(host, incarnation), 1, 30)
        self._later(lambda: self.bring_host_back(host, incarnation), *((900, 1500) if late else (40, 200)))

    def _notice_host(self, host: Any, incarnation: int) -> None:
        if host.up and host.incarnation == incarnation and host.end.away:
            self._cluster.post(events.HostDetached(HostName(host.name), incarnation, "the connection broke"))

    def bring_host_back(self, host: Any, incarnation: int) -> None:
        """Its connection works again, if it is what it was."""
        if not host.up or host.incarnation != incarnation:
            return
        if host.end.open:
            self._cluster.post(events.HostResumed(HostName(host.name), incarnation))
            host.end.come_back()
            return
        # It was given up: whatever it had goes, then it joins anew.
        host.up = False
        host.stop_executor()
        host.store.kept.clear()
        self._cluster.start_host(host.name)

    def on_given_up(self, effect: out.HostGivenUp) -> None:
        """Nothing that is on its way to or from this incarnation arrives."""
        host = self._cluster.hosts[effect.host]
        if host.incarnation == effect.incarnation:
            self._cluster.lost_islands[host.island] = None
            self._cluster.ends[effect.host].close()
