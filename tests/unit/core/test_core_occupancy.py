"""Tables that all sessions share: a greedy session, and a tenant with many sessions, leave room for others."""

from __future__ import annotations

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.occupancy import Occupancy
from pathways_server.core.tenant_records import Declared, TenantName

from tests.unit.core.core_driver import Driver, gid, only, replies, spec

ADS, MAPS = TenantName("ads"), TenantName("maps")


def number(value: int) -> SessionNumber:
    return SessionNumber(value)


def fill(table: Occupancy, session: int, tenant: TenantName) -> int:
    """As many as it is given."""
    count = 0
    while not table.refusal(number(session), tenant, "reads"):
        table.enter(number(session), tenant)
        count += 1
    return count


def test_a_session_alone_gets_a_third_and_leaves_room_for_others() -> None:
    table = Occupancy(900)
    assert fill(table, 1, ADS) == 300  # 300 of it, of its tenant, of all
    assert fill(table, 2, ADS) == 100  # 100 + 400 + 400
    assert fill(table, 3, MAPS) == 166  # 166 + 166 + 566 = 898, one more would be 901
    assert table.refusal(number(2), ADS, "reads") == (
        "100 reads of this session, 400 of its tenant and 566 of all tenants are under way, and 1 more would be beyond its share"
        " of the 900 allowed; wait for some first"
    )


def test_who_asks_for_more_than_anybody_gets_is_not_told_to_wait() -> None:
    table = Occupancy(900)
    assert not table.refusal(number(1), ADS, "transfers", 300)
    assert table.refusal(number(1), ADS, "transfers", 301) == (
        "301 transfers at once are more than a third of the 900 allowed to all; ask for fewer at a time"
    )


def test_a_tenant_with_many_sessions_gets_less_than_half() -> None:
    table = Occupancy(900)
    assert sum(fill(table, session, ADS) for session in range(100)) < 450
    assert fill(table, 100, MAPS) >= 150


def test_who_left_makes_room_again() -> None:
    table = Occupancy(900)
    for _ in range(fill(table, 1, ADS)):
        table.leave(number(1), ADS)
    assert (table.total, table.sessions, table.tenants) == (0, {}, {})
    assert fill(table, 2, MAPS) == 300


# ---- in the core: `ads` takes what it gets, and `maps` is served ----------------------------------------------------------


def two_tenants(**config: int) -> Driver:
    driver = Driver(**config)
    driver.open(1, tenant="ads")
    driver.open(2, tenant="maps")
    return driver


def make(driver: Driver, buffer: int, session: int = 1) -> Failure | None:
    """Four bytes on one device; what the array has failed with."""
    piece = events.Piece((0,), 4, bytes(4), 0)
    driver.step(events.ArrayMade(number(session), gid(buffer, session), spec(0, elements=1), (piece,)))
    return driver.core.state.sessions[number(session)].buffers[gid(buffer, session)].failure


def refused(failure: Failure | None, most: int = 12) -> None:
    assert failure is not None
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert f"beyond its share of the {most} allowed" in failure.message


def test_who_reads_a_lot_is_refused_and_others_are_not() -> None:
    driver = two_tenants(readers_max=12)
    for session in (1, 2):
        driver.put(10, session=session)
    failed = [replies(driver.fetch(10, each), out.FetchFailed) for each in range(1, 6)]
    assert failed[:4] == [[], [], [], []]
    refused(only(failed[4]).failure)
    refused(only(replies(driver.wait(10, wait=9), out.Ready)).failure)
    assert not replies(driver.fetch(10, 1, session=2), out.FetchFailed)
    driver.close(1)
    assert driver.core.state.reading.tenants == {MAPS: 1}


def test_who_uploads_a_lot_is_refused_and_others_are_not() -> None:
    driver = two_tenants(transfers_max=12)
    for upload in (1, 2):  # two shards each
        assert not replies(driver.upload(10 + upload, upload), out.UploadWithdrawn)
    refused(only(replies(driver.upload(13, 3), out.UploadWithdrawn)).failure)
    assert not replies(driver.upload(11, 1, session=2), out.UploadWithdrawn)
    driver.close(1)
    assert driver.core.state.transferring.tenants == {MAPS: 2}


def test_who_copies_a_lot_is_refused_and_others_are_not() -> None:
    driver = two_tenants(transfers_max=12)
    for session in (1, 2):
        driver.put(10, session=session)
    for result in range(20, 23):  # both shards change places
        driver.copy(result, 10, (1, 0))
    refused(only(replies(driver.fetch(22), out.FetchFailed)).failure)
    driver.copy(20, 10, (1, 0), session=2)
    assert not replies(driver.fetch(20, session=2), out.FetchFailed)


def test_whose_arrays_wait_is_refused_and_others_wait_beside_them() -> None:
    driver = two_tenants(held_bytes_max=48)
    driver.lose("a1")  # now arrays wait for the island

    for buffer in range(10, 14):
        assert make(driver, buffer) is None
    refused(make(driver, 14), 48)
    assert make(driver, 10, session=2) is None
    driver.join("a1", "a")
    assert only([*driver.core.state.islands.values()]).keeping.total == 0


@pytest.mark.parametrize("until", ["the island is there", "it is given up"])
def test_bytes_that_wait_for_an_island_count_while_they_lie_there_also_if_their_session_has_ended(until: str) -> None:
    driver = two_tenants(island_wait_ns=5 * 10**9)
    driver.lose("a1")
    make(driver, 10)
    make(driver, 10, session=2)
    driver.close(1)
    kept = only([*driver.core.state.islands.values()]).keeping
    assert (kept.total, kept.tenants) == (8, {ADS: 4, MAPS: 4})
    if until == "the island is there":
        driver.join("a1", "a")
    else:
        driver.pass_time(6)
    assert (kept.total, kept.sessions, kept.tenants) == (0, {}, {})


def test_bytes_that_wait_for_memory_do_not_count_long_after_their_session_has_ended() -> None:
    driver = Driver(memory=8)
    driver.open(1, tenant="ads")
    driver.open(2, tenant="maps")
    driver.put(10, (0, 1), session=2)  # all there is
    for buffer in (10, 11):
        make(driver, buffer)
    kept = only([*driver.core.state.islands.values()]).keeping
    assert kept.tenants == {ADS: 8}
    driver.close(1)
    driver.pass_time(0.1)
    assert (kept.total, kept.sessions, kept.tenants) == (0, {}, {})


def test_bytes_that_wait_for_a_quota_end_with_their_session() -> None:
    driver = two_tenants()
    driver.step(events.TenantSet(ADS, Declared(memory_bytes_max=16, waits=True)))
    driver.put(10)
    for buffer in (11, 12):
        make(driver, buffer)
    kept = only([*driver.core.state.islands.values()]).keeping
    assert kept.tenants == {ADS: 8}
    driver.close(1)
    assert (kept.total, kept.sessions, kept.tenants) == (0, {}, {})


def test_who_inspects_a_lot_is_refused_and_others_are_not() -> None:
    driver = two_tenants(calls_max=12)
    for session in (1, 2):
        driver.compile(1, session=session)

    def inspect(each: int, session: int = 1) -> list[out.Effect]:
        return driver.step(events.InspectRequested(number(session), each, gid(1, session), 1))

    for each in range(4):
        assert not replies(inspect(each), out.Inspected)
    refused(only(replies(inspect(4), out.Inspected)).failure)
    assert not replies(inspect(1, session=2), out.Inspected)
    driver.close(1)
    assert driver.core.state.inspecting.tenants == {MAPS: 1}


def test_who_opens_many_sessions_is_refused_and_others_are_not() -> None:
    driver = Driver(sessions_max=12)
    for session in range(1, 7):
        assert replies(driver.open(session, tenant="ads"), out.WelcomeSession)
    refused(only(replies(driver.open(7, tenant="ads"), out.RefuseSession)).failure)
    assert replies(driver.open(8, tenant="maps"), out.WelcomeSession)
