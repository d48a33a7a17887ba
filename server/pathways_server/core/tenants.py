"""Tenants: found by name, made when first named."""

from __future__ import annotations

from .state import State
from .tenant_records import Tenant, TenantName


def named(state: State, name: TenantName) -> Tenant:
    """The tenant of this name."""
    tenant = state.tenants.get(name)
    if tenant is None:
        tenant = state.tenants[name] = Tenant(name)
    return tenant
