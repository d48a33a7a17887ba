"""Accounts of tenants by day (UTC): what the core counts goes to the journal once a minute, when somebody asks, and at the end.

The core counts from zero in every life of the controller that does not go on with another's work, so what is written is always a
difference. A controller that is killed loses what came after the last time: a minute at most.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pathways_server.core.state import State
from pathways_server.core.tenant_records import Tenant, TenantName
from pathways_server.shell.tenant_journal import TenantJournal, UsageRow

_INTERVAL_S = 60.0
_DAY_S = 86400.0
_SECOND_NS = 1_000_000_000


@dataclass(slots=True)
class _Written:
    """How far a tenant's figures are in the journal already."""

    tenant: Tenant
    device_ns: int = 0
    byte_ns: int = 0


class Accounts:
    """`wall_s` is the time of day, for tests."""

    def __init__(self, journal: TenantJournal, state: Callable[[], State], wall_s: Callable[[], float] = time.time) -> None:
        self._journal = journal
        self._state = state
        self._wall_s = wall_s
        self._since_s = wall_s()
        self._written: dict[TenantName, _Written] = {}

    def begin(self) -> None:
        """What the core has counted so far was written by an earlier life, or is lost with the last minute of it."""
        for name, tenant in self._state().tenants.items():
            self._written[name] = _Written(tenant, tenant.device_ns, tenant.byte_ns // _SECOND_NS * _SECOND_NS)

    async def run(self) -> None:
        """Writes every minute, and at midnight, so that each day gets its own."""
        while True:
            await asyncio.sleep(min(_INTERVAL_S, _DAY_S - self._wall_s() % _DAY_S))
            self.write()

    def write(self) -> None:
        """Everything up to now is in the journal; of the day on which it began to be counted."""
        day = datetime.fromtimestamp(self._since_s, UTC).date().isoformat()
        self._since_s = self._wall_s()
        rows: list[UsageRow] = []
        for name, tenant in self._state().tenants.items():
            written = self._written.get(name)
            if written is None or written.tenant is not tenant:  # it was removed and made again
                written = self._written[name] = _Written(tenant)
            device_ns = tenant.device_ns - written.device_ns
            byte_seconds = (tenant.byte_ns - written.byte_ns) // _SECOND_NS
            if device_ns or byte_seconds:
                rows.append(UsageRow(day, name, device_ns, byte_seconds))
            written.device_ns += device_ns
            written.byte_ns += byte_seconds * _SECOND_NS
        if rows:
            self._journal.add_usage(rows)
