"""Shards that lie on two islands, in some of the seeds: a client of its own reads them, which fails only when both were lost.

Draws are its own, so that seeds without it go on as they would.
"""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pathways_common.model.failure import Failure
from pathways_common.model.ids import IslandName
from pathways_server.core import events
from pathways_server.core.records import View
from pathways_server.core.transitions import IslandState

from tests.simulation.sim_arithmetic import SMALL, encode
from tests.simulation.sim_records import Array
from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

COPY_KINDS = ("shard on two islands", "other copy read")
_VIEWS_MAX = 4
_NUMBER = 40


class OtherCopies:
    """Belongs to one cluster."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(f"other copies {seed}")
        self.drawn = self._random.random() < 0.15 and len({host.island for host in cluster.hosts.values()}) > 1
        self.counts: dict[str, int] = defaultdict(int)
        self._client: Any = None
        self._views: deque[Array] = deque()
        self._refused: dict[tuple[int, str], None] = {}  # views, and islands whose copy was never there

    def start(self, clients: list[Any], kind: Callable[..., Any]) -> None:
        """In a while the client comes, and joins these; when it ends another takes its place."""
        if self.drawn:
            self._later(lambda: self._come(clients, kind), 50, 80)

    def _come(self, clients: list[Any], kind: Callable[..., Any]) -> None:
        if not self._cluster.faults.on:
            return
        plain = [island for island in self._cluster.core.state.islands.values() if island.tenant is None]
        if all(island.state is IslandState.ACTIVE for island in plain) and (self._client is None or self._client.closed):
            self._views.clear()
            self._client = kind(self._cluster, _NUMBER + len(clients), ("*",), 0)
            clients.append(self._client)
            self._cluster.connect_client(self._client)
        if self._client is not None:
            self._act()
        self._later(lambda: self._come(clients, kind), 2, 12)

    def _later(self, action: Callable[[], None], low_ms: float, high_ms: float) -> None:
        self._cluster.world.after(int(self._random.uniform(low_ms, high_ms) * MILLISECOND_NS), action)

    def _act(self) -> None:
        if self._client.devices:
            self._make(self._client)
            while len(self._views) > _VIEWS_MAX:
                self._client.send(events.Released(self._client.number, (self._client.g(self._views.popleft().id),), ()))
            for _ in range(2):
                if self._views:
                    self._client.fetch_one(self._random.choice(self._views), 0)

    def _make(self, client: Any) -> None:
        primary = [device for device in client.devices if not device.pool]
        islands = list(dict.fromkeys(device.island for device in primary))
        if len(islands) < 2:
            return
        self.counts["shard on two islands"] += 1
        value = self._random.randint(1, 1_000_000)
        made: list[tuple[int, int]] = []
        for island in self._random.sample(islands, 2):
            devices = tuple(device.device_id for device in primary if device.island == island)
            identifier = client.new_id()
            made.append((identifier, self._random.randrange(len(devices))))
            piece = events.Piece(tuple(range(len(devices))), SMALL, encode(value), 0)
            client.send(events.ArrayMade(client.number, client.g(identifier), client.spec(devices, SMALL), (piece,)))
        view = client.new_id()
        first, *copies = [((client.g(identifier), shard, 1),) for identifier, shard in made]
        client.send(events.ViewMade(client.number, client.g(view), first, *copies))
        client.send(events.Released(client.number, tuple(client.g(identifier) for identifier, _ in made), ()))
        homes = client.islands_of(tuple(device.device_id for device in primary if device.island in islands))
        self._views.append(
            Array(view, [value], (0,), (view,), SMALL, homes, since=tuple((name, self._epoch(name)) for name in homes))
        )

    def on_value(self, array: Array) -> None:
        """Counts what came although an island was lost."""
        if any(epoch and self._epoch(name) != epoch for name, epoch in array.since):
            self.counts["other copy read"] += 1

    def on_made(self, view: events.ViewMade) -> None:
        """A copy that a limit or a want of memory kept from its devices is none."""
        session = self._cluster.core.state.sessions.get(view.session)
        made = session.handles.get(view.view_id) if session is not None and view.copies else None
        for part in (*made.parts, *made.copies) if isinstance(made, View) else ():
            failure, placement = part.buffer.failure, part.buffer.placement
            if failure is not None and placement is not None and self._is_refusal(failure):
                self._refused[view.view_id, placement.island.name] = None

    def _is_refusal(self, failure: Failure) -> bool:
        return self._cluster.quotas.may_refuse(failure) or self._cluster.short_of_memory(failure)

    def is_hurt(self, array: Array) -> bool:
        """Whether so many islands were lost that a value may be."""
        if not array.since:
            return any(name in self._cluster.lost_islands for name in array.history)
        view = self._client.g(array.id)
        return all(not epoch or self._epoch(name) != epoch or (view, name) in self._refused for name, epoch in array.since)

    def _epoch(self, name: str) -> int:
        """Of an island that is there, else 0."""
        island = self._cluster.core.state.islands.get(IslandName(name))
        return island.epoch if island is not None and island.state is IslandState.ACTIVE else 0
