"""Tenants in the journal: names, hashes of tokens, settings, policies, accounts by day, and what administrators did.

Every change is one transaction (`_write`), together with the audit line that tells of it. Audit lines and days above their bounds
leave with the transaction that brings a new one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from pathways_common.process.logs import fields

from pathways_server.core.tenant_events import Death
from pathways_server.shell.journal import Journal, Statement

_DEATHS_MAX = 4096
_LOG = logging.getLogger(__name__)

_TABLES = (
    "create table if not exists tenants (name text primary key, token blob not null) strict",
    "create table if not exists tenant_settings (tenant text not null, setting text not null, value text not null,"
    " primary key (tenant, setting)) strict",
    "create table if not exists policies (island text primary key, policy text not null) strict",
    "create table if not exists drains (host text primary key, island text not null) strict",
    "create table if not exists usage (day text not null, tenant text not null, device_ns integer not null,"
    " byte_seconds integer not null, primary key (day, tenant)) strict",
    "create table if not exists deaths (number integer primary key autoincrement, program text not null, name text not null,"
    " tenant text not null, host text not null, signal text not null, time_ns integer not null) strict",
    "create table if not exists audit (number integer primary key autoincrement, time_ns integer not null, tenant text not null,"
    " peer text not null, action text not null, subject text not null, before text not null, after text not null) strict",
)


class Act(NamedTuple):
    """One administrative action: whose token it was and from where, what was done to what, and what held before and after."""

    time_ns: int
    tenant: str
    peer: str
    action: str
    subject: str
    before: str = ""
    after: str = ""


class UsageRow(NamedTuple):
    """What a tenant used on a day (UTC)."""

    day: str
    tenant: str
    device_ns: int
    byte_seconds: int


class TenantJournal:
    """`audit_lines_max` and `usage_days_max`: how much history stays."""

    def __init__(self, journal: Journal, audit_lines_max: int, usage_days_max: int) -> None:
        self._journal = journal
        self._audit_lines_max = audit_lines_max
        self._usage_days_max = usage_days_max
        journal.add_tables(_TABLES)

    def _write(self, act: Act | None, *statements: Statement) -> None:
        """The one way in which anything here is written."""
        self._journal.write(*statements, *(self._audit_line(act) if act is not None else ()))
        if act is not None:
            values = fields(
                who=act.tenant, peer=act.peer, action=act.action, subject=act.subject, before=act.before, after=act.after
            )
            _LOG.info("administrative action", extra=values)

    def _audit_line(self, act: Act) -> tuple[Statement, Statement]:
        columns = "time_ns, tenant, peer, action, subject, before, after"
        return (
            Statement(f"insert into audit ({columns}) values (?, ?, ?, ?, ?, ?, ?)", act),
            Statement("delete from audit where number <= (select max(number) - ? from audit)", (self._audit_lines_max,)),
        )

    # ---- names, tokens, settings ------------------------------------------------------------------------------------

    def tokens(self) -> dict[str, bytes]:
        """Hash of the token by tenant."""
        return {name: bytes(token) for name, token in self._journal.rows("select name, token from tenants order by name")}

    def settings(self) -> dict[str, dict[str, str]]:
        """What was set at run time, by tenant and setting."""
        found: dict[str, dict[str, str]] = {}
        query = "select tenant, setting, value from tenant_settings order by tenant, rowid"
        for tenant, setting, value in self._journal.rows(query):
            found.setdefault(tenant, {})[setting] = value
        return found

    def set_token(self, tenant: str, token: bytes, act: Act) -> None:
        """Makes a tenant, or gives it another token."""
        self._write(act, Statement("insert or replace into tenants values (?, ?)", (tenant, token)))

    def set_settings(self, tenant: str, settings: Mapping[str, str], act: Act) -> None:
        """Replaces all that was set for a tenant at run time."""
        self._write(act, *_replace_settings(tenant, settings))

    def add(self, tenant: str, token: bytes, settings: Mapping[str, str], act: Act) -> None:
        """Makes a tenant with settings."""
        made = Statement("insert into tenants values (?, ?)", (tenant, token))
        self._write(act, made, *_replace_settings(tenant, settings))

    def remove(self, tenant: str, act: Act) -> None:
        """Forgets all but the accounts and the audit of a tenant."""
        gone = Statement("delete from tenants where name = ?", (tenant,))
        self._write(act, gone, *_replace_settings(tenant, {}))

    # ---- policies of islands ----------------------------------------------------------------------------------------

    def policies(self) -> dict[str, str]:
        """What was set at run time, by island."""
        return dict(self._journal.rows("select island, policy from policies order by island"))

    def set_policy(self, island: str, policy: str, act: Act) -> None:
        """How an island orders work from now on, and when it comes back."""
        self._write(act, Statement("insert or replace into policies values (?, ?)", (island, policy)))

    # ---- drained hosts ----------------------------------------------------------------------------------------------

    def drains(self) -> dict[str, str]:
        """Hosts that are to take part in nothing, each with its island."""
        return dict(self._journal.rows("select host, island from drains order by rowid"))

    def set_drain(self, host: str, island: str, act: Act) -> None:
        """A host is to be empty from now on."""
        self._write(act, Statement("insert or replace into drains values (?, ?)", (host, island)))

    def forget_drain(self, host: str, act: Act) -> None:
        """It is taken back."""
        self._write(act, Statement("delete from drains where host = ?", (host,)))

    # ---- accounts ---------------------------------------------------------------------------------------------------

    def add_usage(self, rows: Iterable[UsageRow]) -> None:
        """Adds to what is written for a day."""
        add = (
            "insert into usage values (?, ?, ?, ?) on conflict (day, tenant) do update set"
            " device_ns = device_ns + excluded.device_ns, byte_seconds = byte_seconds + excluded.byte_seconds"
        )
        kept = "select distinct day from usage order by day desc limit ?"
        bound = Statement(f"delete from usage where day not in ({kept})", (self._usage_days_max,))
        self._write(None, *(Statement(add, row) for row in rows), bound)

    def usage(self, day: str = "") -> list[UsageRow]:
        """By day and tenant; all days that are kept if none is named."""
        where, values = ("where day = ?", (day,)) if day else ("", ())
        found = self._journal.rows(
            f"select day, tenant, device_ns, byte_seconds from usage {where} order by day, tenant", *values
        )
        return [UsageRow(*row) for row in found]

    # ---- programs that ended executors ------------------------------------------------------------------------------

    def add_death(self, death: Death) -> None:
        """Writes one down; the oldest leave above a bound."""
        columns = "program, name, tenant, host, signal, time_ns"
        self._write(
            None,
            Statement(f"insert into deaths ({columns}) values (?, ?, ?, ?, ?, ?)", death),
            Statement("delete from deaths where number <= (select max(number) - ? from deaths)", (_DEATHS_MAX,)),
        )

    def deaths(self) -> tuple[Death, ...]:
        """All that are remembered, oldest first."""
        rows = self._journal.rows("select program, name, tenant, host, signal, time_ns from deaths order by number")
        return tuple(Death(*row) for row in rows)

    def forget_unknown_deaths(self, known: Mapping[str, int]) -> None:
        """Of each program the last ones beyond so many: written right before a kill, they are told again."""
        newest = "select number from deaths where program = ? order by number desc limit ?"
        for program, count in self._journal.rows("select program, count(*) from deaths group by program"):
            if (surplus := count - known.get(program, 0)) > 0:
                self._write(None, Statement(f"delete from deaths where number in ({newest})", (program, surplus)))

    def forget_deaths(self, program: str, act: Act) -> None:
        """Those of a program that is allowed again."""
        self._write(act, Statement("delete from deaths where program = ?", (program,)))

    # ---- audit ------------------------------------------------------------------------------------------------------

    def audit(self, count: int) -> list[tuple[int, Act]]:
        """The last lines with their numbers, the last first."""
        columns = "number, time_ns, tenant, peer, action, subject, before, after"
        rows = self._journal.rows(f"select {columns} from audit order by number desc limit ?", count)
        return [(number, Act(*rest)) for number, *rest in rows]


def _replace_settings(tenant: str, settings: Mapping[str, str]) -> list[Statement]:
    rows = [Statement("insert into tenant_settings values (?, ?, ?)", (tenant, name, value)) for name, value in settings.items()]
    return [Statement("delete from tenant_settings where tenant = ?", (tenant,)), *rows]
