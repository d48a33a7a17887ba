"""Who is named to whom: a tenant is told of its own sessions, of others only that they are there; an administrator of all."""

from __future__ import annotations

from pathways_common.model.ids import SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import obstacles, why, work
from pathways_server.core.audience import Audience, Part, shares
from pathways_server.core.tenant_records import TenantName

from tests.unit.core.core_driver import Driver, facts, gid, only, replies
from tests.unit.core.test_core_quarantine import ready, twice
from tests.unit.core.test_core_quotas import failure_of
from tests.unit.core.test_core_spills import big

ADS, MAPS, NEWS = (TenantName(name) for name in ("ads", "maps", "news"))


def sessions_of(*tenants: TenantName, **config: int) -> Driver:
    """Session 1 of the first tenant, session 2 of the second, and so on; program 1 in each."""
    driver = Driver(**config)
    for number, tenant in enumerate(tenants, 1):
        driver.open(number, tenant=tenant)
        driver.compile(1, session=number)
    return driver


def holder(driver: Driver, session: int, audience: Audience) -> str:
    """Who has what the only work in line of a session waits for."""
    (row,) = [row for row in work.take(driver.core.state, None, audience)[0] if row.session == session]
    assert row.reason is not None
    return row.reason.holder


def test_parts_of_others_are_one_and_the_last() -> None:
    parts = [Part(ADS, "session 1", 5), Part(MAPS, "session 2", 4), Part(NEWS, "session 3", 2), Part(MAPS, "session 4", 1)]
    assert shares(None, parts) == [("session 1", 5), ("session 2", 4), ("session 3", 2), ("session 4", 1)]
    assert shares(MAPS, parts) == [("session 2", 4), ("session 4", 1), ("other tenants", 7)]
    assert shares(NEWS, parts[1:]) == [("session 3", 2), ("another tenant", 5)]
    assert shares(MAPS, parts[1:2]) == [("session 2", 4)]


def test_who_has_the_turn_is_named_to_its_own_tenant_and_to_administrators() -> None:
    driver = sessions_of(ADS, ADS, MAPS, window_gangs=2)
    driver.execute(1, (), 20, session=1)
    driver.execute(1, (), 20, session=2)
    for number in (1, 2, 3):
        driver.execute(1, (), 30, session=number)
    assert holder(driver, 3, None) == "session 1 (1 in flight), session 2 (1 in flight)"
    assert holder(driver, 3, MAPS) == "another tenant (2 in flight)"
    found = why.of_session(driver.core.state, 0, SessionNumber(3), MAPS)
    assert "another tenant (2 in flight)" in found.sentences[1]
    assert "session 1" not in " ".join(found.sentences)
    assert "session 1 (1 in flight)" in why.of_work(driver.core.state, 0, gid(5030, 3), None).sentences[1]
    assert "another tenant" in why.of_work(driver.core.state, 0, gid(5030, 3), MAPS).sentences[1]


def test_who_holds_the_memory_is_named_to_its_own_tenant_and_to_administrators() -> None:
    driver = sessions_of(ADS, MAPS, memory=28, spill=False)
    driver.facts["large"] = facts(outputs=4, digest=b"l")
    driver.compile(2, program="large", session=2)
    big(driver, 10, 24)
    driver.execute(1, (), 20, session=2)
    assert holder(driver, 2, None) == "tenant ads session 1 (24 bytes)"
    assert holder(driver, 2, MAPS) == "another tenant (24 bytes)"
    driver.pass_time(6)
    (lane,) = driver.core.state.sessions[SessionNumber(2)].lanes.values()
    assert lane.blocked_on.endswith("held by another tenant (24 bytes)")
    while lane.queue:
        driver.pass_time(1)
    driver.execute(2, (), 30, session=2)  # never fits
    for result in (20, 30):
        failure = failure_of(driver, result, session=2)
        assert "held by another tenant (24 bytes)" in failure.message
        assert "ads" not in str(failure)


def test_who_holds_the_devices_of_a_slice_is_named_to_its_own_tenant_and_to_administrators() -> None:
    driver = Driver(pool_slices=2)
    for number, tenant in ((1, ADS), (2, MAPS)):
        driver.open(number, tenant=tenant)
    driver.add_slice(1, 2, exclusive=True)
    told = only(replies(driver.add_slice(1, 2, session=2, wait=True), out.SliceWaiting)).text
    refused = only(replies(driver.add_slice(2, 2, session=2), out.SliceAdded)).failure
    assert refused is not None
    state = driver.core.state
    wanted = state.sessions[SessionNumber(2)].slices[1]
    texts = [told, refused.message, wanted.text, driver.core.snapshot(0, MAPS).slices[1].waits_for]
    texts += why.of_slice(state, 0, SessionNumber(2), 1, MAPS).sentences
    texts += why.of_session(state, 0, SessionNumber(2), MAPS).sentences[1:]
    texts += [reason.holder for reason in obstacles.of_slice(state, wanted, MAPS)]
    assert ["another tenant" in text for text in texts] == [True] * len(texts)
    assert not [text for text in texts if "session 1" in text]
    own = "slice 1 of session 1 (test)"
    assert own in driver.core.snapshot(0).slices[1].waits_for
    assert own in why.of_slice(state, 0, SessionNumber(2), 1, None).sentences[0]
    assert own in why.of_slice(state, 0, SessionNumber(2), 1, None).sentences[1]
    other = only(replies(driver.add_slice(2, 2, session=1, wait=True, exclusive=True), out.SliceAdded))
    assert other.failure is None, "slices of one session share devices"


def test_a_program_that_is_not_run_any_more_is_called_as_its_own_tenant_called_it() -> None:
    driver = ready()
    twice(driver)
    driver.open(2, tenant="maps")
    own = only(replies(driver.compile(101, program="0123456789abcdef"), out.Compiled)).failure
    other = only(replies(driver.compile(101, program="0123456789abcdef", session=2), out.Compiled)).failure
    assert own is not None
    assert other is not None
    assert own.message.startswith("program 0123456789ab (of test) ended 2 executors")
    assert other.message.startswith("program 0123456789ab ended 2 executors")
