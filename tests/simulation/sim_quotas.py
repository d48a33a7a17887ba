"""Tenants of a seed and limits that change while it runs. Checker: nothing is ever granted, held or opened beyond a limit.

What is in use when a limit is lowered stays, so a figure may be above its limit; it must not grow there. Draws are its own, so
that seeds without limits go on as they would.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from pathways_common.model.failure import Failure, Reason
from pathways_server.core import events, quotas
from pathways_server.core.tenant_records import Declared, Priority, Tenant, TenantName

from tests.simulation import sim_clock

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster

_NAMES = ("ads", "web")
Figures = dict[str, tuple[int, int, int, int]]


class Quotas:
    """Belongs to one cluster; `limited` says whether its seed has limits at all."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster = cluster
        self._random = random.Random(f"quotas {seed}")
        self.limited = self._random.random() < 0.5
        self._figures: Figures = {}  # after the last step, which are those before the next
        self.waited: dict[str, None] = {}  # kinds of limits that something stood in line for
        self.refused = 0

    def start(self) -> None:
        """The first limits are set."""
        if self.limited:
            for name in _NAMES:
                self._change(name)

    def tenant_of(self, number: int) -> TenantName:
        """Whose session a client's is."""
        return TenantName(self._random.choice([*_NAMES, *_NAMES, "default"])) if self.limited else sim_clock.tenant_of(number)

    def _change(self, name: str) -> None:
        """Sets limits now, and others in a while, until the healing begins."""
        if not self._cluster.faults.on:
            return
        draw = self._random.choice
        declared = Declared(
            devices_max=draw([0, 0, 0, 2, 6]),
            memory_bytes_max=draw([0, 96, 256, 512, 1024]),
            sessions_max=draw([0, 0, 0, 1]),
            programs_max=draw([0, 1, 1, 1, 2]),
            waits=self._random.random() < 0.85,
            weight=draw([1, 2, 4, 8]),
            priority=draw(list(Priority)),
            isolated=self._cluster.isolation.isolates(name),
        )
        self._cluster.post(events.TenantSet(TenantName(name), declared))
        self._cluster.world.after(self._random.randint(10, 150) * 10**6, lambda: self._change(name))

    def heal(self) -> None:
        """No limits any more: everything accepted has to end."""
        if self.limited:
            for name in _NAMES:
                isolated = self._cluster.isolation.isolates(name)
                self._cluster.post(events.TenantSet(TenantName(name), Declared(isolated=isolated)))

    def may_refuse(self, failure: Failure) -> bool:
        """Whether a limit can have caused a failure."""
        refused = self.limited and failure.reason is Reason.RESOURCE_EXHAUSTED and "set by its administrator" in failure.message
        refused = refused or (self.limited and "its administrator allows" in failure.message)
        self.refused += refused
        return refused

    # ---- the checker ------------------------------------------------------------------------------------------------

    def _figures_of(self, tenant: Tenant) -> tuple[int, int, int, int]:
        pending = self._cluster.core.state.pending
        opened = sum(number not in pending for number in tenant.sessions)
        return tenant.running, tenant.held_bytes, opened, quotas.devices_of(tenant)

    def _judge(self, tenant: Tenant, old: tuple[int, ...], now: tuple[int, ...], event: Any) -> None:
        declared = tenant.declared
        limits = (declared.programs_max, declared.memory_bytes_max, declared.sessions_max, declared.devices_max)
        for what, limit, had, has in zip(("programs", "bytes", "sessions", "devices"), limits, old, now, strict=True):
            if limit and has > limit and has > had:
                self._cluster.world.violate(
                    "quotas", f"tenant {tenant.name} went from {had} to {has} {what} with a limit of {limit} after {event!r}"
                )

    def after(self, event: Any) -> None:
        """A step is over."""
        if not self.limited:
            return
        for name in _NAMES:
            tenant = self._cluster.core.state.tenants.get(TenantName(name))
            if tenant is None:
                continue
            old, now = self._figures.get(name, (0, 0, 0, 0)), self._figures_of(tenant)
            if now != old:  # what was beyond a limit before may stay there
                self._figures[name] = now
                self._judge(tenant, old, now, event)
            if tenant.program_line:
                self.waited["programs"] = None
            if tenant.memory_line:
                self.waited["memory"] = None
            if any(session.blocked_on for session in tenant.sessions.values()):
                self.waited["sessions"] = None
