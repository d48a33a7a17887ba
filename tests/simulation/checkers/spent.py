"""Accounting: what is booked to a tenant is what its gangs took on the devices, to the nanosecond; skew is booked to nobody.

Counted from what hosts told. Of members that tell when they ran: their devices, times the time from the last start to the
end. Of others, what each computed. Where only some tell, times of a grant that an epoch cut off may be lost with it. Clocks
that differ leave a range: from the shortest member's own time to the longest's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_server.core.tenant_records import TenantName

from tests.simulation.checkers.share_rule import ShareRule

if TYPE_CHECKING:
    from tests.simulation.sim_devices import Devices, Gang
    from tests.simulation.sim_shares import Contest


class Spent(ShareRule):
    name = "accounting"

    def __init__(self, contest: Contest) -> None:
        super().__init__(contest)
        self.least: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.skew: dict[str, int] = {}
        self.settled_later: list[tuple[int, str, int]] = []  # request, tenant, device time
        self.open: dict[tuple[str, int, int], list[tuple[int, bool]]] = {}  # by island, epoch, sequence: who told, and how

    def told(self, island: Devices, index: int, gang: Gang, row: bool) -> None:
        tellers = self.open.setdefault((island.name, island.epoch, gang.sequence), [])
        tellers.append((index, row))
        if not row:
            begun, ended = gang.own[index]
            self._book(gang, (ended - begun) * island.hosts[index].devices, (ended - begun) * island.hosts[index].devices)
        if len(tellers) < len(island.hosts):
            return
        rows = [index for index, told in tellers if told]
        del self.open[island.name, island.epoch, gang.sequence]
        if not rows:
            return
        devices = sum(island.hosts[each].devices for each in rows)
        own = [gang.own[each][1] - gang.own[each][0] for each in rows]
        least = min(own) * devices
        most = least if self.contest.clocks_agree else max(own) * devices
        if len(rows) < len(island.hosts):
            self._book(gang, 0, most)
            self.settled_later.append((gang.request, gang.session.tenant.name, least))
            return
        self._book(gang, least, most)
        waited = sum((each - min(own)) * island.hosts[place].devices for each, place in zip(own, rows, strict=True))
        self.skew[island.name] = self.skew.get(island.name, 0) + waited

    def _book(self, gang: Gang, least: int, most: int) -> None:
        tenant = gang.session.tenant.name
        self.least[tenant] = self.least.get(tenant, 0) + least
        self.most[tenant] = self.most.get(tenant, 0) + most

    def at_end(self) -> None:
        state = self.contest.core.state
        for request, name, device_ns in self.settled_later:
            if request not in self.contest.lost:
                self.least[name] += device_ns
        for tenant in self.contest.tenants:
            self.look()
            booked = state.tenants[TenantName(tenant.name)].device_ns
            least, most = self.least.get(tenant.name, 0), self.most.get(tenant.name, 0)
            self.contest.count("device milliseconds booked", booked // 1_000_000)
            if not least <= booked <= most:
                self.violate(f"{booked} ns are booked to {tenant.name}, it had {least} to {most}")
        for island in state.islands.values():
            if self.contest.clocks_agree and island.skew_ns != self.skew.get(island.name, 0):
                self.violate(f"the skew of {island.name} is {island.skew_ns} ns, it was {self.skew.get(island.name, 0)}")
