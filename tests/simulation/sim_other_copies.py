"""Shards that lie on two islands, where a client sees two: a view is read now and then, and fails only when both were lost.

Draws are its own, so that seeds without them go on as they would.
"""

from __future__ import annotations

import random
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from pathways_server.core import events

from tests.simulation.sim_arithmetic import SMALL, encode
from tests.simulation.sim_records import Array
from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

COPY_KINDS = ("shard on two islands", "other copy read")
_VIEWS_MAX = 4


class OtherCopies:
    """Belongs to one cluster."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(f"other copies {seed}")
        self.drawn = self._random.random() < 0.7
        self.counts: dict[str, int] = defaultdict(int)
        self._views: dict[int, list[Array]] = {}

    def start(self) -> None:
        """The first of them comes in a while."""
        if self.drawn:
            self._later(65, 110)

    def _later(self, low_ms: float, high_ms: float) -> None:
        self._cluster.world.after(int(self._random.uniform(low_ms, high_ms) * MILLISECOND_NS), self._act)

    def _act(self) -> None:
        if not self._cluster.faults.on:
            return
        for client in list(self._cluster.clients.values()):
            if client.closed or not client.devices:
                continue
            views = self._views.setdefault(client.number, [])
            if len(views) < _VIEWS_MAX:
                self._make(client, views)
            if views:
                client.fetch_one(self._random.choice(views), 0)
        self._later(3, 15)

    def _make(self, client: Any, views: list[Array]) -> None:
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
        views.append(Array(view, [value], (0,), (view,), SMALL, homes, is_copied=True))

    def on_value(self, array: Array) -> None:
        """Counts what came although an island is lost."""
        if array.is_copied and any(name in self._cluster.lost_islands for name in array.history):
            self.counts["other copy read"] += 1
