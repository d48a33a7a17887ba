"""All members of an epoch launched the same gang under the same sequence, each in rising order."""

from __future__ import annotations

from tests.simulation.checkers.checker import Checker


class Order(Checker):
    name = "order"

    def at_end(self) -> None:
        self.at_end_of_broken()

    def at_end_of_broken(self) -> None:
        """What was launched is looked at however the seed ended."""
        for (island, epoch), logs in self.cluster.launch_logs().items():
            named: dict[int, int] = {}
            for name, launches in logs:
                last = 0
                for sequence, execution in launches:
                    self.look()
                    if sequence <= last:
                        self.violate(f"{name} launched {sequence} after {last} in epoch {epoch} of island {island}")
                    if named.setdefault(sequence, execution) != execution:
                        self.violate(f"{name} launched another gang as {sequence} in epoch {epoch} of island {island}")
                    last = sequence
