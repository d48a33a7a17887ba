"""Starvation: nobody with work in line waits longer than what follows from the policy.

Under `priority` a tenant waits for the ageing time, for what is granted already, and for one grant of each other tenant. By
share it waits until the others have had, by weight, what it had with its last grant, and one grant each; the estimates that
order them are a report old, and the next gang is granted before the last one is told: both count three times. First come,
first served: nothing goes before what was asked for earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_server.core.share_records import Policy

from tests.simulation.checkers.share_rule import ShareRule
from tests.simulation.sim_devices import COMMAND_DELAY_MS, REPORT_DELAY_MS

if TYPE_CHECKING:
    from tests.simulation.sim_devices import Devices
    from tests.simulation.sim_shares import Contest, Granted, Session, Tenant

ROUND_TRIP_NS = int((COMMAND_DELAY_MS[1] + REPORT_DELAY_MS[1]) * 1_000_000)
# Of 200 contests one comes to 2.1, two more to 1.5.
LATE_ESTIMATES = 3


class Wait:
    """Of one tenant on one island. `others_ns`: what others were granted since. `owed_ns`: its last grant, by weight."""

    def __init__(self) -> None:
        self.since_ns = -1
        self.others_ns = 0
        self.owed_ns = 0.0


class Starvation(ShareRule):
    name = "starvation"

    def __init__(self, contest: Contest) -> None:
        super().__init__(contest)
        self.waits: dict[tuple[str, str], Wait] = {}

    def opens(self) -> None:
        """What a change means for a wait that is under way is counted from the change on."""
        waiting = {
            (name, tenant.name) for tenant in self.contest.tenants for name in self.contest.islands if tenant.waits_on(name)
        }
        for key, wait in self.waits.items():
            wait.others_ns = 0
            # What waited may have been lost with its epoch.
            wait.since_ns = self.world.now_ns if key in waiting else -1

    def opened(self) -> None:
        for (name, _), wait in self.waits.items():
            if wait.since_ns >= 0:
                wait.since_ns = max(wait.since_ns, self._settled_ns(name))

    def _settled_ns(self, name: str) -> int:
        """When what is granted will have run: somebody who was alone may have been granted all its work."""
        return max(self.contest.islands[name].drained_ns, self.world.now_ns)

    def asked(self, session: Session) -> None:
        wait = self._wait(session.tenant, session.island)
        if wait.since_ns < 0:
            wait.since_ns, wait.others_ns = self._settled_ns(session.island), 0

    def granted(self, island: Devices, granted: Granted) -> None:
        session, name = granted.session, island.name
        tenant = session.tenant
        policy = self.contest.policies[name]
        if policy is Policy.FIFO:
            self._first_come(island, granted)
        wait = self._wait(tenant, name)
        self._judge(island, tenant, wait)
        wait.since_ns = self.world.now_ns if tenant.waits_on(name) else -1
        wait.others_ns = 0
        wait.owed_ns = granted.duration_ns / tenant.weight
        for other in self.contest.tenants:
            if other is not tenant and other.waits_on(name):
                self._wait(other, name).others_ns += granted.duration_ns

    def closes(self) -> None:
        for name, island in self.contest.islands.items():
            for tenant in self.contest.tenants:
                wait = self._wait(tenant, name)
                if wait.since_ns >= 0 and not self.world.broken:
                    self._judge(island, tenant, wait)

    def _wait(self, tenant: Tenant, name: str) -> Wait:
        return self.waits.setdefault((name, tenant.name), Wait())

    def _judge(self, island: Devices, tenant: Tenant, wait: Wait) -> None:
        contest, name = self.contest, island.name
        policy = contest.policies[name]
        if policy is Policy.FIFO or island.epoch < 0:
            return
        self.look()
        others = [other for other in contest.tenants if other is not tenant and other.on(name)]
        grants = {other: max(session.grant_ns for session in other.on(name)) for other in others}
        if policy is Policy.PROPORTIONAL_SHARE:
            own = wait.owed_ns * LATE_ESTIMATES
            most = sum(other.weight * own + LATE_ESTIMATES * grant for other, grant in grants.items())
            if wait.others_ns > most:
                text = f"{tenant.name} waits while others get {wait.others_ns / 1e6:.1f} ms on {name}, {most / 1e6:.1f} follow"
                self.violate(f"{text} from the weights")
            return
        waited = self.world.now_ns - max(wait.since_ns, island.resumed_ns)
        longest = max((session.grant_ns for session in contest.sessions.values() if session.island == name), default=0)
        ahead = contest.core.state.config.window_ns + longest + ROUND_TRIP_NS
        bound = contest.ageing_ns + ahead + sum(grant + ROUND_TRIP_NS for grant in grants.values())
        if waited > contest.ageing_ns:
            contest.count("waits that ageing ended")
        if waited > bound:
            self.violate(f"{tenant.name} has waited {waited / 1e6:.1f} ms on {name}, at most {bound / 1e6:.1f} are allowed")

    def _first_come(self, island: Devices, granted: Granted) -> None:
        self.look()
        for session in self.contest.sessions.values():
            waits = session.island == island.name and session.line and session.is_ready
            if waits and session.line[0].asked_ns < granted.asked_ns:
                text = f"session {granted.session.number} goes first with what it asked for {granted.asked_ns} ns"
                self.violate(f"{text}, session {session.number} asked {session.line[0].asked_ns} ns")
                return
