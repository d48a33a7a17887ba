"""The core's tables agree: every sentence of `core/invariants.py`.

Looking at all tables costs three times what everything else does. So it is done after each event that changes much (a loss,
an end, a cancel), after each grant of a run, after every sixteenth of the others and at the end; after every event in one
seed of ten, and again from the start in a seed that breaks anything, to find the step that did it.
"""

from __future__ import annotations

from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.invariants import check

from tests.simulation.checkers.checker import Checker

EVERY = 16
_CHANGE_MUCH = (
    events.HostJoined, events.HostLost, events.ExecutorLost, events.EpochEntered, events.EpochRefused, events.NodeFailed,
    events.SessionClosed, events.SliceReleased, events.CancelRequested, events.ViewsDeleted, events.OrderBroken,
    events.SequenceMissed, events.FusionRequested,
)  # fmt: skip
_GRANTS_OF_RUNS = (out.RunPlan, out.GrantRun)  # out of turn only until the run has left its lanes


class Invariants(Checker):
    name = "invariants"
    dense = False
    waited = 0

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        if isinstance(event, events.TimePassed) and not effects:
            return
        self.waited += 1
        runs = any(isinstance(effect, out.SendToHost) and isinstance(effect.command, _GRANTS_OF_RUNS) for effect in effects)
        if self.dense or runs or self.waited >= EVERY or isinstance(event, _CHANGE_MUCH):
            self.waited = 0
            self.look()
            check(self.cluster.core)

    def at_end(self) -> None:
        self.look()
        check(self.cluster.core)
