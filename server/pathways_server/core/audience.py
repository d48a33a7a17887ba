"""Whom a text is for: a tenant reads the names of its own sessions, of others only "another tenant"; administrators read all.

Every text that says who has something is made with these, so that no error, reason or figure tells more than a view would.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .tenant_records import TenantName

# Who reads it: a tenant, or None for an administrator.
Audience = TenantName | None


class Part(NamedTuple):
    """What a session has of something that several share; `name` is how those who may see it call it."""

    tenant: TenantName
    name: str
    amount: int


def may_see(audience: Audience, tenant: TenantName) -> bool:
    return audience is None or audience == tenant


def named(audience: Audience, tenant: TenantName, name: str) -> str:
    """One owner as the audience may know it."""
    return name if may_see(audience, tenant) else "another tenant"


def shares(audience: Audience, parts: Iterable[Part]) -> list[tuple[str, int]]:
    """The parts by name, in their order; those of others as one, the last."""
    own: list[tuple[str, int]] = []
    others: dict[TenantName, int] = {}
    for part in parts:
        if may_see(audience, part.tenant):
            own.append((part.name, part.amount))
        else:
            others[part.tenant] = others.get(part.tenant, 0) + part.amount
    if others:
        own.append(("another tenant" if len(others) == 1 else "other tenants", sum(others.values())))
    return own
