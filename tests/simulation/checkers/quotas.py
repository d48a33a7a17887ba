"""Nothing is ever granted, held or opened beyond a limit of its tenant; what is in use when a limit is lowered stays."""

from __future__ import annotations

from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.checkers.checker import Checker


class WithinQuotas(Checker):
    name = "quotas"

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        if self.cluster.quotas.limited:
            self.look()
            self.cluster.quotas.after(event)
