"""Nothing is ever granted, held or opened beyond a limit of its tenant; what is in use when a limit is lowered stays."""

from __future__ import annotations

from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.checkers.checker import Checker


class WithinQuotas(Checker):
    name = "quotas"

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        # A tick that tells nobody anything gives nobody anything.
        if self.cluster.quotas.limited and (effects or not isinstance(event, events.TimePassed)):
            self.look()
            self.cluster.quotas.after(event)
