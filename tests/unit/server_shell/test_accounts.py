"""Accounts by day: differences are added, days end at midnight (UTC), and no life of the controller counts twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pathways_proto.v1 import tenants_pb2
from pathways_server.core.config import CoreConfig
from pathways_server.core.state import State
from pathways_server.core.tenant_records import Tenant, TenantName
from pathways_server.shell.accounts import Accounts
from pathways_server.shell.journal import Journal
from pathways_server.shell.tenant_journal import TenantJournal, UsageRow

from tests.unit.server_shell.scripted_core import controller
from tests.unit.server_shell.test_tenants import ask

ADS = TenantName("ads")
SECOND_NS = 10**9
# 2026-11-30 23:59:00 UTC
EVENING_S = 1796083140.0


class Life:
    """One life of the controller on a state directory."""

    def __init__(self, path: Path) -> None:
        self.journal = Journal(path)
        self.tenants = TenantJournal(self.journal, 10, 3)
        self.state = State(CoreConfig())
        self.now_s = EVENING_S
        self.accounts = Accounts(self.tenants, lambda: self.state, lambda: self.now_s)
        self.ads = self.state.tenants[ADS] = Tenant(ADS)

    def used(self, device_seconds: float, byte_seconds: float, passed_s: float = 1.0) -> None:
        self.ads.device_ns += int(device_seconds * SECOND_NS)
        self.ads.byte_ns += int(byte_seconds * SECOND_NS)
        self.now_s += passed_s


def test_what_is_written_twice_is_counted_once_and_another_life_adds_to_it(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.used(1.5, 100)
    life.accounts.write()
    life.accounts.write()
    life.used(0.5, 0.75)
    life.accounts.write()
    life.used(0, 0.5)
    life.accounts.write()
    assert life.tenants.usage() == [UsageRow("2026-11-30", "ads", 2 * SECOND_NS, 101)]
    life.journal.close()
    later = Life(tmp_path)
    later.accounts.write()
    later.used(1, 9)
    later.accounts.write()
    assert later.tenants.usage("2026-11-30") == [UsageRow("2026-11-30", "ads", 3 * SECOND_NS, 110)]
    later.journal.close()


def test_a_day_gets_what_began_in_it_and_old_days_leave(tmp_path: Path) -> None:
    life = Life(tmp_path)
    for day in range(4):
        life.now_s = EVENING_S + 86400 * day
        life.accounts.write()
        life.used(day + 1, 0, 60)  # midnight
        life.accounts.write()
    days = [(row.day, row.device_ns // SECOND_NS) for row in life.tenants.usage()]
    assert days == [("2026-12-01", 2), ("2026-12-02", 3), ("2026-12-03", 4)]
    life.journal.close()


def test_a_tenant_that_was_removed_and_made_again_starts_anew(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.used(5, 5)
    life.accounts.write()
    life.ads = life.state.tenants[ADS] = Tenant(ADS)
    life.used(1, 2)
    life.accounts.write()
    assert life.tenants.usage() == [UsageRow("2026-11-30", "ads", 6 * SECOND_NS, 7)]
    life.journal.close()


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_accounts_are_shown_up_to_now_and_survive_the_controller(tmp_path: Path, end: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path) as running:
            tenant = running.core.state.tenants[ADS] = Tenant(ADS)
            tenant.device_ns = 3 * SECOND_NS
            if end == "kill":
                usage = (await ask(running, "GetUsage", tenants_pb2.GetUsageRequest())).usage
                assert [(row.tenant, row.device_seconds) for row in usage] == [("ads", 3.0)]
                # What was shown is written; nothing more is when the end comes.
                running.app._accounts._journal = None  # type: ignore[assignment]
        async with controller(tmp_path) as running:
            usage = (await ask(running, "GetUsage", tenants_pb2.GetUsageRequest())).usage
            assert [(row.tenant, row.device_seconds) for row in usage] == [("ads", 3.0)]
            missing = (await ask(running, "GetUsage", tenants_pb2.GetUsageRequest(day="1999-01-01"))).usage
            assert not missing

    asyncio.run(scenario())
