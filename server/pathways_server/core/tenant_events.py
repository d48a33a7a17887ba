"""What the shell tells of tenants: what is set for them, and their end."""

from __future__ import annotations

from dataclasses import dataclass

from .tenant_records import Declared, TenantName


@dataclass(frozen=True, slots=True)
class TenantSet:
    """All that holds for a tenant from now on. What it has in use stays, also above a limit."""

    tenant: TenantName
    declared: Declared


@dataclass(frozen=True, slots=True)
class TenantRemoved:
    """Its token opens nothing any more; its registered programs go."""

    tenant: TenantName
