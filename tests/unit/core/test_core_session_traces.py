"""What a session launched: asked of every host that it uses, from a position in each island's order on, for its tenant alone."""

from __future__ import annotations

from pathways_common.model.failure import Reason
from pathways_common.model.ids import Epoch, HostName, IslandName, Sequence
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.tenant_records import TenantName

from tests.unit.core.core_driver import Driver, only, sent


def driver_of(**config: int) -> Driver:
    driver = Driver({"a": ["a0", "a1"], "b": ["b0"]}, **config)
    driver.open(1, ("*",), "ads")
    driver.open(2, ("a",), "web")
    return driver


def request(session: int, tenant: str | None = None, *after: tuple[str, int, int]) -> events.TraceRequested:
    positions = tuple(events.IslandPosition(IslandName(name), Epoch(epoch), Sequence(last)) for name, epoch, last in after)
    return events.TraceRequested(7, 0, None if tenant is None else TenantName(tenant), session, positions)


def ready_of(effects: list[out.Effect]) -> out.TraceReady:
    return only([effect for effect in effects if isinstance(effect, out.TraceReady)])


def test_every_host_of_its_islands_is_asked_and_the_answer_is_of_the_session() -> None:
    driver = driver_of()
    asked = sent(driver.step(request(1)), out.CollectTrace)
    assert [(host, command.execution_id, command.session, command.after) for host, command in asked] == [
        ("a0", 0, 1, 0), ("a1", 0, 1, 0), ("b0", 0, 1, 0),
    ]  # fmt: skip
    for host, command in asked[::-1]:
        effects = driver.step(events.TraceCollected(HostName(host), command.trace_id, host.encode()))
    ready = ready_of(effects)
    assert ready.hosts == (("a0", "a", b"a0"), ("a1", "a", b"a1"), ("b0", "b", b"b0"))
    assert (ready.request_id, ready.execution_id, ready.session, ready.failure) == (7, 0, 1, None)
    assert (ready.nodes, ready.pieces, ready.late_hosts, ready.lost_hosts) == ((), (), (), ())
    assert [host for host, _ in sent(driver.step(request(2)), out.CollectTrace)] == ["a0", "a1"]


def test_a_position_counts_in_its_epoch_only() -> None:
    driver = driver_of()
    a, b = driver.epoch("a"), driver.epoch("b")
    asked = sent(driver.step(request(1, None, ("a", a, 12), ("b", b + 1, 30), ("elsewhere", a, 4))), out.CollectTrace)
    assert [(host, command.after) for host, command in asked] == [("a0", 12), ("a1", 12), ("b0", 0)]


def test_what_all_hosts_tell_together_is_bounded() -> None:
    driver = driver_of(trace_rows_max=100)
    assert [command.rows_max for _, command in sent(driver.step(request(1)), out.CollectTrace)] == [33] * 3
    assert [command.rows_max for _, command in sent(driver.step(request(2)), out.CollectTrace)] == [50] * 2


def test_another_tenants_session_is_like_one_that_is_not_there() -> None:
    driver = driver_of()
    effects = driver.step(request(1, "web"))
    assert not sent(effects, out.CollectTrace)
    hidden = ready_of(effects).failure
    unknown = ready_of(driver.step(request(99, "web"))).failure
    assert hidden is not None
    assert unknown is not None
    assert hidden.message == unknown.message.replace("99", "1")
    assert (hidden.reason, hidden.metadata) == (unknown.reason, unknown.metadata)
    assert len(sent(driver.step(request(1, "ads")), out.CollectTrace)) == 3
    driver.close(1)
    assert ready_of(driver.step(request(1, "ads"))).failure is not None


def refused(effects: list[out.Effect]) -> bool:
    failure = ready_of(effects).failure
    if failure is None:
        return False
    assert (failure.reason, failure.message) == (
        Reason.RESOURCE_EXHAUSTED, "hosts are still answering an earlier question for session 1; ask again when they have",
    )  # fmt: skip
    assert not sent(effects, out.CollectTrace)
    return True


def test_of_a_session_one_question_is_open_until_all_hosts_have_answered() -> None:
    driver = driver_of()
    asked = sent(driver.step(request(1)), out.CollectTrace)
    assert refused(driver.step(request(1)))
    assert len(sent(driver.step(request(2)), out.CollectTrace)) == 2
    for host, command in asked[:2]:
        driver.step(events.TraceCollected(HostName(host), command.trace_id, b"x"))
    assert ready_of([each for each in driver.pass_time(2) if getattr(each, "session", 0) == 1]).late_hosts == ("b0",)
    assert refused(driver.step(request(1))), "b0 is still at it, though its asker was answered"
    driver.step(events.TraceCollected(HostName("b0"), asked[2][1].trace_id, b"x"))
    assert len(sent(driver.step(request(1)), out.CollectTrace)) == 3


def test_a_question_ends_with_the_epochs_of_those_that_have_not_answered() -> None:
    driver = driver_of()
    asked = sent(driver.step(request(1)), out.CollectTrace)
    driver.step(events.TraceCollected(HostName("b0"), asked[2][1].trace_id, b"x"))
    driver.pass_time(2)
    assert refused(driver.step(request(1)))
    driver.kill_executor("a1")
    assert [host for host, _ in sent(driver.step(request(1)), out.CollectTrace)] == ["a0", "a1", "b0"]
    driver.lose("a0")
    driver.kill_executor("b0")
    driver.pass_time(2)
    assert not driver.core.state.asked


def test_hosts_that_are_silent_or_gone_are_named() -> None:
    driver = driver_of()
    asked = sent(driver.step(request(1)), out.CollectTrace)
    driver.step(events.TraceCollected(HostName("b0"), asked[0][1].trace_id, b"x"))
    ready = ready_of(driver.pass_time(2))
    assert (ready.late_hosts, ready.hosts) == (("a0", "a1"), (("b0", "b", b"x"),))
    for host, command in asked[:2]:
        driver.step(events.TraceCollected(HostName(host), command.trace_id, b"late"))
    driver.lose("b0")
    asked = sent(driver.step(request(1)), out.CollectTrace)
    assert [host for host, _ in asked] == ["a0", "a1"]
    for host, command in asked:
        effects = driver.step(events.TraceCollected(HostName(host), command.trace_id, b"x"))
    assert ready_of(effects).lost_hosts == ("b0",)
