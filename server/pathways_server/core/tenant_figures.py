"""What tenants have in use, for people and tools. Taking the figures changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

from . import quotas
from .state import State
from .tenant_records import TenantName


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """`devices` are those of its sessions and their slices; `held_bytes` those of its buffers over all devices."""

    sessions: int = 0
    devices: int = 0
    held_bytes: int = 0
    programs_running: int = 0
    programs_waiting: int = 0
    device_ns: int = 0
    byte_ns: int = 0


def take(state: State, name: TenantName) -> TenantFigures:
    """All zero for a tenant that the core has not heard of."""
    tenant = state.tenants.get(name)
    if tenant is None:
        return TenantFigures()
    return TenantFigures(
        len(tenant.sessions), quotas.devices_of(tenant), tenant.held_bytes, tenant.running, tenant.queued, tenant.device_ns,
        tenant.byte_ns,
    )  # fmt: skip
