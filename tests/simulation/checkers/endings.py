"""An epoch ends only with the executor or the daemon of one of its hosts, if one cannot enter it, or if one is stuck.

Nothing that is late, repeated or swapped may end one.
"""

from __future__ import annotations

from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.checkers.checker import Checker


class Endings(Checker):
    name = "endings"

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, out.Log) and effect.phrase == "epoch ended":
                self.look()
                if isinstance(event, events.TimePassed) and self.cluster.stuck_hosts.is_guilty(dict(effect.fields)["host"]):
                    continue
                if not isinstance(event, events.HostLost | events.HostJoined | events.ExecutorLost | events.EpochRefused):
                    self.violate(f"{event} ended an epoch: {effect}")
