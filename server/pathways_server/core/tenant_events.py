"""What the shell tells of tenants: what is set for them, and their end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .tenant_records import Declared, TenantName


class Death(NamedTuple):
    """An executor that ended while a program ran: its content, what it is called, whose it is; where, how, when (Unix time)."""

    program: str
    name: str
    tenant: str
    host: str
    signal: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class TenantSet:
    """All that holds for a tenant from now on. What it has in use stays, also above a limit."""

    tenant: TenantName
    declared: Declared


@dataclass(frozen=True, slots=True)
class TenantRemoved:
    """Its token opens nothing any more; its registered programs go."""

    tenant: TenantName


@dataclass(frozen=True, slots=True)
class DeathsRestored:
    """What earlier lives of the controller wrote down, oldest first; once, before anything else."""

    deaths: tuple[Death, ...]


@dataclass(frozen=True, slots=True)
class ProgramAllowed:
    """A program that ended executors may run again."""

    program: str
