"""Device time is booked once, to who had it; what early members waited for the last is skew and booked to nobody."""

from __future__ import annotations

from tests.simulation.checkers.checker import Checker


class DeviceTime(Checker):
    name = "device time"

    def at_end(self) -> None:
        self.look()
        self.cluster.books.check(self.cluster)
