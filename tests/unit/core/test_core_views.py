"""What people are shown: work in line and in flight, memory by session and device, and why something does not go on."""

from __future__ import annotations

from pathways_common.model.ids import GlobalId, HostName, Sequence, SessionNumber, TransferId
from pathways_server.core import effects as out
from pathways_server.core import events, memory_view, why, work
from pathways_server.core.obstacles import WaitKind, name_of
from pathways_server.core.tenant_records import DEFAULT_TENANT, TenantName

from tests.unit.core.core_driver import Driver, facts, gid, only, sent
from tests.unit.core.core_runs import A, B, chain, driver_of, put, run

SECOND_NS = 10**9
ONE = SessionNumber(1)


def rows(driver: Driver, tenant: TenantName | None = None, limit: int = 0) -> list[work.WorkRow]:
    return work.take(driver.core.state, tenant, tenant, limit)[0]


def told(driver: Driver, identifier: int, tenant: TenantName | None = None) -> tuple[str, ...]:
    return why.of_work(driver.core.state, driver.now_ns, GlobalId(identifier), tenant).sentences


def computing() -> Driver:
    driver = Driver()
    driver.open()
    driver.compile(1)
    driver.put(10)
    return driver


def test_work_in_flight_tells_who_has_finished_it() -> None:
    driver = computing()
    driver.execute(1, (10,), 20)
    driver.finish("a0", 1)
    row = only(rows(driver))
    assert (row.kind, row.state, row.islands, row.steps, row.steps_granted) == ("EXECUTION", "RUNNING", ("a",), 1, 1)
    assert (row.finished, row.unfinished, row.reason, row.position) == (("a0",), ("a1",), None, 0)
    driver.now_ns = 3 * SECOND_NS
    assert told(driver, gid(5020)) == (
        "execution 1.5020 (program 1.1) waits for nothing: it runs on a, asked for 3.0 s ago, hosts a0 have finished, hosts a1"
        " have not",
    )
    driver.finish("a1", 1)
    assert rows(driver) == []
    assert told(driver, gid(5020)) == ("1.5020 is over, or was never asked for: it is neither in line nor in flight",)


def test_work_that_waits_for_bytes_names_the_array_the_host_and_the_deadline() -> None:
    driver = computing()
    uploads = sent(driver.upload(11, upload=3), out.ExpectUpload)
    driver.execute(1, (11,), 20)
    driver.execute(1, (10,), 30)
    driver.now_ns = 2 * SECOND_NS
    first, second = rows(driver)
    assert [row.state for row in (first, second)] == ["WAITING", "WAITING"]
    assert (first.position, second.position) == (1, 2)
    reason = first.reason
    assert reason is not None
    assert (reason.kind, reason.what) == (WaitKind.BYTES, "bytes of array 1.11 on host a0, host a1")
    assert (reason.holder, reason.since_ns) == ("its client, which uploads them", 0)
    assert reason.deadline_ns == uploads[0][1].timeout_ns
    assert second.reason is not None
    assert second.reason.kind is WaitKind.EARLIER_WORK
    assert told(driver, gid(5030)) == (
        "execution 1.5030 (program 1.1) waits: it waits for 1 earlier piece of work of its session on island a; it is number 2 in"
        " its session's line",
        "waits for 1 earlier piece of work of its session on island a: execution 1.5020, which is next; for 2.0 s now",
    )
    for host, command in uploads:
        driver.landed(host, TransferId(command.transfer_id))
    assert all(row.state == "RUNNING" for row in rows(driver))


def test_work_for_an_island_that_forms_names_what_it_lacks_and_when_it_is_given_up() -> None:
    driver = computing()
    driver.lose("a1", "no heartbeat for 20 s")
    driver.execute(1, (), 20)
    driver.now_ns = 10 * SECOND_NS
    assert told(driver, gid(5020))[1] == (
        "waits for island a to be ACTIVE: island a waits for 1 more host of 2; there: a0, last seen: a1 (no heartbeat for 20 s);"
        " for 10.0 s now, given up in 50.0 s"
    )


def test_work_whose_program_is_loading_names_the_hosts_that_have_not_answered() -> None:
    driver = computing()
    driver.answer_loads = False
    driver.kill_executor("a0")
    driver.execute(1, (), 20)
    loads = sent(driver.log, out.Load)[-2:]
    driver.step(driver.loaded("a0", loads[0][1]))
    reason = only(rows(driver)).reason
    assert reason is not None
    assert (reason.kind, reason.what) == (WaitKind.PROGRAM, "loading of program 1.1")
    assert (reason.holder, reason.deadline_ns) == ("host a1, which compile or load it", 900 * SECOND_NS)


def test_work_behind_a_full_window_names_whose_gangs_fill_it() -> None:
    driver = Driver(window_gangs=2)
    for number in (1, 2):
        driver.open(number)
        driver.compile(1, session=number)
        driver.put(10, session=number)
    for result in (20, 21, 22):
        driver.execute(1, (10,), result)
    driver.execute(1, (10,), 20, session=2)
    waiting = [row for row in rows(driver) if row.state == "WAITING"]
    assert [name_of(row.id) for row in waiting] == ["1.5022", "2.5020"]
    reason = waiting[1].reason
    assert reason is not None
    assert (reason.kind, reason.what, reason.holder) == (WaitKind.TURN, "its turn on island a", "session 1 (2 in flight)")
    session = why.of_session(driver.core.state, driver.now_ns, SessionNumber(2), None)
    assert session.sentences == (
        "session 2 (test) of tenant default has one piece of work in line or in flight, 0 begun",
        "execution 2.5020: waits for its turn on island a: session 1 (2 in flight); for 0.0 s now",
    )


def test_a_run_tells_how_many_of_its_steps_are_granted() -> None:
    driver = driver_of(window_gangs=2, quantum_gangs=1)
    chain(driver, A, A, A, A, B)
    put(driver, 10, A)
    run(driver, (10,), 20)
    row = only(rows(driver))
    assert (row.kind, row.name, row.islands, row.state) == ("RUN", "train", ("a", "b"), "RUNNING")
    assert (row.steps, row.steps_granted > 0, row.steps_granted < 5, row.position) == (5, True, True, 1)
    assert row.reason is not None
    assert row.reason.kind in (WaitKind.ROOM, WaitKind.TURN)
    assert f"{row.steps_granted} of 5 steps are granted" in told(driver, gid(5020))[0]


def test_device_time_and_an_estimate_are_told_where_hosts_measure() -> None:
    driver = Driver(window_gangs=1)
    for number in (1, 2):
        driver.open(number)
        driver.compile(1, session=number)
    driver.execute(1, (), 20)
    for host in ("a0", "a1"):
        event = events.HostProgressed(HostName(host), driver.epoch(), Sequence(1), busy_ns=5_000_000)
        driver.step(event)
    for result in (21, 22):
        driver.execute(1, (), result)
    driver.execute(1, (), 20, session=2)
    driver.step(events.HostProgressed(HostName("a0"), driver.epoch(), Sequence(2), busy_ns=12_000_000))
    found = {name_of(row.id): row for row in rows(driver)}
    # One device of a0 has computed 7 ms since.
    assert found["1.5021"].device_ns == 7_000_000
    waiting = found["2.5020"]
    assert waiting.reason is not None
    assert waiting.device_ns == 0
    # The gang in flight was estimated at 5 ms; then the other session has a turn of at most one quantum.
    assert waiting.estimate_ns == 5_000_000 + driver.core.state.config.quantum_ns


def test_rows_are_cut_at_the_limit_and_filtered_by_tenant() -> None:
    driver = computing()
    other = TenantName("ads")
    driver.step(events.SessionOpened(SessionNumber(2), (), "other", other))
    driver.compile(1, session=2)
    driver.execute(1, (), 20)
    driver.execute(1, (), 20, session=2)
    found, left_out = work.take(driver.core.state, None, None, 1)
    assert ([row.session for row in found], left_out) == ([1], 1)
    assert [row.session for row in rows(driver, other)] == [2]
    assert [row.session for row in rows(driver, DEFAULT_TENANT)] == [1]
    assert rows(driver, TenantName("nobody")) == []
    assert [row.session for row in memory_view.take(driver.core.state, other)] == [2]
    # A tenant is told of another's work what it is told of work that never was.
    assert told(driver, gid(5020), other) == ("1.5020 is of session 1, which is not open",)
    assert not why.of_session(driver.core.state, 0, ONE, other).known


def test_work_of_a_session_that_is_over_is_shown_until_its_hosts_have_finished_it() -> None:
    driver = computing()
    driver.execute(1, (10,), 20)
    driver.execute(1, (10,), 21)
    driver.close()
    assert [(name_of(row.id), row.state) for row in rows(driver)] == [("1.5020", "RUNNING"), ("1.5021", "RUNNING")]
    for host in ("a0", "a1"):
        driver.finish(host, 2)
    assert rows(driver) == []


def test_of_a_long_line_only_what_is_shown_is_looked_at_and_the_rest_is_counted() -> None:
    driver = driver_of(window_gangs=2)
    chain(driver, A, B)
    put(driver, 10, A, upload=1)
    for result in (20, 30, 40, 50):
        run(driver, (10,), result)
    found, left_out = work.take(driver.core.state, None, None, 3)
    # A run stands in the lanes of both islands and counts once.
    assert ([name_of(row.id) for row in found], left_out) == (["1.5020", "1.5030", "1.5040"], 1)
    assert [row.position for row in found] == [1, 2, 3]


def test_memory_is_told_by_device_with_the_largest_arrays_first() -> None:
    driver = computing()
    driver.put(11, (0,))
    driver.upload(12, upload=1, size=400)
    row = only(memory_view.take(driver.core.state, None))
    assert (row.buffers, row.pending, row.live_bytes) == (3, 1, 2 * 8 + 8 + 2 * 400)
    assert [(each.host, each.device, each.live_bytes) for each in row.devices] == [("a0", 0, 416), ("a1", 0, 408)]
    assert [(each.id, each.size_bytes, each.state, each.shards) for each in row.largest] == [
        (gid(12), 800, "PENDING", 2),
        (gid(10), 16, "PRESENT", 2),
        (gid(11), 8, "PRESENT", 1),
    ]
    assert [each.id for each in only(memory_view.take(driver.core.state, None, limit=1)).largest] == [gid(12)]
    assert memory_view.take(driver.core.state, None, session=9) == []


def test_a_donated_array_is_not_counted_beside_what_it_was_donated_to() -> None:
    driver = Driver()
    driver.facts["p"] = facts(donated=(0,))
    driver.open()
    driver.compile(1)
    driver.put(10)
    driver.execute(1, (10,), 20)
    assert only(memory_view.take(driver.core.state, None)).live_bytes == 16
    assert only(driver.core.snapshot(0).sessions).live_bytes == 16


def test_poisoned_arrays_are_counted_by_their_cause() -> None:
    driver = computing()
    driver.execute(1, (10,), 20)
    driver.put(11)
    driver.kill_executor("a0")
    row = only(memory_view.take(driver.core.state, None))
    counts = sorted((count, failure.reason.name) for count, failure in row.poisoned)
    assert (sum(count for count, _ in counts), row.live_bytes) == (3, 0)


def test_a_session_that_waits_for_an_island_says_for_which_and_until_when() -> None:
    driver = Driver({"a": ["a0", "a1"]}, join=False)
    driver.join("a0", "a")
    driver.open()
    driver.now_ns = 5 * SECOND_NS
    answer = why.of_session(driver.core.state, driver.now_ns, ONE, None)
    assert answer.sentences == (
        "session 1 is not open yet: it waits for island a to be ACTIVE",
        "waits for island a to be ACTIVE: island a waits for 1 more host of 2; there: a0; for 5.0 s now, given up in 25.0 s",
    )


def test_an_idle_session_waits_for_nothing() -> None:
    driver = computing()
    answer = why.of_session(driver.core.state, driver.now_ns, ONE, None)
    assert answer.sentences == (
        "session 1 (test) of tenant default waits for nothing here: it has no work in line or in flight, its client asks for"
        " none",
    )
    assert why.of_session(driver.core.state, 0, SessionNumber(9), None).sentences == ("session 9 is not open",)


def test_bytes_on_their_way_are_named_with_both_hosts_and_their_deadline() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]})
    driver.open(1, ("*",))
    driver.put(10, devices=(0,))
    driver.copy(11, 10, (1,))
    began_ns = driver.now_ns
    driver.now_ns += 5 * SECOND_NS
    answer = why.of_session(driver.core.state, driver.now_ns, ONE, None)
    assert answer.sentences == (
        "session 1 (test) of tenant default has no work in line or in flight, its client asks for none; the bytes of 1 arrays are"
        " on their way",
        "waits for bytes of array 1.11 on host b0: a copy of array 1.10 on host a0; for 5.0 s now, given up in 59 min 55 s",
    )
    assert only(answer.reasons).since_ns == began_ns
    assert only(answer.reasons).kind is WaitKind.BYTES


def test_a_slice_that_waits_says_who_holds_the_devices() -> None:
    driver = Driver(pool_slices=2)
    driver.open(1)
    driver.open(2)
    driver.add_slice(1, 2, exclusive=True)
    driver.now_ns = SECOND_NS
    driver.add_slice(7, 1, session=2, exclusive=True, wait=True, timeout_ns=10 * SECOND_NS)
    driver.now_ns = 3 * SECOND_NS
    answer = why.of_slice(driver.core.state, driver.now_ns, SessionNumber(2), 7, None)
    reason = only(list(answer.reasons))
    assert (reason.kind, reason.since_ns, reason.deadline_ns) == (WaitKind.SLICE, SECOND_NS, 11 * SECOND_NS)
    assert "slice 1 of session 1 (test)" in reason.holder
    assert answer.sentences[0] == f"slice 2.7 waits for {reason.holder}"
    assert answer.sentences[1].endswith("for 2.0 s now, given up in 8.0 s")
    held = why.of_slice(driver.core.state, driver.now_ns, ONE, 1, None).sentences
    assert held == ("slice 1.1 waits for nothing: it has 2 devices of island a, which no other session may use",)
    assert not why.of_slice(driver.core.state, 0, ONE, 5, None).known
    assert HostName("a0") in driver.core.state.hosts
