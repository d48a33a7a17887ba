"""Slices that are moved to another island while their clients work, and hosts that are drained and stopped, in some of the seeds.

Of seeds of their own hosts of an island of up to four are drained that others cannot take the work of: it stays on the island.

Clients notice nothing but a pause: they go on as they would, and every value is judged as ever. A host that was drained is
stopped without anybody being told of a loss. Draws are its own, so that seeds without any of it go on as they would. Hosts have
one device each there: what a program with a callback computes depends on how many hosts it runs on.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation import sim_slices
from tests.simulation.sim_overlapping_drains import OverlappingDrains
from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

MIGRATION_KINDS = (
    "slice moved", "migration refused", "drain asked", "drained host stopped", "slice suspended", "slice resumed",
)  # fmt: skip
IN_PLACE = "island formed under its sessions"
_REFUSALS = (
    Reason.INVALID_ARGUMENT, Reason.RESOURCE_EXHAUSTED, Reason.UNSUPPORTED, Reason.UNAVAILABLE, Reason.TIMED_OUT,
    Reason.CANCELLED, Reason.BUFFER_LOST, Reason.SLICE_LOST,
)  # fmt: skip
# What a client does more because it has waited for a slice to be suspended.
_MORE = 5
# What clients of a seed may do more in all: one that waits for its slices again and again uses nothing up, and would never end.
_ADDED_MAX = 250


class Migrations:
    """Belongs to one cluster. `drawn`: whether its seed has any; `drains`: whether hosts are drained in it, too.

    `in_place`: it is one of those in which they are drained within their island.
    """

    def __init__(self, cluster: Cluster, seed: int, in_place: bool = False) -> None:
        self._cluster = cluster
        self._random = random.Random(f"migrations {seed}")
        self.drawn = self._random.random() < 0.5 and cluster.devices == 1 and len(cluster.sizes) > 1
        self.drains = self.drawn and self._random.random() < 0.5
        self.in_place = in_place
        if in_place:
            self.drawn, self.drains = self._random.random() < 0.5, True
        self.counts: dict[str, int] = defaultdict(int)
        self._added = 0
        self._asked: dict[int, tuple[Any, int]] = {}
        self._draining: dict[str, None] = {}
        self._beside = OverlappingDrains(cluster, seed, self._draining, self.counts)

    def start(self) -> None:
        """The core looks at migrations at its ticks, and clients here live for a few of them: there are more.

        Where hosts get stuck clients live for hundreds of them as it is.
        """
        if self.drawn or self.in_place:
            if not self._cluster.stuck_hosts.limit_ns:
                self._tick()
            self._later(self._add, 62, 70)
        if self.drains:
            self._later(self._drain, 70, 100 if self.in_place else 140)

    def _tick(self) -> None:
        self._cluster.post(events.TimePassed())
        if self._cluster.faults.on or self._cluster.core.state.migrations or self._draining:
            self._cluster.world.after(3 * MILLISECOND_NS, self._tick)

    def _later(self, action: Any, low_ms: float, high_ms: float) -> None:
        self._cluster.world.after(int(self._random.uniform(low_ms, high_ms) * MILLISECOND_NS), action)

    def used_by(self, client: Any, primary: list[out.SessionDevice]) -> list[out.SessionDevice]:
        """Its primary devices; where hosts are drained in place one of them, since two may come to be the same."""
        return (
            [random.Random(f"devices {client.number} {self._cluster.world.seed}").choice(primary)] if self.in_place else primary
        )

    def pause_ms(self, client: Any) -> float:
        """How long a client does nothing now: where hosts are drained in place all of them have to be quiet at some time."""
        return 40 if self.in_place and client.random.random() < 0.05 else 0

    def may_refuse(self, failure: Failure) -> bool:
        """Whether a drain can have caused a failure: hosts that stay took what was idle, and two devices are now the same."""
        return self.counts["drain asked"] > 0 and "share one physical device of island" in failure.message

    def on_log(self, effect: out.Log) -> None:
        if effect.phrase == "epoch ended" and "in stores" in dict(effect.fields)["reason"]:
            self.counts[IN_PLACE] += 1

    # ---- slices ----

    def _add(self) -> None:
        """Clients here hold more slices than others do."""
        cluster = self._cluster
        clients = [each for each in cluster.clients.values() if not each.closed and each.devices and each.budget > 0]
        if clients and cluster.faults.on and self._added < _ADDED_MAX:
            client = self._random.choice(clients)
            self._added += 1
            client.budget += 1
            if not client.slices:
                sim_slices.add(client)
            self._later(self._add, 2, 10)

    def on_added(self, client: Any, slice_id: int) -> None:
        """A client has a slice: it is moved soon, perhaps more than once."""
        if self.drawn and self._random.random() < 0.7:
            for _ in range(self._random.randint(1, 2)):
                self._later(lambda: self._ask(client, slice_id), 0, 5)

    def _ask(self, client: Any, slice_id: int) -> None:
        if client.closed or slice_id not in client.slices or client.paused:
            return
        if self._random.random() < 0.4:
            self._suspend(client, slice_id)
            return
        names = list(self._cluster.sizes)
        shown = client.devices[client.slices[slice_id][0]].island
        island = (
            next((name for name in names if name != shown), shown) if self._random.random() < 0.7 else self._random.choice(names)
        )
        number = len(self._asked) + 1
        self._asked[number] = (client, slice_id)
        self._may_be_on(client, island)
        self._cluster.post(events.MigrationRequested(number, SessionNumber(client.number), slice_id, island))

    def _may_be_on(self, client: Any, island: str) -> None:
        """From here on what a client has and makes may be lost with this island."""
        home = client.home_of(island)
        client.also[home] = None
        for array in client.arrays.values():
            array.history = tuple(sorted({*array.history, home}))

    def on_ended(self, effect: out.MigrationEnded) -> None:
        """The answer to whoever asked; the client is told nothing."""
        client, slice_id = self._asked[effect.request_id]
        world = self._cluster.world
        world.look("values")
        if effect.failure is None:
            self.counts["slice moved"] += 1
            return
        self.counts["migration refused"] += 1
        if effect.failure.reason not in _REFUSALS and not self._cluster.quotas.may_refuse(effect.failure):
            world.violate("failures", f"slice {slice_id} of client {client.number} was not moved: {effect.failure}")

    # ---- slices that are suspended ----

    def _suspend(self, client: Any, slice_id: int) -> None:
        """Its client waits, as one does that calls pw.suspend, and resumes it some time later."""
        client.paused = True
        for island in self._cluster.sizes:
            self._may_be_on(client, island)
        client.send(events.SuspendRequested(SessionNumber(client.number), slice_id))

    def on_suspended(self, client: Any, reply: out.SliceSuspended) -> None:
        """A host without room, or a loss, leaves it as it was. Some are given back as they are, the others resumed."""
        if reply.failure is not None:
            client.paused = False
            if reply.failure.reason not in _REFUSALS:
                self._cluster.world.violate("failures", f"slice {reply.slice_id} was not suspended: {reply.failure}")
            return
        self.counts["slice suspended"] += 1
        client.budget += _MORE if client.budget > 0 else 0  # one that has done everything does nothing more
        if self._random.random() < 0.3:
            self._later(lambda: self._give_back(client, reply.slice_id), 0, 30)
        else:
            self._later(lambda: self._resume(client, reply.slice_id), 0, 30)

    def _resume(self, client: Any, slice_id: int) -> None:
        client.send(events.ResumeRequested(SessionNumber(client.number), slice_id))

    def on_resumed(self, client: Any, reply: out.SliceResumed) -> None:
        """Where there is no room for it, it is tried again, and given back in the end."""
        if reply.failure is None:
            self.counts["slice resumed"] += 1
            client.paused = False
            return
        if reply.failure.reason not in _REFUSALS:
            self._cluster.world.violate("failures", f"slice {reply.slice_id} was not resumed: {reply.failure}")
        client.tries += 1
        if client.tries < 5:
            self._later(lambda: self._resume(client, reply.slice_id), 5, 60)
            return
        client.tries = 0
        self._give_back(client, reply.slice_id)

    def _give_back(self, client: Any, slice_id: int) -> None:
        client.paused = False
        if not client.closed and slice_id in client.slices:
            sim_slices.give_back(client, slice_id)

    # ---- hosts ----

    def _drain(self) -> None:
        cluster = self._cluster
        if not cluster.faults.on:
            return
        there = [host.name for host in cluster.hosts.values() if host.up and host.island in cluster.sizes]
        if there:
            name = self._random.choice(there)
            self.counts["drain asked"] += 1
            self._draining[name] = None
            for client in cluster.clients.values():
                for island in cluster.sizes:
                    self._may_be_on(client, island)
            cluster.post(events.DrainSet(HostName(name), True))
            self._later(lambda: self._stop(name), 5, 60)
            if self.in_place:
                self._beside.on_drain()

    def _stop(self, name: str) -> None:
        """Once it is drained its daemon ends: a loss that nobody is to notice. Then it comes back, and is taken back."""
        cluster = self._cluster
        drain = cluster.core.state.drains.get(HostName(name))
        host = cluster.hosts[name]
        if drain is None or not cluster.faults.on:
            return
        if not drain.drained:
            self._later(lambda: self._stop(name), 5, 60)
            return
        if host.up and self._random.random() < 0.7:
            self.end_daemon(name)
            self._later(lambda: cluster.start_host(name), 1, 60)
        self._later(lambda: self._take_back(name), 1, 80)

    def end_daemon(self, name: str) -> None:
        """Of a host that is drained."""
        cluster, host = self._cluster, self._cluster.hosts[name]
        self.counts["drained host stopped"] += 1
        incarnation = host.incarnation
        host.up = False
        cluster.isolation.daemon_gone(name)
        host.stop_executor()
        host.store.kept.clear()
        cluster.post(events.HostLost(HostName(name), incarnation, "stopped"))

    def _take_back(self, name: str) -> None:
        if self._draining.pop(name, 0) is None:
            self._cluster.post(events.DrainSet(HostName(name), False))
        self._later(self._drain, 5, 60)

    def heal(self) -> None:
        """Everybody is taken back; where hosts are drained in place, and no client waits for an island, a while later."""
        clients = self._cluster.clients.values()
        if self.in_place and all(client.closed or client.devices for client in clients):
            self._later(self._take_all_back, 500, 1500)
        else:
            self._take_all_back()

    def _take_all_back(self) -> None:
        for name in list(self._draining):
            del self._draining[name]
            self._cluster.post(events.DrainSet(HostName(name), False))
