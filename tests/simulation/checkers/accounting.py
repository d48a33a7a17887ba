"""Every launch that was granted is made once by each of its members, and none that was not; what an epoch's end cut off is a tail.

A gang is its session's: it was granted while the session was open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_common.model.ids import HostName
from pathways_server.core import events

from tests.simulation.checkers.checker import Checker
from tests.simulation.checkers.grants import Grant

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster


class Accounting(Checker):
    name = "accounting"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.granted_to: dict[tuple[HostName, int], list[tuple[int, int]]] = {}
        self.closed: dict[int, None] = {}

    def before(self, event: events.Event) -> None:
        if isinstance(event, events.SessionClosed):
            self.closed[event.session] = None

    def granted(self, grant: Grant) -> None:
        self.look()
        if grant.execution_id >> 40 in self.closed:
            self.violate(f"{grant} is for a session that has ended")
        booked = self.granted_to.setdefault((grant.host, grant.epoch), [])
        booked += [(sequence, grant.execution_id) for sequence in grant.sequences]

    def at_end(self) -> None:
        for (_, epoch), logs in self.cluster.launch_logs().items():
            for name, launches in logs:
                self.look()
                granted = self.granted_to.get((HostName(name), epoch), [])
                executor = self.cluster.hosts[name].executor
                lives = executor is not None and executor.epoch == epoch
                if launches != granted[: len(launches)] or (lives and len(launches) != len(granted)):
                    self.violate(f"{name} launched {launches[-4:]} of epoch {epoch}, granted were {granted[-4:]}")
                if lives and executor is not None and granted and executor.finished != granted[-1][0]:
                    self.violate(f"{name} finished {executor.finished} of epoch {epoch} and was granted {granted[-1]}")
