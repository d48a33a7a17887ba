"""Tenants: found by name, made when first named; what is set for one holds from the step in which the core hears of it."""

from __future__ import annotations

from . import quotas, registry, sessions, slices
from .state import State
from .tenant_events import TenantRemoved, TenantSet
from .tenant_records import Declared, Tenant, TenantName


def named(state: State, name: TenantName) -> Tenant:
    """The tenant of this name."""
    tenant = state.tenants.get(name)
    if tenant is None:
        tenant = state.tenants[name] = Tenant(name)
    return tenant


def on_tenant_set(state: State, event: TenantSet) -> None:
    tenant = named(state, event.tenant)
    tenant.declared = event.declared
    tenant.limits_work = bool(event.declared.programs_max or event.declared.memory_bytes_max)
    quotas.look_again(state, tenant)
    sessions.try_pending(state)
    slices.retry_waiting(state)
    state.log("tenant set", tenant=tenant.name, settings=event.declared)


def on_tenant_removed(state: State, event: TenantRemoved) -> None:
    """The record stays as long as sessions refer to it, without what was set for it."""
    tenant = state.tenants.get(event.tenant)
    registry.forget_tenant(state, event.tenant)
    if tenant is None:
        return
    tenant.declared, tenant.limits_work = Declared(), False
    quotas.look_again(state, tenant)
    if not tenant.sessions:
        del state.tenants[event.tenant]
    state.log("tenant removed", tenant=event.tenant)
