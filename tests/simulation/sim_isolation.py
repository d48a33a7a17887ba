"""Tenants with executors of their own: which seeds have them, how hosts of cells come and go, and who computes beside whom.

Draws are its own, so that seeds without cells go on as they would. What is judged here, where gangs begin: an island and its
cells never compute at the same time on a host. What an executor does whose epoch is over is nobody's: it is about to be killed.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from pathways_common.model.cells import cell_name, plain_name, tenant_in
from pathways_common.model.ids import HostName, IslandName
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.tenant_records import Declared, TenantName
from pathways_server.core.transitions import IslandState

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster
    from tests.simulation.sim_executor import Executor
    from tests.simulation.sim_host import SimHost

MILLISECOND_NS = 1_000_000
_NAMES = ("ads", "web", "maps", "search")


class Isolation:
    """Belongs to one cluster; `drawn` says whether tenants of its seed are isolated at all. `opened`: cells, over all of it."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = Random(f"cells {seed}")
        self.drawn = self._random.random() < 0.2
        chosen = [name for name in _NAMES if self._random.random() < 0.6]
        self._isolated = dict.fromkeys(chosen or _NAMES[:1]) if self.drawn else {}
        self._wanted: dict[str, None] = {}  # hosts of cells that daemons keep
        self._closing: dict[str, None] = {}  # cells that were closed, whose epochs end without a loss
        self._bound: dict[int, str] = {}  # of a session, whose executors it has
        self._freed: dict[str, dict[int, None]] = {}  # by host, what it was told to free and has not yet
        self.opened = 0

    def isolates(self, name: str) -> bool:
        """What is set for a tenant now: mostly what was drawn for the seed."""
        return name in self._isolated and self._random.random() < 0.85

    def declare(self, name: TenantName) -> None:
        """Before the session of a tenant that nothing else was set for."""
        if name in self._isolated:
            self._cluster.post(events.TenantSet(name, Declared(isolated=self.isolates(name))))

    def island_of(self, session: int, island: str) -> str:
        """Where values of a session live that it sees on an island."""
        tenant = self._bound.get(session)
        return cell_name(island, tenant) if tenant else island

    # ---- daemons ----------------------------------------------------------------------------------------------------

    def handle(self, host: SimHost, command: out.OpenCell | out.CloseCell) -> None:
        """A daemon is told about a cell."""
        name = cell_name(host.name, command.tenant)
        if isinstance(command, out.CloseCell):
            self._leave(name, forget=True)
        elif name not in self._wanted:
            self._wanted[name] = None
            self._cluster.add_host(name, cell_name(host.island, command.tenant))
            self._later(lambda: self._cluster.start_host(name), 60)

    def _later(self, action: object, most_ms: int) -> None:
        self._cluster.world.after(self._random.randint(1, most_ms) * MILLISECOND_NS, action)  # type: ignore[arg-type]

    def may_start(self, name: str) -> bool:
        """Whether a host joins: those of cells do while their daemon keeps them."""
        return not tenant_in(name) or name in self._wanted

    def daemon_gone(self, name: str) -> None:
        """Its cells go with a daemon; another one is told of those that are to be there."""
        for cell in [cell for cell in self._wanted if plain_name(cell) == name]:
            self._cluster.lost_islands[self._cluster.hosts[cell].island] = None
            self._leave(cell, forget=self._random.random() < 0.5)

    def _leave(self, name: str, forget: bool) -> None:
        if self._wanted.pop(name, self) is self:
            return
        host = self._cluster.hosts[name]
        if not host.up:
            return
        host.up = False
        host.end.close()
        host.stop_executor()
        host.store.kept.clear()
        if forget:
            host.images.forget()
        lost = events.HostLost(HostName(name), host.incarnation, "closed")
        self._later(lambda: self._cluster.post(lost), 60)

    # ---- what the core says -------------------------------------------------------------------------------------------

    def on_log(self, effect: out.Log) -> None:
        fields = dict(effect.fields)
        if effect.phrase == "cell opens":
            self._closing.pop(fields["island"], None)
            self.opened += 1
        elif effect.phrase == "cell closes":
            self._closing[fields["island"]] = None
        elif effect.phrase in ("epoch ended", "epoch is ending") and fields["island"] not in self._closing:
            if "in stores" not in fields["reason"] and "no session uses" not in fields["reason"]:
                self._cluster.lost_islands[fields["island"]] = None
        elif effect.phrase == "session opened":
            self._bound[int(fields["session"])] = tenant_in(fields["islands"].partition(",")[0])

    # ---- judging ----------------------------------------------------------------------------------------------------

    def beside(self, executor: Executor) -> list[Executor]:
        """Other executors on the same devices, in epochs that go on."""
        if not self.drawn:
            return []
        machine = plain_name(executor.host.name)
        hosts = [host for name, host in self._cluster.hosts.items() if plain_name(name) == machine and host is not executor.host]
        return [host.executor for host in hosts if host.executor is not None and self._goes_on(host.executor)]

    def _goes_on(self, executor: Executor) -> bool:
        island = self._cluster.core.state.islands.get(IslandName(executor.host.island))
        if island is None or not executor.alive:
            return False
        return island.epoch == executor.epoch and island.state is IslandState.ACTIVE

    def held_together(self, executor: Executor) -> int:
        """The most that all executors hold of a device; 0 if there is only one.

        Links are apart: what one was told to free is free for another before it has let go.
        """
        beside = self.beside(executor)
        found = [0] * executor.per_host
        for each in (executor, *beside) if beside else ():
            for device, size in enumerate(each.memory.held):
                found[device] += size
            for identifier in self._freed.get(each.host.name, ()):
                for device, size in each.memory.only_named(identifier):
                    found[device] -= size
        return max(found)

    def told_to_free(self, host: str, identifiers: tuple[int, ...]) -> None:
        """A host was sent a Free."""
        if self.drawn:
            self._freed.setdefault(host, {}).update(dict.fromkeys(identifiers))

    def begun(self, host: str) -> None:
        """Another executor: nothing that was sent before reaches it."""
        self._freed.pop(host, None)

    def freed(self, host: str, identifier: int) -> None:
        """It has come there."""
        self._freed.get(host, {}).pop(identifier, None)

    def begins(self, executor: Executor) -> None:
        """A gang begins to compute."""
        if not self.drawn or not self._goes_on(executor):
            return
        self._cluster.world.look("turns")
        for other in self.beside(executor):
            if other.running:
                self._cluster.world.violate(
                    "turns", f"{executor.host.name} begins a gang while {other.host.name} computes on the same devices"
                )
