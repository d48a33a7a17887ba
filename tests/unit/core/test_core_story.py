"""What is remembered of things, in words and in order: why they waited, how they ended, for what cause; tenants see their own."""

from __future__ import annotations

from typing import Any

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, Sequence
from pathways_server.core import conditions, events, story
from pathways_server.core import effects as out
from pathways_server.core.records import Host
from pathways_server.core.story import Told
from pathways_server.core.tenant_records import Declared, TenantName

from tests.unit.core.core_driver import Driver, gid, only, sent
from tests.unit.core.core_runs import A, B, chain, driver_of, node_failed, put, run

SECOND_NS = 10**9
BROKEN = Failure(Reason.USER_ERROR, "no such customer", host="a0", id="h1")


def tell(driver: Driver, kind: str, number: int = 0, name: str = "", tenant: str | None = None) -> list[Told]:
    owner = None if tenant is None else TenantName(tenant)
    return story.tell(driver.core.state, driver.now_ns, kind, number, name, owner)


def texts(driver: Driver, kind: str, number: int = 0, name: str = "", tenant: str | None = None) -> list[str]:
    return [line.text for line in tell(driver, kind, number, name, tenant)]


def host(driver: Driver, name: str) -> Host:
    return driver.core.state.hosts[HostName(name)]


def computing(**config: Any) -> Driver:
    driver = Driver(**config)
    driver.open()
    driver.compile(1)
    driver.put(10)
    return driver


def test_a_run_came_waited_was_granted_and_finished() -> None:
    driver = computing()
    uploads = sent(driver.upload(11, upload=3), out.ExpectUpload)
    driver.now_ns = 1 * SECOND_NS
    driver.execute(1, (11,), 20)
    driver.now_ns = 3 * SECOND_NS
    for name, command in uploads:
        driver.landed(name, command.transfer_id)
    driver.now_ns = 4 * SECOND_NS
    driver.finish("a0", 1)
    driver.finish("a1", 1)
    lines = tell(driver, "RUN", gid(5020))
    assert [(line.at_ns // SECOND_NS, line.text) for line in lines] == [
        (1, "asked for by tenant default: program 1.1"),
        (1, "waits for bytes of array 11"),
        (3, "granted on island a as gang 1 of epoch 1, 2.0 s after it was asked for"),
        (4, "finished on all its hosts, 1.0 s after its grant"),
    ]
    assert {line.subject for line in lines} == {"run 1.5020"}


def test_what_is_looked_at_again_and_again_is_told_once() -> None:
    driver = computing()
    driver.upload(11, upload=3)
    driver.execute(1, (11,), 20)
    driver.execute(1, (11,), 21)
    state = driver.core.state
    first, second = (work for lane in state.islands[IslandName("a")].lanes.values() for work in lane.queue)
    for _ in range(10):  # heads of two lines, looked at in turn
        state.history.blocked(driver.now_ns, first, "bytes of array 11")
        state.history.blocked(driver.now_ns, second, "memory of host a0")
    state.history.blocked(driver.now_ns, second, "island a")
    for number, waits in ((5020, ["waits for bytes of array 11"]), (5021, ["waits for memory of host a0", "waits for island a"])):
        assert [text for text in texts(driver, "RUN", gid(number)) if text.startswith("waits for")] == waits


def test_what_is_under_way_ends_with_what_it_waits_for_now() -> None:
    driver = computing()
    driver.execute(1, (10,), 20)
    driver.finish("a0", 1)
    assert texts(driver, "RUN", gid(5020))[-1].startswith("now: execution 1.5020 (program 1.1) waits for nothing: it runs on a")


def test_a_cause_is_found_by_the_run_that_met_it_by_those_that_inherited_it_and_by_its_id() -> None:
    driver = computing()
    driver.execute(1, (10,), 20)
    driver.execute(1, (20,), 21)
    failed = events.NodeFailed(HostName("a0"), gid(5020), Sequence(1), BROKEN)
    driver.step(failed)
    sentence = "failed: no such customer [reason=USER_ERROR host=a0 id=h1]"
    assert sentence in texts(driver, "RUN", gid(5020))
    assert sentence in texts(driver, "RUN", gid(5021))
    lines = tell(driver, "FAILURE", name="h1")
    assert lines[0].text == sentence
    assert [line.subject for line in lines if line.text == "failed for this cause"] == ["run 1.5020", "run 1.5021"]
    assert sentence in texts(driver, "HOST", name="a0")
    assert sentence not in texts(driver, "HOST", name="a1")
    for kind, number in (("SESSION", 1), ("PROGRAM", gid(1))):
        assert [text for text in texts(driver, kind, number) if sentence in text] == [
            f"program 1.1; granted at once; {sentence}"
        ] * 2


def test_a_failed_node_of_a_program_is_told_with_its_place() -> None:
    driver = driver_of()
    chain(driver, A, B)
    put(driver, 10, A)
    run(driver, (10,), 20)
    node_failed(driver, "a0", 20, 1, BROKEN)
    assert any("failed: node 1 of 2 (" in text and "no such customer" in text for text in texts(driver, "RUN", gid(5020)))
    assert "where: node=1, node_count=2, program=train, source=train.py:1" in texts(driver, "FAILURE", name="h1")


def test_a_lost_host_is_in_the_story_of_host_island_and_what_it_ended() -> None:
    driver = computing()
    driver.execute(1, (10,), 20)
    driver.kill_executor("a1", tail="secret words")
    for kind, name in (("HOST", "a1"), ("ISLAND", "a")):
        told = texts(driver, kind, name=name)
        ended = next(
            index for index, text in enumerate(told) if "epoch ended" in text and "its executor ended (signal 9)" in text
        )
        assert any("ACTIVE" in text for text in told[:ended])
        assert any("ACTIVE" in text for text in told[ended:]), "it formed again"
        assert any("secret words" in text for text in told)
        assert not any("secret words" in text for text in texts(driver, kind, name=name, tenant="default"))
    assert any("SLICE_LOST" in text for text in texts(driver, "RUN", gid(5020)))


def test_a_refused_request_and_a_refused_slice_are_told_with_the_reason() -> None:
    driver = computing()
    driver.execute(9, (10,), 20)
    assert any("reason=" in text for text in texts(driver, "RUN", gid(5020)))
    driver.add_slice(1, count=4)
    assert any("slice refused" in text and "reason" in text for text in texts(driver, "SLICE", gid(1)))


def test_a_tenant_is_told_nothing_of_another_also_when_the_session_is_over() -> None:
    driver = Driver()
    driver.step(events.TenantSet(TenantName("ads"), Declared()))
    driver.open(1)
    driver.open(2, tenant="ads")
    for session in (1, 2):
        driver.compile(1, session=session)
        driver.put(10, session=session)
        driver.execute(1, (10,), 20, session=session)
    driver.close(1)
    driver.close(2)
    for session, own, other in ((1, "default", "ads"), (2, "ads", "default")):
        for kind, number in (("SESSION", session), ("RUN", gid(5020, session)), ("PROGRAM", gid(1, session))):
            assert texts(driver, kind, number, tenant=own)
            assert texts(driver, kind, number)
            assert texts(driver, kind, number, tenant=other) == []


def test_rings_are_bounded_and_work_does_not_push_out_what_happens_rarely() -> None:
    driver = computing(work_notes_max=4, event_notes_max=100)
    assert driver.core.state.history.since_ns == 0
    driver.now_ns = SECOND_NS
    for number in range(1, 11):
        driver.execute(1, (10,), 20 + number)
    assert len(list(driver.core.state.history.work())) == 4
    assert driver.core.state.history.since_ns == SECOND_NS
    assert texts(driver, "RUN", gid(5021))[:1][0].startswith("now: ")
    assert any("session opened" in text for text in texts(driver, "SESSION", 1))


def test_hosts_are_at_the_first_gang_that_they_have_not_finished() -> None:
    driver = computing()
    driver.now_ns = 2 * SECOND_NS
    driver.execute(1, (10,), 20)
    driver.execute(1, (10,), 21)
    driver.now_ns = 5 * SECOND_NS
    driver.finish("a0", 1)
    state = driver.core.state
    first, second = (conditions.running(state, host(driver, name)) for name in ("a0", "a1"))
    assert first is not None
    assert second is not None
    assert (first.sequence, first.id, first.program, first.since_ns) == (2, gid(5021), "program 1.1", 5 * SECOND_NS)
    assert (second.sequence, second.since_ns) == (1, 2 * SECOND_NS)
    assert second.members == ("a0", "a1")
    assert conditions.late(state, host(driver, "a1").island, second, {}) == ("a1",)
    # What the daemon says is newer than what was reported.
    assert conditions.late(state, host(driver, "a1").island, second, {HostName("a1"): 1}) == ()
    ahead = conditions.running(state, host(driver, "a1"), 1)
    assert ahead is not None
    assert ahead.sequence == 2
    done = conditions.finished(host(driver, "a0"))
    assert done is not None
    assert (done.sequence, done.id, done.since_ns) == (1, gid(5020), 5 * SECOND_NS)
    assert conditions.finished(host(driver, "a1")) is None


def test_hosts_of_a_program_are_at_a_node_of_it() -> None:
    driver = driver_of()
    chain(driver, A, A, B)
    put(driver, 10, A)
    run(driver, (10,), 20)
    state = driver.core.state
    driver.finish("a0", 1)
    found = conditions.running(state, host(driver, "a0"))
    assert found is not None
    assert (found.sequence, found.node, found.program, found.source) == (2, 2, "train", "train.py:2")
    before = conditions.finished(host(driver, "a0"))
    assert before is not None
    assert (before.sequence, before.node) == (1, 1)
    elsewhere = conditions.running(state, host(driver, "b1"))
    assert elsewhere is not None
    assert (elsewhere.sequence, elsewhere.node, elsewhere.members) == (1, 3, ("b0", "b1"))
    driver.finish("a0", 2)
    assert conditions.running(state, host(driver, "a0")) is None
    last = only([found for found in [conditions.finished(host(driver, "a0"))] if found is not None])
    assert (last.sequence, last.node) == (2, 2)
