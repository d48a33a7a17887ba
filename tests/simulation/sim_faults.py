"""The faults of the simulation: which kinds a seed draws, how likely each strikes, and what strikes by itself from time to
time.

A report of a host that comes twice, or again when its epoch or its work is long over, is a fault of the link that the core
has to take as normal; the same holds for a launch that a host is told of twice and for requests of a client that is gone.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.sim_world import World

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

FAULT_KINDS = (
    "executor death", "host loss", "node failure", "slow host", "transfer failure", "silent upload", "client gone",
    "swapped launches", "refused epoch", "raising callback", "useless image", "broken link", "slow client", "repeated report",
    "late report", "repeated launch", "late request", "refused spill",
)  # fmt: skip
_COMMON_REPORTS = (events.HostProgressed, events.ShardFetched, events.TransferLanded, events.ExecutableLoaded)
LAUNCHES = (out.Prepare, out.RunPlan, out.GrantRun)


class Faults:
    """Which kinds a seed draws, and whether they are on now."""

    def __init__(self, world: World, kinds: tuple[str, ...]) -> None:
        self.world = world
        self.kinds = kinds
        self.on = True
        self.counts: dict[str, int] = {}

    def strikes(self, kind: str, chance: float) -> bool:
        if not self.on or kind not in self.kinds or self.world.random.random() >= chance:
            return False
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return True

    def says_again(self, draw: random.Random) -> bool:
        """Whether an old answer comes again, drawn apart from all else; also when faults are over: it was under way before."""
        if "late report" not in self.kinds or draw.random() >= 0.5:
            return False
        self.counts["late report"] = self.counts.get("late report", 0) + 1
        return True

    def refuses_spill(self) -> bool:
        """Most while other faults strike, and a few later: clients hold most when nothing is lost any more."""
        if self.on:
            return self.strikes("refused spill", 0.9)
        if "refused spill" not in self.kinds or self.world.random.random() >= 0.1:
            return False
        self.counts["refused spill"] = self.counts.get("refused spill", 0) + 1
        return True

    def node_fails(self, _host: str) -> bool:
        return self.strikes("node failure", 0.5)

    def transfer_fails(self, _host: str) -> bool:
        return self.strikes("transfer failure", 0.1)

    def epoch_refused(self, _host: str) -> bool:
        return self.strikes("refused epoch", 0.4)

    def maybe_swap(self, _host: str, commands: list[Any]) -> list[Any]:
        """Adjacent launches change places on the way to one host."""
        for index in range(len(commands) - 1):
            pair = commands[index : index + 2]
            launches = all(isinstance(command, LAUNCHES) for command in pair)
            if launches and pair[0].execution_id != pair[1].execution_id and self.strikes("swapped launches", 0.9):
                commands[index], commands[index + 1] = pair[1], pair[0]
                break
        return commands

    def repeats_launch(self, command: Any) -> bool:
        return isinstance(command, LAUNCHES) and self.strikes("repeated launch", 0.1)


class Trouble:
    """Strikes somewhere, again and again, until the healing begins."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.faults = cluster.faults

    def strike(self) -> None:
        if not self.faults.on:
            return
        self.strike_hosts()
        self.strike_clients()
        self.world.soon(self.strike, 5, 80 * self.cluster.stuck_hosts.pace)

    def strike_hosts(self) -> None:
        cluster, choose, faults = self.cluster, self.world.random, self.faults
        names = list(cluster.hosts)
        name = choose.choice(names)
        if cluster.hosts[name].executor is not None and faults.strikes("executor death", 0.2):
            cluster.lost_islands[cluster.hosts[name].island] = None
            cluster.hosts[name].kill_executor()
        name = choose.choice(names)
        if cluster.hosts[name].up and faults.strikes("host loss", 0.15):
            cluster.lost_islands[cluster.hosts[name].island] = None
            self.lose_host(name)
        name = choose.choice(names)
        if faults.strikes("slow host", 0.4):
            cluster.hosts[name].slow = choose.choice([1.0, 5.0, 20.0])
        name = choose.choice(names)
        if cluster.hosts[name].up and faults.strikes("broken link", 0.15):
            cluster.hosts[name].end.interrupt()

    def strike_clients(self) -> None:
        """Not the last one: a seed without clients is hollow."""
        cluster, choose, faults = self.cluster, self.world.random, self.faults
        there = [client for client in cluster.clients.values() if not client.closed]
        if len(there) > 1 and faults.strikes("client gone", 0.15):
            self.cut_client(choose.choice(there))
        there = [client for client in there if not client.closed]
        if len(there) > 1 and faults.strikes("late request", 0.3):
            self.cut_client(choose.choice(there), late=True)
        there = [client for client in there if not client.closed]
        if there and faults.strikes("slow client", 0.3):
            choose.choice(there).slow = choose.choice([1.0, 10.0, 40.0])
        if there and faults.strikes("broken link", 0.1):
            choose.choice(there).end.interrupt()

    def lose_host(self, name: str) -> None:
        """The daemon goes with its executor; another comes, maybe before anybody has noticed."""
        host = self.cluster.hosts[name]
        host.up = False
        host.end.close()
        host.stop_executor()
        host.store.kept.clear()
        self.cluster.isolation.daemon_gone(name)
        if self.world.random.random() < 0.5:
            host.images.forget()
        lost = events.HostLost(HostName(name), host.incarnation, "connection reset")
        self.world.soon(lambda: self.cluster.post(lost), 1, 60)
        self.world.soon(lambda: self.cluster.start_host(name), 10, 400)

    def cut_client(self, client: Any, late: bool = False) -> None:
        """The client goes without a goodbye. `late`: the last that it asked for comes when its session has ended."""
        client.end.close()
        client.closed = True
        gone = events.SessionClosed(SessionNumber(client.number), "connection lost")

        def notice() -> None:
            self.cluster.post(gone)
            self.cluster.forget_client(client)
            for request in client.sent_last if late else ():
                self.world.soon(lambda request=request: self.cluster.post(request), 0, 60)  # type: ignore[misc]

        self.world.soon(notice, 1, 20)

    def may_crash(self, client: Any) -> None:
        """A client goes in the middle of what it says."""
        others = [other for other in self.cluster.clients.values() if not other.closed and other is not client]
        if others and self.faults.strikes("client gone", 0.01):
            self.cut_client(client)

    def tell_again(self, event: events.Event) -> None:
        """A host's report comes once more: at once, or when it is old."""
        chance = 0.02 if isinstance(event, _COMMON_REPORTS) else 0.1
        if self.faults.strikes("repeated report", chance):
            self.cluster.post(event)
        if self.faults.strikes("late report", chance):
            self.world.soon(lambda: self.cluster.post(event), 0.5, self.world.random.choice([5, 300, 1500]))
