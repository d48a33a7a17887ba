"""A question for leaks finds none while work is in flight, whatever is in flight; at the end there are none either."""

from __future__ import annotations

from tests.simulation.checkers.checker import Checker


class NoLeaksNamed(Checker):
    name = "holdings"

    def at_end(self) -> None:
        self.look()
        for text in self.cluster.inspector.named[:10]:
            self.violate(text)
