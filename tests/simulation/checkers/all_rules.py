"""Every rule of the simulation by name, and what shows each of them what happens.

A new rule is a module here with a `Checker`, one line in `CHECKERS`, and a patch in tests/mutants that it must catch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.checkers.accounting import Accounting
from tests.simulation.checkers.acyclic import Acyclic
from tests.simulation.checkers.checker import Checker
from tests.simulation.checkers.device_time import DeviceTime
from tests.simulation.checkers.endings import Endings
from tests.simulation.checkers.exclusive import Exclusive
from tests.simulation.checkers.grants import Grants
from tests.simulation.checkers.holdings import NoLeaksNamed
from tests.simulation.checkers.invariants import Invariants
from tests.simulation.checkers.leaks import Leaks
from tests.simulation.checkers.leases import Leases
from tests.simulation.checkers.order import Order
from tests.simulation.checkers.quotas import WithinQuotas
from tests.simulation.checkers.stale import Stale
from tests.simulation.checkers.stories import Stories
from tests.simulation.checkers.stuck import NamedWhenStuck
from tests.simulation.checkers.survivors import Survivors

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

CHECKERS: tuple[type[Checker], ...] = (
    Exclusive, Acyclic, Accounting, DeviceTime, WithinQuotas, Endings, NoLeaksNamed, Leaks, Leases, Order, Invariants, Stories,
    Stale, Survivors,
)  # fmt: skip
# What the simulated clients and hosts judge where they stand, and what a seed demands as a whole.
JUDGED_IN_PLACE = {
    "values": "every value is exact",
    "failures": "every failure can have happened to what it is reported for",
    "commands": "hosts are told only of what they have",
    "images": "executors are given images of what they are to load",
    "links": "frames arrive in order, each once",
    "memory": "devices never hold more than their memory, and what is used is not spilled",
    "turns": "an island and its cells never compute at the same time",
    "progress": "everything accepted ends",
    "restarts": "a controller that is made again is the one that was killed",
}
NAMES = (*(checker.name for checker in CHECKERS), *JUDGED_IN_PLACE)


class Rules:
    """The rules of one seed. `dense`: the costly ones look after every event."""

    def __init__(self, cluster: Cluster, dense: bool) -> None:
        self.grants = Grants()
        self.all = [checker(cluster) for checker in CHECKERS]
        for checker in self.all:
            if isinstance(checker, Invariants):
                checker.dense = dense
        if cluster.stuck_hosts.limit_ns:
            self.all.append(NamedWhenStuck(cluster))
        self._before = [each.before for each in self.all if type(each).before is not Checker.before]
        self._after = [each.after for each in self.all if type(each).after is not Checker.after]
        self._sent = [each.sent for each in self.all if type(each).sent is not Checker.sent]
        self._granted = [each.granted for each in self.all if type(each).granted is not Checker.granted]

    def before(self, event: events.Event) -> None:
        for look in self._before:
            look(event)

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        for effect in effects:
            if isinstance(effect, out.SendToHost):
                grant = self.grants.read(effect.host, effect.command)
                for judge in self._sent if grant is None else ():
                    judge(effect.host, effect.command)
                for weigh in self._granted if grant is not None else ():
                    weigh(grant)
        for look in self._after:
            look(event, effects)

    def at_end(self) -> None:
        for checker in self.all:
            checker.at_end()
