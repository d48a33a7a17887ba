"""An epoch ends only with the executor or the daemon of one of its hosts, or because of one that is given up, that cannot enter
it, or that is stuck, at once or a moment later; or for a host that comes or goes, while no session uses the island or has
anything on its devices.

Nothing that is late, repeated or swapped may end one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.transitions import BufferState

from tests.simulation.checkers.checker import Checker
from tests.simulation.sim_executor import BROKEN

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

WAITED = "others are waited for"
IN_TIME = "others end in time"


class Endings(Checker):
    name = "endings"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.ending: dict[str, str] = {}  # islands, and because of which host

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        given_up = any(isinstance(effect, out.HostGivenUp) for effect in effects)
        for effect in effects:
            if isinstance(effect, out.Log) and effect.phrase == "epoch is ending":
                fields = dict(effect.fields)
                self.world.look(WAITED)
                self.ending[fields["island"]] = fields["host"]
                if not isinstance(event, events.ExecutorLost) and not self._is_stuck(fields["host"]):
                    self.violate(f"{event} made an epoch end: {effect}")
            if isinstance(effect, out.Log) and effect.phrase == "epoch ended":
                self.look()
                if self.ending.get(dict(effect.fields)["island"]) == dict(effect.fields).get("host", ""):
                    del self.ending[dict(effect.fields)["island"]]
                    if isinstance(event, events.HostProgressed):
                        self.world.look(IN_TIME)
                    continue
                if "no session uses the island" in dict(effect.fields)["reason"]:
                    self.unused(dict(effect.fields)["island"])
                    continue
                if "what its sessions have there is in stores" in dict(effect.fields)["reason"]:
                    self.stored(dict(effect.fields)["island"])
                    continue
                if dict(effect.fields)["reason"] == BROKEN and self._has_broken(dict(effect.fields)):
                    continue
                if isinstance(event, events.TimePassed) and self._is_stuck(dict(effect.fields)["host"]):
                    continue
                if not given_up and not isinstance(
                    event, events.HostLost | events.HostJoined | events.ExecutorLost | events.EpochRefused
                ):
                    self.violate(f"{event} ended an epoch: {effect}")

    def stored(self, island: str) -> None:
        """What was said of it is true; what is on its way waits for the island."""
        for session in self.cluster.core.state.sessions.values():
            for buffer in session.buffers.values():
                there = buffer.placement is not None and buffer.placement.island.name == island and buffer.epoch
                if there and buffer.state is BufferState.PRESENT:
                    self.violate(f"the epoch of island {island} was ended under array {buffer.id} of session {session.number}")

    def _has_broken(self, fields: dict[str, str]) -> bool:
        """Whether an executor of the epoch is gone, of which nothing has been heard yet."""
        return bool(self.cluster.fabric(fields["island"], int(fields["epoch"])).gone)

    def _is_stuck(self, host: str) -> bool:
        """Or was until now: when all stood still, the time to enter an epoch went by for everybody."""
        stuck = self.cluster.stuck_hosts
        if self.cluster.slow_links.has_slow_link(host):
            return True  # for a step of forming an epoch it may take too long
        return stuck.is_guilty(host) or self.world.now_ns - stuck.moved_ns < self.cluster.core.state.config.epoch_step_ns

    def unused(self, island: str) -> None:
        """What was said of it is true, also of what it had granted."""
        using = [session.number for session in self.cluster.core.state.sessions.values() if island in session.used]
        if using:
            self.violate(f"the epoch of island {island} was ended under sessions {using}")
