"""An epoch ends only with the executor or the daemon of one of its hosts, or because of one that is given up, that cannot enter
it, or that is stuck.

Nothing that is late, repeated or swapped may end one.
"""

from __future__ import annotations

from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.checkers.checker import Checker


class Endings(Checker):
    name = "endings"

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        given_up = any(isinstance(effect, out.HostGivenUp) for effect in effects)
        for effect in effects:
            if isinstance(effect, out.Log) and effect.phrase == "epoch ended":
                self.look()
                if isinstance(event, events.TimePassed) and self.cluster.stuck_hosts.is_guilty(dict(effect.fields)["host"]):
                    continue
                if not given_up and not isinstance(
                    event, events.HostLost | events.HostJoined | events.ExecutorLost | events.EpochRefused
                ):
                    self.violate(f"{event} ended an epoch: {effect}")
