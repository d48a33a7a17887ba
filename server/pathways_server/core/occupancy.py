"""Who fills a table that all sessions share: nobody takes so much of it that others are refused.

New entries are taken if those of their session, those of its tenant and those of everybody, all with the new ones, add up to no
more than the bound. So a session alone gets a third of the table, a tenant less than half however many sessions it opens, and
what one of them takes leaves room for who holds nothing yet: the more hold a lot, the less each gets (dynamic thresholds, as
switches share their buffers between ports).
"""

from __future__ import annotations

from pathways_common.model.ids import SessionNumber

from .tenant_records import TenantName


class Occupancy:
    """Counts the entries of one table, or their bytes; `most` is its bound."""

    def __init__(self, most: int = 0) -> None:
        self.most = most
        self.total = 0
        self.sessions: dict[SessionNumber, int] = {}
        self.tenants: dict[TenantName, int] = {}

    def enter(self, session: SessionNumber, tenant: TenantName, count: int = 1) -> None:
        """So many more."""
        if count:
            self.total += count
            self.sessions[session] = self.sessions.get(session, 0) + count
            self.tenants[tenant] = self.tenants.get(tenant, 0) + count

    def leave(self, session: SessionNumber, tenant: TenantName, count: int = 1) -> None:
        """So many less."""
        if count:
            self.total -= count
            self.sessions[session] -= count
            if not self.sessions[session]:
                del self.sessions[session]
            self.tenants[tenant] -= count
            if not self.tenants[tenant]:
                del self.tenants[tenant]

    def refusal(self, session: SessionNumber, tenant: TenantName, what: str, count: int = 1) -> str:
        """In words why so many more are too many; empty if they are not. `what` is in the table and goes by itself."""
        own, of_tenant = self.sessions.get(session, 0), self.tenants.get(tenant, 0)
        if not count or own + of_tenant + self.total + 3 * count <= self.most:
            return ""
        if 3 * count > self.most:
            return f"{count} {what} at once are more than a third of the {self.most} allowed to all; ask for fewer at a time"
        return (
            f"{own} {what} of this session, {of_tenant} of its tenant and {self.total} of all tenants are under way, and {count}"
            f" more would be beyond its share of the {self.most} allowed; wait for some first"
        )
