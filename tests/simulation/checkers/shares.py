"""Shares: while the same tenants of one class keep work in line, each gets device time by its weight.

The difference may be three percent of what is due, or one of the longest grants (a gang, or of a run a quantum) at either end
of the phase and a window, whichever is more: grants are not divided, and those in the window are counted by the core but did
not run. Sessions of a tenant share its part equally. What ran is what counts, cut at both ends of the phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_server.core.share_records import Policy

from tests.simulation.checkers.share_rule import ShareRule

if TYPE_CHECKING:
    from tests.simulation.sim_devices import Devices, Gang
    from tests.simulation.sim_shares import Contest, Granted, Session, Tenant

TOLERANCE = 0.03


class Shares(ShareRule):
    name = "shares"

    def __init__(self, contest: Contest) -> None:
        super().__init__(contest)
        self.gangs: dict[str, list[Gang]] = {name: [] for name in contest.islands}
        self.begins_ns: dict[str, int] = {}

    def opens(self) -> None:
        for gangs in self.gangs.values():
            gangs.clear()

    def opened(self) -> None:
        """What was granted so far may have been when somebody was alone."""
        for name, island in self.contest.islands.items():
            self.begins_ns[name] = max(island.drained_ns, self.world.now_ns)

    def granted(self, island: Devices, granted: Granted) -> None:
        self.gangs[island.name] += granted.gangs

    def closes(self) -> None:
        for name, island in self.contest.islands.items():
            tenants = self._competing(name)
            if len(tenants) > 1:
                self._judge(island, tenants)

    def _competing(self, name: str) -> list[Tenant]:
        """Those who share by weight: all, or those of the highest class; nobody where it goes by who came first."""
        policy = self.contest.policies[name]
        tenants = [tenant for tenant in self.contest.tenants if tenant.active and tenant.on(name)]
        if policy is Policy.FIFO:
            return []
        if policy is Policy.PRIORITY and tenants:
            highest = max(tenant.priority for tenant in tenants)
            tenants = [tenant for tenant in tenants if tenant.priority == highest]
            if any(_turn_ns(tenant, tenants, name) > self.contest.ageing_ns // 2 for tenant in tenants):
                self.contest.count("phases in which shares are so long that ageing counts")
                return []
        return tenants

    def _judge(self, island: Devices, tenants: list[Tenant]) -> None:
        sessions = [session for tenant in tenants for session in tenant.on(island.name)]
        gangs = self.gangs[island.name]
        now_ns = self.world.now_ns
        leftovers = [gang.ended_ns for gang in gangs if not gang.session.tenant.active]
        begin_ns = max([self.begins_ns[island.name], *leftovers])
        if begin_ns >= now_ns or any(session.dry_ns > begin_ns for session in sessions):
            self.contest.count("phases in which somebody ran dry")
            return
        had: dict[Session, int] = dict.fromkeys(sessions, 0)
        for gang in gangs:
            if gang.session in had:
                had[gang.session] += _device_ns(island, gang, begin_ns, now_ns) // island.device_count
        longest = 2 * max(session.grant_ns for session in sessions) + self.contest.core.state.config.settled_window_ns
        total = sum(had.values())
        weights = sum(tenant.weight for tenant in tenants)
        self.contest.count("phases judged by shares")
        self.contest.count("device milliseconds shared", total * island.device_count // 1_000_000)
        for tenant in tenants:
            own = {session: had[session] for session in tenant.on(island.name)}
            part = sum(own.values())
            self._compare(f"tenant {tenant.name}", part, total * tenant.weight / weights, longest)
            for session, spent in own.items():
                self._compare(f"session {session.number}", spent, part / len(own), longest)

    def _compare(self, who: str, had: float, due: float, longest: int) -> None:
        self.look()
        self.contest.count("shares compared to three percent", int(due * TOLERANCE >= longest))
        if abs(had - due) > max(due * TOLERANCE, longest):
            self.violate(f"{who} had {had / 1e6:.2f} ms, due are {due / 1e6:.2f}, the ends may be {longest / 1e6:.2f}")


def _device_ns(island: Devices, gang: Gang, begin_ns: int, end_ns: int) -> int:
    """What a gang took between two times on all devices. Of a host that tells busy time alone that is with its waits."""
    total = 0
    for host, (own_ns, ended_ns) in zip(island.hosts, gang.own, strict=True):
        start_ns = gang.begun_ns if host.tells_times else own_ns
        total += max(min(ended_ns, end_ns) - max(start_ns, begin_ns), 0) * host.devices
    return total


def _turn_ns(tenant: Tenant, tenants: list[Tenant], name: str) -> float:
    """How long its share lets it wait between two grants."""
    own = max(session.grant_ns for session in tenant.on(name))
    others = [other for other in tenants if other is not tenant]
    return own + sum(other.weight / tenant.weight * own + max(each.grant_ns for each in other.on(name)) for other in others)
