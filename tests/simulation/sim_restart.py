"""Controllers that are killed and made again, in some of the seeds, as the shell does it.

A snapshot of the core and the events behind it, as bytes, make another core and new ends of all links, which must be those of the
killed one. Frames that were under way are lost; clients and hosts come back and say what has come. Draws are its own, so that
seeds without kills go on as they would.
"""

from __future__ import annotations

import importlib
import json
import random
from dataclasses import is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from pathways_common.model.ids import HostName, SessionNumber
from pathways_common.model.link import Link
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.controller import Core
from pathways_server.shell.object_graph import dumps, loads

from tests.simulation.sim_links import End
from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

RESTART_KINDS = ("controller killed",)
# Events between two snapshots.
_SNAPSHOT_EVENTS = 500
_KILLS_MAX = 12
# What a link is known by: the name of a host, or the number of a client.
Key = str | int


class Restarts:
    """Belongs to one cluster."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._world = cluster.world
        self._random = random.Random(f"restarts {seed}")
        self.drawn = self._random.random() < 0.15 and not cluster.stuck_hosts.limit_ns
        self.counts: dict[str, int] = {}
        self._snapshot = b""
        self._links: dict[Key, tuple[Any, int]] = {}
        self._told: list[tuple[int, bytes]] = []

    def start(self) -> None:
        """The first of them comes in a while."""
        if self.drawn:
            self.keep()
            self._later(self._kill, 65, 200)

    @property
    def _may_come(self) -> bool:
        """Whether a kill may come yet; what nobody will be made of again is not kept."""
        return self.drawn and self._cluster.faults.on

    def told(self, now_ns: int, event: events.Event) -> None:
        """The core is about to be stepped."""
        if not self._may_come:
            return
        if len(self._told) >= _SNAPSHOT_EVENTS:
            self.keep()
        self._told.append((now_ns, dumps((event,))))

    def _later(self, action: Any, low_ms: float, high_ms: float) -> None:
        self._world.after(int(self._random.uniform(low_ms, high_ms) * MILLISECOND_NS), action)

    def _ends(self) -> dict[Key, End]:
        """The controller's ends of all links that are open."""
        clients = {number: client.controller_end for number, client in self._cluster.clients.items()}
        ends: dict[Key, End | None] = {**self._cluster.ends, **clients}
        return {key: end for key, end in ends.items() if end is not None and end.open}

    def keep(self) -> None:
        """Between two events, and when a table was changed without any."""
        if not self._may_come:
            return
        core = self._cluster.core
        core.state.effects = []
        self._snapshot = dumps(core.state)
        self._links = {key: (end.link.pushed(), end.link.received) for key, end in self._ends().items()}
        self._told.clear()

    # ---- the kill ----

    def _kill(self) -> None:
        cluster = self._cluster
        if not cluster.faults.on or self._world.broken or self.counts.get("controller killed", 0) >= _KILLS_MAX:
            return
        self.counts["controller killed"] = self.counts.get("controller killed", 0) + 1
        links = self._make_again()
        for key, end in self._ends().items():
            link, received = links[key], end.link.received
            kept = link.pushed()
            end.link = Link()
            end.link.restore(kept, received)
            end.link.rebase(end.peer.link.received, *end.peer.came)
            if not end.away and not end.broken:
                end.leave()
                self._leave(key, end)
        self.keep()
        self._later(self._kill, 20, 200)

    def _make_again(self) -> dict[Key, Link[Any]]:
        """Another core in place of the killed one, which it must be like; and what it has said on every link."""
        cluster, links = self._cluster, {}
        for key, (pushed, received) in self._links.items():
            link = links[key] = Link[Any]()
            link.restore(pushed, received)
        core = Core()
        core.restore(loads(self._snapshot))
        for now_ns, data in self._told:
            (event,) = loads(data)
            if isinstance(event, events.HostJoined):
                links[event.host] = Link()
            elif isinstance(event, events.SessionOpened):
                links[event.session] = Link()
            for effect in core.step(now_ns, event):
                _say(links, effect)
        core.state.effects = cluster.core.state.effects = []
        self._world.look("restarts")
        if content(dumps(core.state)) != content(dumps(cluster.core.state)):
            self._world.violate("restarts", f"the core that was made again from {len(self._told)} events is another one")
        cluster.core = core
        return links

    def _leave(self, key: Key, end: End) -> None:
        """It is expected to come back."""
        why = "the controller was killed and started again"
        if isinstance(key, int):
            self._cluster.post(events.SessionDetached(SessionNumber(key), why))
            self._later(lambda: self._bring_client_back(key, end), 10, 300)
        else:
            incarnation = self._cluster.hosts[key].incarnation
            self._cluster.post(events.HostDetached(HostName(key), incarnation, why))
            self._later(lambda: self._bring_host_back(key, incarnation, end), 10, 200)

    def _bring_client_back(self, number: int, end: End) -> None:
        if end.open and end.away:
            self._cluster.post(events.SessionResumed(SessionNumber(number)))
            end.come_back()

    def _bring_host_back(self, name: str, incarnation: int, end: End) -> None:
        if self._cluster.ends.get(name) is end and (end.away or not end.open):
            self._cluster.absences.bring_host_back(self._cluster.hosts[name], incarnation)


def content(graph: bytes) -> list[Any]:
    """A graph without regard to which of its unchangeable values are one object: those depend on where they came from."""
    root, *nodes = json.loads(graph)
    numbers: dict[int, int] = {}
    order: list[int] = []

    def value(written: Any) -> Any:
        if not isinstance(written, list) or not written:
            return written
        kind, *inner = nodes[written[0]]
        if _unchangeable(kind):
            return [kind, *map(value, inner)]
        if written[0] not in numbers:
            numbers[written[0]] = len(order)
            order.append(written[0])
        return [numbers[written[0]]]

    found = [value(root)]
    for number in order:  # grows meanwhile
        kind, *inner = nodes[number]
        if kind == "w":  # what is still in a weak table depends on when the last look at it was forgotten
            inner = []
        found.append([kind, *map(value, inner)])
    return found


@cache
def _unchangeable(kind: str) -> bool:
    if len(kind) == 1:
        return kind in "tfbpe"
    module, _, name = kind.partition(":")
    made: Any = getattr(importlib.import_module(module), name)
    return issubclass(made, tuple) or (is_dataclass(made) and made.__dataclass_params__.frozen)  # type: ignore[attr-defined]


def _say(links: dict[Key, Link[Any]], effect: out.Effect) -> None:
    if isinstance(effect, out.SendToHost) and effect.host in links:
        links[effect.host].push(effect.command, effect.urgent)
    elif isinstance(effect, out.SendToSession) and effect.session in links:
        links[effect.session].push(effect.reply)
