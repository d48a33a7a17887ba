"""What survivors hold outlives an epoch, unless one of them says or shows why not; and nobody begins the next one too soon.

An executor's end takes nothing that lay on other members whole and was made by gangs that had ended. Once all hosts of an array
have put it away it is not lost before one of them is, and an island does not form while one of its hosts has not left.
"""

from __future__ import annotations

from pathways_common.model.ids import GlobalId, HostName
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.records import Buffer
from pathways_server.core.transitions import BufferState, IslandState

from tests.simulation.checkers.checker import Checker


class Survivors(Checker):
    name = "survivors"

    def __init__(self, cluster: object) -> None:
        super().__init__(cluster)  # type: ignore[arg-type]
        self.safe: list[Buffer] = []  # lie whole on others than the host whose executor ended
        self.leaving: dict[str, int] = {}  # hosts that were told to keep something, and in which epoch
        self.due: dict[int, tuple[GlobalId, set[str]]] = {}  # by the number of the command: who has not put it away

    def before(self, event: events.Event) -> None:
        self.safe = []
        if isinstance(event, events.EpochLeft | events.HostLost | events.HostJoined):
            self.leaving.pop(event.host, None)
        if not isinstance(event, events.ExecutorLost):
            return
        state = self.cluster.core.state
        host = state.hosts.get(event.host)
        if host is None or host.island.state is not IslandState.ACTIVE or host.island.epoch != event.epoch:
            return
        island = host.island
        oldest = island.inflight[0].sequence if island.inflight else island.sequence + 1
        for session in state.sessions.values():
            for buffer in session.buffers.values():
                placement = buffer.placement
                if placement is None or placement.island is not island or buffer.state is not BufferState.PRESENT:
                    continue
                plain = not buffer.aliases and not buffer.origins and buffer.shard_bytes > 0
                if plain and buffer.sequence < oldest and host not in placement.hosts:
                    self.safe.append(buffer)

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        for buffer in self.safe:
            self.look()
            if buffer.state is BufferState.POISONED:
                self.violate(f"array {buffer.id} lay on survivors and was lost: {buffer.failure}")
        if isinstance(event, events.ArraySpilled) and event.failure is None and event.spill_number in self.due:
            stored, hosts = self.due[event.spill_number]
            hosts.discard(event.host)
            if not hosts:
                del self.due[event.spill_number]
                moving = self.cluster.core.state.moving.get(stored)
                if moving is not None and moving.number == event.spill_number:
                    self.violate(f"array {stored} is in all stores and is {moving.buffer.state.name}")
        del effects

    def sent(self, host: HostName, command: out.HostCommand) -> None:
        match command:
            case out.EpochEnd():
                self.leaving.pop(host, None)
                if command.keep:
                    self.leaving[host] = command.epoch
                moving = self.cluster.core.state.moving
                for keep in command.keep:
                    if keep.stored_id in moving:
                        record = moving[keep.stored_id]
                        self.due.setdefault(keep.spill_number, (keep.stored_id, set(record.due)))
            case out.StartCoordinator() | out.EpochBegin():
                self.look()
                members = self.cluster.core.state.hosts[host].island.hosts
                late = [name for name in members if name in self.leaving]
                if late:
                    self.violate(f"an epoch begins on {host} while {late} have not left the last one")
