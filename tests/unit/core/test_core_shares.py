"""Shares of device time, by arithmetic: what each tenant gets of a virtual second, and how soon a change takes effect."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pathways_common.model.ids import HostName, IslandName, SessionNumber, WaitId, global_id
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.share_records import Policy
from pathways_server.core.tenant_records import Priority

from tests.unit.core.core_driver import replies
from tests.unit.core.core_shares import HOSTS, MS, Bench, Client

LENGTHS = (1 * MS, 3 * MS, 10 * MS, 100 * MS)


def contest(weights: tuple[int, ...], lengths: tuple[int, ...] = LENGTHS, **options: object) -> Bench:
    bench = Bench(**options)  # type: ignore[arg-type]
    for name, weight, length in zip("wxyz", weights, lengths, strict=False):
        bench.join(name, length, weight)
    return bench


@pytest.mark.parametrize("weights", [(1, 1, 1, 1), (1, 2, 4, 8), (8, 4, 2, 1)])
@pytest.mark.parametrize("tells_times", [True, False])
def test_tenants_share_device_time_by_weight_whatever_the_length_of_their_programs(
    weights: tuple[int, ...], tells_times: bool
) -> None:
    bench = contest(weights, tells_times=tells_times)
    bench.run(10_000 * MS)
    for name, weight, length in zip("wxyz", weights, LENGTHS, strict=True):
        one_gang = length / (10_000 * MS)
        assert bench.shares()[name] == pytest.approx(weight / sum(weights), rel=0.03, abs=one_gang)


def test_a_program_a_hundred_times_longer_gets_no_more_than_its_share() -> None:
    bench = contest((1, 1), (1 * MS, 100 * MS))
    bench.run(10_000 * MS)
    assert bench.shares()["w"] == pytest.approx(0.5, rel=0.03)


def test_sessions_of_a_tenant_share_equally_and_count_as_one() -> None:
    bench = Bench()
    first = bench.join("many", 1 * MS)
    second = bench.join("many", 10 * MS)
    bench.join("one", 2 * MS)
    bench.run(6_000 * MS)
    assert bench.shares()["one"] == pytest.approx(0.5, rel=0.03)
    assert first.device_ns == pytest.approx(second.device_ns, rel=0.03)


def test_a_tenant_that_comes_later_gets_its_share_from_then_on_and_nothing_for_before() -> None:
    bench = contest((1, 1), (1 * MS, 3 * MS))
    bench.run(3_000 * MS)
    late = bench.join("late", 1 * MS, weight=2)
    bench.run(100 * MS)  # not enough to make up for three seconds
    assert late.device_ns == pytest.approx(2 * 50 * MS, abs=2 * 5 * MS)
    bench.run(1_900 * MS)
    assert late.device_ns == pytest.approx(2 * 1_000 * MS, rel=0.03)


def test_a_tenant_that_comes_back_after_idling_neither_owes_nor_is_owed() -> None:
    bench = Bench()
    first = bench.join("first", 1 * MS)
    second = bench.join("second", 1 * MS)
    third = bench.join("third", 1 * MS)
    bench.run(1_000 * MS)
    first.backlog = 0
    bench.run(3_000 * MS)  # the second and the third go on without it
    before = first.device_ns, second.device_ns, third.device_ns
    first.backlog = 4
    bench.refill(first)
    bench.run(300 * MS)
    for client, had in zip((first, second, third), before, strict=True):
        assert client.device_ns - had == pytest.approx(2 * 100 * MS, rel=0.05)


def test_who_was_alone_for_long_owes_nothing_to_those_who_come() -> None:
    bench = Bench()
    bench.join("early", 1 * MS)
    bench.run(5_000 * MS)
    late = bench.join("late", 1 * MS)
    bench.run(200 * MS)
    assert late.device_ns == pytest.approx(2 * 100 * MS, abs=2 * 4 * MS)


def test_a_new_weight_takes_effect_within_a_quantum() -> None:
    bench = contest((1, 1), (1 * MS, 1 * MS))
    bench.run(1_000 * MS)
    before = bench.clients[1].device_ns
    bench.declare("w", 3)
    bench.run(100 * MS)
    assert bench.clients[1].device_ns - before == pytest.approx(2 * 75 * MS, abs=2 * 4 * MS)


def test_a_higher_class_goes_first_and_takes_over_within_a_quantum_and_a_gang() -> None:
    bench = Bench(island_policies={"a": Policy.PRIORITY})
    bench.join("low", 1 * MS, priority=Priority.LOW)
    bench.join("middle", 1 * MS)
    bench.run(100 * MS)
    start = bench.driver.now_ns
    high = bench.join("high", 1 * MS, priority=Priority.HIGH)
    bench.run(900 * MS)
    first = next(begun for session, begun, _ in bench.order if session == high.session)
    assert first - start <= 2 * MS + 1 * MS
    after = [session for session, begun, _ in bench.order if begun >= first + 4 * MS]
    assert set(after) == {high.session}, "others run while a higher class has work"


def test_inside_a_class_tenants_share_by_weight() -> None:
    bench = Bench(island_policies={"a": Policy.PRIORITY}, ageing_ns=10**12)
    bench.join("low", 1 * MS, priority=Priority.LOW)
    bench.join("light", 1 * MS, weight=1, priority=Priority.HIGH)
    bench.join("heavy", 10 * MS, weight=3, priority=Priority.HIGH)
    bench.run(4_000 * MS)
    assert bench.shares()["heavy"] == pytest.approx(0.75, rel=0.03)
    assert bench.shares()["low"] < 0.01


def test_nobody_starves_under_a_higher_class() -> None:
    bench = Bench(island_policies={"a": Policy.PRIORITY}, ageing_ns=100 * MS)
    lows = [bench.join(name, 5 * MS, priority=Priority.LOW) for name in ("low", "lower")]
    bench.join("high", 1 * MS, priority=Priority.HIGH)
    bench.run(3_000 * MS)
    for low in lows:
        begun = [begin for session, begin, _ in bench.order if session == low.session]
        gaps = [later - earlier for earlier, later in pairwise(begun)]
        # The wait itself, one gang of the other that waits, and what is granted already.
        assert max(gaps) <= 100 * MS + 5 * MS + 2 * MS + 5 * MS
    assert bench.shares()["high"] > 0.85


def test_first_come_first_served_goes_by_when_the_head_was_asked_for() -> None:
    bench = Bench(island_policies={"a": Policy.FIFO})
    blocker = bench.join("blocker", 10 * MS, backlog=1)
    waiting = [bench.join(name, 1 * MS, backlog=0) for name in ("x", "y", "z")]
    blocker.backlog = 0
    order = [2, 0, 1, 0, 2, 2, 1]
    for number in order:
        bench.driver.now_ns += 1000
        bench.ask(waiting[number])
    bench.run(60 * MS)
    assert [session for session, _, _ in bench.order[1:]] == [waiting[number].session for number in order]


def test_a_policy_may_change_while_work_waits() -> None:
    bench = Bench()
    low = bench.join("low", 1 * MS, priority=Priority.LOW)
    high = bench.join("high", 1 * MS, priority=Priority.HIGH)
    bench.run(200 * MS)
    assert low.device_ns == pytest.approx(high.device_ns, rel=0.05)
    bench.step(events.PolicySet(IslandName("a"), Policy.PRIORITY))
    before = low.device_ns
    bench.run(500 * MS)
    assert low.device_ns - before <= 2 * 4 * MS
    bench.step(events.PolicySet(IslandName("a"), Policy.PROPORTIONAL_SHARE))
    before = low.device_ns
    bench.run(200 * MS)
    assert low.device_ns - before == pytest.approx(2 * 100 * MS, rel=0.05)


def test_what_a_policy_gave_beyond_shares_is_not_paid_back_under_the_next() -> None:
    bench = Bench(island_policies={"a": Policy.FIFO})
    long = bench.join("long", 9 * MS)
    short = bench.join("short", 1 * MS)
    bench.run(2_000 * MS)
    assert long.device_ns > 8 * short.device_ns
    bench.step(events.PolicySet(IslandName("a"), Policy.PROPORTIONAL_SHARE))
    before = long.device_ns, short.device_ns
    bench.run(200 * MS)
    for client, had in zip((long, short), before, strict=True):
        # One of the longest gangs at either end.
        assert client.device_ns - had == pytest.approx(2 * 100 * MS, abs=2 * 2 * 9 * MS)


def test_who_waits_for_its_bytes_under_a_higher_class_has_waited_since_it_asked() -> None:
    bench = Bench(island_policies={"a": Policy.PRIORITY}, ageing_ns=100 * MS)
    low = bench.join("low", 1 * MS, priority=Priority.LOW, backlog=0)
    for name in ("high", "higher"):
        bench.join(name, 1 * MS, priority=Priority.HIGH)
    bench.run(20 * MS)
    driver = bench.driver
    (targets,) = (grant.targets for grant in replies(driver.upload(3, upload=1, session=low.session), out.UploadGrant))
    bench.ask(low, argument=3)
    bench.run(150 * MS)
    assert low.ended == 0
    for host, transfer in targets:
        bench.step(events.TransferLanded(HostName(host), transfer, None))
    bench.run(4 * MS)  # what is in the window and a gang of its own
    assert low.ended == 1


def begun_by(bench: Bench, other: Client) -> int:
    return sum(session == other.session for session, _, _ in bench.order)


def waits_of(bench: Bench, other: Client, limit_ms: int) -> list[int]:
    """How long each of twenty gangs of `other`, asked for one behind the other, waits for its begin."""
    waits = []
    known = begun_by(bench, other)
    for number in range(20):
        asked = bench.driver.now_ns
        bench.ask(other)
        bench.run(limit_ms * MS)
        begun = [begin for session, begin, _ in bench.order if session == other.session]
        assert len(begun) == known + number + 1, f"it has not begun within {limit_ms} ms"
        waits.append(begun[-1] - asked)
    return waits


def test_ten_thousand_queued_gangs_delay_one_of_another_client_by_a_window_and_a_gang_at_most() -> None:
    bench = Bench()
    bench.join("greedy", MS // 10, backlog=10_000)
    other = bench.join("other", MS // 10, backlog=0)
    bench.ask(other)
    bench.run(60 * MS)  # the first time, the greedy one was alone and has filled the window
    assert begun_by(bench, other) == 1
    assert max(waits_of(bench, other, 5)) <= 3 * MS + MS // 10


def test_what_members_wait_for_each_other_counts_as_time_that_others_wait() -> None:
    bench = Bench(late_ns=2 * MS, window_joint=256, window_joint_short=256)  # which bound what goes ahead by its number, too
    bench.join("greedy", MS // 10, backlog=10_000)
    other = bench.join("other", MS // 10, backlog=0)
    bench.ask(other)
    bench.run(256 * (2 * MS + MS // 10))  # the first time, the greedy one was alone and has filled the window
    bench.ask(other)
    bench.run(60 * MS)
    # A window and a gang, and the one under way, which the bench begins again with each run.
    assert begun_by(bench, other) == 2
    assert max(waits_of(bench, other, 10)) <= 3 * MS + 2 * (2 * MS + MS // 10)


@pytest.mark.parametrize("tenants", [("greedy", "other"), ("one", "one")])
@pytest.mark.parametrize("real", [MS, MS // 2], ids=["as estimated", "half as long"])
def test_who_comes_goes_before_everything_that_others_have_in_line(tenants: tuple[str, str], real: int) -> None:
    bench = Bench()
    greedy = bench.join(tenants[0], MS, backlog=100)
    other = bench.join(tenants[1], MS // 10, backlog=0)
    bench.ask(other)
    bench.run(120 * MS)  # the first time, the greedy one was alone and has filled the window
    island = bench.driver.core.state.islands[IslandName("a")]
    for _ in range(20):
        greedy.duration_ns = real  # what is granted from here on: its charge is corrected when it has ended
        granted = island.sequence
        bench.ask(other)
        bench.run(9 * MS)
        assert bench.order[granted][0] == other.session, "something of the greedy one was granted before"
        greedy.duration_ns = MS
        bench.run(9 * MS)


def test_a_question_about_a_result_goes_right_behind_its_launch() -> None:
    bench = Bench(window_joint_short=2)
    greedy = bench.join("greedy", MS, backlog=8)
    other = bench.join("other", MS, backlog=0)
    bench.ask(other)
    bench.run(60 * MS)
    number = SessionNumber(other.session)
    result, execution = global_id(number, 1000), global_id(number, 1001)
    bench.step(events.ExecuteRequested(number, execution, global_id(number, 1), (global_id(number, 2),), result, (), 0))
    bench.step(events.WaitRequested(number, WaitId(1), (result,)))
    core, driver = bench.driver.core, bench.driver
    through = core.state.islands[IslandName("a")].sequence
    rows = tuple(events.GangTime(gang.sequence, driver.now_ns, driver.now_ns + MS) for gang in bench.queue)
    told: list[object] = []
    for host in HOSTS:  # they have ended everything, so there is room for more than one
        progress = events.HostProgressed(HostName(host), driver.epoch("a"), through, through, 0, rows)
        effects = core.step(driver.now_ns, progress)
        told += [each.command for each in effects if isinstance(each, out.SendToHost) and each.host == HOSTS[0]]
    kinds = [type(each) for each in told if isinstance(each, out.Prepare | out.AwaitReady)]
    assert kinds[:3] == [out.Prepare, out.AwaitReady, out.Prepare]
    sessions = [each.execution_id >> 40 for each in told if isinstance(each, out.Prepare)]
    assert sessions[:2] == [other.session, greedy.session]


@pytest.mark.parametrize("length", [2 * MS, 3 * MS, 10 * MS, 100 * MS])
def test_the_next_gang_is_granted_before_a_long_one_ends_and_not_long_before(length: int) -> None:
    bench = contest((1, 1), (length, length), island_policies={"a": Policy.PRIORITY})
    bench.run(20 * length)
    bench.dry = 0
    bench.run(200 * length)
    assert bench.dry == 0, "the devices wait for a round trip"
    high = bench.join("high", length, priority=Priority.HIGH)
    asked = bench.driver.now_ns
    bench.run(4 * length + 4 * MS)
    begun = next(begin for session, begin, _ in bench.order if session == high.session)
    # What runs, and what was granted when less than a window of it was left.
    assert begun - asked <= length + 3 * MS


def test_what_was_used_is_booked_and_skew_is_nobodys() -> None:
    bench = contest((1, 3), (2 * MS, 5 * MS), late_ns=MS)
    bench.run(2_000 * MS)
    # The first four gangs were granted alone, so that hosts did not tell when they ran: a0's wait is in their time.
    alone = 4 * MS
    assert bench.booked("w") == bench.clients[1].device_ns + alone
    assert bench.booked("x") == bench.clients[2].device_ns
    island = bench.driver.core.state.islands[IslandName("a")]
    assert island.skew_ns == bench.skew_ns - alone
    assert island.hosts[next(name for name in island.hosts if name == "a1")].late_ns == island.skew_ns
    assert bench.shares()["x"] == pytest.approx(0.75, rel=0.03)


def test_clocks_that_disagree_do_no_harm() -> None:
    bench = contest((1, 1), (2 * MS, 2 * MS))
    driver = bench.driver
    bench.run(10 * MS)
    gang = bench.queue[0]
    before = bench.booked("w") + bench.booked("x")
    ahead = 10_000 * MS
    for host, clock in (("a0", 0), ("a1", ahead)):
        bench.busy[host] += 2 * MS
        row = events.GangTime(gang.sequence, driver.now_ns + clock, driver.now_ns + clock + 2 * MS)
        epoch = driver.epoch("a")
        name = next(found for found in driver.core.state.hosts if found == host)
        through = driver.core.state.hosts[name].finished_through.__class__(gang.sequence)
        driver.step(events.HostProgressed(name, epoch, through, through, bench.busy[host], (row,)))
    assert bench.booked("w") + bench.booked("x") - before == 2 * 2 * MS


def test_a_new_session_with_a_known_program_begins_with_its_estimate() -> None:
    bench = Bench()
    bench.join("w", 7 * MS)
    bench.run(100 * MS)
    bench.driver.open(9)
    bench.driver.compile(1, session=9, program=f"{7 * MS}")
    session = next(found for found in bench.driver.core.state.sessions.values() if found.number == 9)
    assert next(iter(session.executables.values())).estimate.duration_ns == 7 * MS


def test_a_program_that_takes_one_session_longer_than_another_is_estimated_for_each() -> None:
    bench = Bench()
    for name, length in (("short", 1 * MS), ("long", 20 * MS)):
        bench.join(name, length, backlog=16, content="goes on as long as its argument says")
    bench.run(1_000 * MS)
    state = bench.driver.core.state
    known = {session.tenant.name: next(iter(session.executables.values())).estimate for session in state.sessions.values()}
    assert {name: estimate.duration_ns for name, estimate in known.items()} == {"short": 1 * MS, "long": 20 * MS}
    bench.dry = 0
    bench.run(1_000 * MS)
    assert bench.dry == 0, "the devices wait for a grant"


def test_figures_say_who_used_what_and_roughly_how_long_a_client_waits() -> None:
    bench = contest((1, 3), (2 * MS, 4 * MS), late_ns=MS // 4)
    bench.run(400 * MS)
    snapshot = bench.driver.core.snapshot(bench.driver.now_ns)
    assert [(found.name, found.weight, found.priority) for found in snapshot.tenants] == [("w", 1, "normal"), ("x", 3, "normal")]
    assert [found.device_ns for found in snapshot.tenants] == [found.device_ns for found in snapshot.sessions]
    island = snapshot.islands[0]
    assert island.policy == "proportional_share"
    assert [host.late_ns for host in island.hosts] == [0, island.skew_ns]
    light, heavy = bench.clients[1], bench.clients[2]
    (waits,) = snapshot.sessions[0].waits
    started = bench.driver.now_ns
    last, ended = light.ended + 3, light.ended
    bench.run(200 * MS)
    begun = [begin for session, begin, _ in bench.order if session == light.session]
    # Three of its gangs at a quarter of the island, of 2.25 ms each with the wait for a1: the estimate is a rough one.
    assert begun[last] - started == pytest.approx(waits.all_wait_ns, rel=0.5)
    assert heavy.ended > ended
