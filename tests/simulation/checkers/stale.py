"""Nothing is done about what an incarnation that is gone says, and nothing about an epoch that is over.

Goes by what hosts were told: the last incarnation that joined, and the last epoch that its island began. The core may note that
it heard something; it tells nobody, grants nothing and ends nothing for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.checkers.checker import Checker

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

_OF_EPOCHS = (
    events.EpochEntered, events.EpochRefused, events.ExecutorLost, events.OrderBroken, events.SequenceMissed,
    events.ExecutableLoaded, events.HostProgressed, events.HostPulsed, events.PlanLoaded,
)  # fmt: skip
_OF_INCARNATIONS = (events.HostLost, events.HostDetached, events.HostResumed, events.HostHeard)


class Stale(Checker):
    name = "stale"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.incarnations: dict[str, int] = {}
        self.epochs: dict[str, int] = {}  # the last one that each host was told to begin
        self.why = ""

    def before(self, event: events.Event) -> None:
        self.why = ""
        if isinstance(event, events.HostJoined):
            known = self.incarnations.get(event.host, 0)
            if event.incarnation <= known:
                self.why = f"incarnation {known} has joined"
            self.incarnations[event.host] = max(known, event.incarnation)
        elif isinstance(event, _OF_INCARNATIONS):
            known = self.incarnations.get(event.host, 0)
            if event.incarnation < known:
                self.why = f"incarnation {known} has joined"
        elif isinstance(event, _OF_EPOCHS):
            known = self.epochs.get(event.host, 0)
            if event.epoch < known:
                self.why = f"epoch {known} has begun"

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        if self.why:
            self.look()
            done = [effect for effect in effects if not isinstance(effect, out.Log)]
            if done:
                self.violate(f"{self.why}, and {event} led to {done[:3]}")
            ended = [effect for effect in effects if isinstance(effect, out.Log) and effect.phrase != "report ignored"]
            if ended:
                self.violate(f"{self.why}, and {event} was more than ignored: {ended[:3]}")
        for effect in effects:
            if isinstance(effect, out.SendToHost) and isinstance(effect.command, out.EpochBegin):
                self.epochs[effect.host] = effect.command.epoch
