"""What a rule of the simulation is: a class that is shown what goes into the core and what comes out, and names what is wrong.

A rule goes by the outside alone: events, effects, and what the simulated hosts did. It never asks the core what it thinks,
but for `invariants` and `leaks`, which are about the core's tables. `World.look` counts what it looked at: a rule that
never looks is hollow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pathways_common.model.ids import HostName
from pathways_server.core import effects as out
from pathways_server.core import events

if TYPE_CHECKING:
    from tests.simulation.checkers.grants import Grant
    from tests.simulation.sim_cluster import Cluster


class Checker:
    """One rule. Of the methods a rule has what it needs; those that it lacks cost nothing."""

    name: ClassVar[str]

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.world = cluster.world

    def before(self, event: events.Event) -> None:
        """The core is about to take this event."""

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        """The core has taken it and wants this done; nothing of it is done yet."""

    def granted(self, grant: Grant) -> None:
        """The next effect grants something, and not only again."""

    def sent(self, host: HostName, command: out.HostCommand) -> None:
        """The next effect is another command to a host."""

    def at_end(self) -> None:
        """Everybody has left and everything has ended."""

    def look(self) -> None:
        """Counts that the rule was applied to something."""
        self.world.look(self.name)

    def violate(self, text: str) -> None:
        """The rule is broken: ends the seed."""
        self.world.violate(self.name, text)
