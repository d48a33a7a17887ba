"""Every wait of something granted points to an earlier grant: what is granted waits for nothing that is not.

Three waits there are. A launch waits for the launch before it on its host: which is the last one that this host was told
of. It waits for its arguments on its host: each is the result of an earlier grant, or all of its bytes have come. And the
members of a gang, or the two ends of a move, wait for each other: a step of the core grants to all of them or to none. So
no cycle of waits can arise.
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


class Acyclic(Checker):
    """Keeps, per host and epoch, the values that are there or will be by an earlier grant, and the transfers each waits for."""

    name = "acyclic"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.values: dict[HostName, dict[int, frozenset[int]]] = {}
        self.landed: dict[HostName, set[int]] = {}
        self.last: dict[HostName, int] = {}
        self.told: dict[tuple[int, int], dict[HostName, Grant]] = {}  # of this step

    def before(self, event: events.Event) -> None:
        if isinstance(event, events.TransferLanded):
            self.landed.setdefault(event.host, set()).add(event.transfer_id)
        elif isinstance(event, events.ArrayRestored) and event.failure is None:
            self.values.setdefault(event.host, {})[event.buffer_id] = (
                frozenset()
            )  # the epoch may be another than where it was made

    def sent(self, host: HostName, command: out.HostCommand) -> None:
        values = self.values.setdefault(host, {})
        match command:
            case out.EpochBegin():
                self.values[host] = {}
                self.last[host] = 0
            case out.PlaceArray():
                waits = [piece.transfer_id for piece in command.pieces if piece.transfer_id]
                waits += [command.transfer_id] if command.transfer_id else []
                local = [piece.local.id for piece in command.pieces if piece.local is not None]
                values[command.buffer_id] = frozenset(waits).union(*(values.get(source, frozenset()) for source in local))
            case out.PlaceView():
                sources = [shard.id for shard in command.shards]
                values[command.view_id] = frozenset[int]().union(*(values.get(source, frozenset()) for source in sources))
            case out.RestoreArray():
                values[command.buffer_id] = frozenset()  # also in a later epoch than that in which it was spilled
            case out.Free():
                for identifier in command.ids:
                    values.pop(identifier, None)
            case _:
                pass

    def granted(self, grant: Grant) -> None:
        self.look()
        self.told.setdefault((grant.execution_id, grant.end_step), {})[grant.host] = grant
        last = self.last.get(grant.host, 0)
        if grant.sequences:
            if grant.previous != last or grant.sequences[0] <= last:
                self.violate(f"{grant} names as the one before it another than {last}")
            self.last[grant.host] = grant.sequences[-1]
        values, landed = self.values[grant.host], self.landed.setdefault(grant.host, set())
        for need in grant.needs:
            if need not in values:
                self.violate(f"{grant} waits for {need}, which nothing granted before it makes")
            elif not values[need] <= landed:
                self.violate(f"{grant} waits for {need}, of which transfers {sorted(values[need] - landed)} are under way")
        values.update((made, frozenset()) for made in grant.makes)

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        for told in self.told.values():
            for grant in told.values():
                missing = [name for name in grant.members if name not in told]
                if missing:
                    self.violate(f"{grant} waits for {missing}, which were not granted their part")
        self.told.clear()
