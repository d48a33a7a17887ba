"""Preemption: under `priority` nothing of a lower class is granted while a higher class waits, but for who has waited too long.

A tenant of the highest class that comes among others who compete begins when what is granted has run: a window in estimated
time, and one grant beyond it; and after each grant of somebody who had waited too long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_server.core.share_records import Policy
from pathways_server.core.tenant_records import Priority

from tests.simulation.checkers.share_rule import ShareRule
from tests.simulation.checkers.starvation import ROUND_TRIP_NS

if TYPE_CHECKING:
    from tests.simulation.sim_devices import Devices
    from tests.simulation.sim_shares import Contest, Granted, Session


class Preemption(ShareRule):
    name = "preemption"

    def __init__(self, contest: Contest) -> None:
        super().__init__(contest)
        self.served_ns: dict[tuple[str, str], int] = {}  # by island and tenant: when last granted something, or it came
        self.came: dict[tuple[str, str], tuple[int, int]] = {}  # who has come, when, and until when it is to begin
        self.settled: dict[str, int] = {}

    def opens(self) -> None:
        self.came.clear()
        self.settled.clear()

    def opened(self) -> None:
        for name, island in self.contest.islands.items():
            self.settled[name] = island.drained_ns

    def asked(self, session: Session) -> None:
        contest, name, tenant = self.contest, session.island, session.tenant
        key = name, tenant.name
        now_ns = self.world.now_ns
        if tenant.waits_on(name) and key not in self.served_ns:
            self.served_ns[key] = now_ns
        others = [other for other in contest.sessions.values() if other.island == name and other.tenant is not tenant]
        busy = [other for other in others if other.requests]
        only = contest.policies[name] is Policy.PRIORITY and tenant.priority is Priority.HIGH
        if (
            not session.is_ready
            or not only
            or len(busy) < 2
            or any(each.requests for each in tenant.on(name) if each is not session)
        ):
            return
        if len(session.requests) != 1 or any(other.priority is Priority.HIGH for other in contest.tenants if other is not tenant):
            return
        if (
            name not in self.settled
            or now_ns < self.settled[name]
            or contest.islands[name].epoch < 0
            or now_ns < contest.islands[name].resumed_ns + 1
        ):
            return
        longest = max(other.grant_ns for other in others)
        window = int(contest.core.state.config.window_ns * (1 + max(other.jitter for other in others)))
        self.came[key] = now_ns, now_ns + window + longest + ROUND_TRIP_NS

    def granted(self, island: Devices, granted: Granted) -> None:
        contest, name, tenant = self.contest, island.name, granted.session.tenant
        key = name, tenant.name
        now_ns = self.world.now_ns
        if contest.policies[name] is Policy.PRIORITY:
            self._judge(island, granted)
            came_ns, limit_ns = self.came.pop(key, (0, 0))
            if limit_ns:
                self.look()
                contest.count("arrivals of the highest class that were timed")
                begun_ns = granted.gangs[0].begun_ns
                if begun_ns > limit_ns:
                    text = f"{tenant.name} came at {came_ns / 1e6:.2f} ms and began at {begun_ns / 1e6:.2f}"
                    self.violate(f"{text}, not by {limit_ns / 1e6:.2f}")
            for other, (since_ns, limit_ns) in list(self.came.items()):
                if other[0] == name:
                    self.came[other] = since_ns, limit_ns + granted.duration_ns + ROUND_TRIP_NS
        self.served_ns[key] = now_ns
        if not tenant.waits_on(name):
            del self.served_ns[key]

    def _judge(self, island: Devices, granted: Granted) -> None:
        name, tenant = island.name, granted.session.tenant
        higher = [other for other in self.contest.tenants if other.priority > tenant.priority and other.is_ready_on(name)]
        if not higher:
            return
        self.look()
        since_ns = self.served_ns.get((name, tenant.name), 0)
        if self.world.now_ns - since_ns < self.contest.ageing_ns:
            waited = (self.world.now_ns - since_ns) / 1e6
            self.violate(f"{tenant.name} goes before {higher[0].name} of a higher class after {waited:.1f} ms on {name}")
