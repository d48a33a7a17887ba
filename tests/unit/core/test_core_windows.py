"""How much is granted ahead, and how much at once: more while everybody who competes has work in line, by arithmetic."""

from __future__ import annotations

import pytest
from pathways_server.core import effects as out
from pathways_server.core.share_records import Policy

from tests.unit.core.core_driver import Driver, sent
from tests.unit.core.core_runs import A, chain, driver_of, put, run
from tests.unit.core.core_shares import MS, Bench, Client

SHORT, LONG = MS // 2, 4 * MS
SETTLED = 500 * MS


def begins_after(bench: Bench, client: Client) -> int:
    """How long after it is asked for a gang of the client begins; it has no other."""
    asked, before = bench.driver.now_ns, client.ended
    bench.ask(client)
    bench.run(20 * MS)
    begun = [begin for session, begin, _ in bench.order if session == client.session]
    assert len(begun) == before + 1, "it has not begun within 20 ms"
    return begun[-1] - asked


def backlogged(**options: object) -> tuple[Bench, Client]:
    """Two clients that have had work in line for longer than it takes to settle, and one that has had none."""
    bench = Bench(**options)  # type: ignore[arg-type]
    patient = bench.join("patient", SHORT, backlog=0)
    begins_after(bench, patient)  # its program is measured
    for name in ("x", "y"):
        bench.join(name, SHORT, backlog=200)
    bench.run(SETTLED + 100 * MS)
    return bench, patient


def test_more_is_granted_ahead_while_all_have_work_in_line_and_less_once_somebody_waits_for_an_answer() -> None:
    bench, patient = backlogged()
    # One of those who have had no more than it may go first.
    assert 3 * MS + 2 * SHORT < begins_after(bench, patient) <= 8 * MS + 2 * SHORT
    for _ in range(10):
        assert begins_after(bench, patient) <= 3 * MS + 2 * SHORT
    bench.run(SETTLED)
    assert begins_after(bench, patient) > 3 * MS + 2 * SHORT


def test_a_higher_class_never_finds_more_granted_ahead() -> None:
    bench, patient = backlogged(island_policies={"a": Policy.PRIORITY})
    assert begins_after(bench, patient) <= 3 * MS + 2 * SHORT


@pytest.mark.parametrize("backlog", [4, 6, 8, 12])
def test_who_runs_ahead_by_less_than_the_wider_window_keeps_its_share(backlog: int) -> None:
    bench = Bench()
    bench.join("w", 1 * MS, weight=8, backlog=backlog)
    bench.join("x", 10 * MS, weight=4)
    bench.run(10_000 * MS)
    assert bench.shares()["w"] == pytest.approx(8 / 12, rel=0.03)


def granted_ahead(bench: Bench, client: Client) -> int:
    """How many gangs of a client with work in line are granted and have not ended while another awaits each of its results."""
    most = 0
    for _ in range(20):
        begins_after(bench, bench.clients[1])
        bench.ask(bench.clients[1])
        most = max(most, sum(gang.session == client.session for gang in bench.queue))
        bench.run(20 * MS)
    return most


def beside_who_awaits_answers(duration_ns: int, **config: int) -> tuple[Bench, Client]:
    bench = Bench(**config)
    begins_after(bench, bench.join("patient", SHORT, backlog=0))
    greedy = bench.join("greedy", duration_ns, backlog=200)
    bench.run(100 * MS)
    return bench, greedy


def test_one_short_gang_whose_members_wait_for_one_another_is_granted_ahead_of_who_awaits_answers() -> None:
    bench, greedy = beside_who_awaits_answers(SHORT)
    assert granted_ahead(bench, greedy) == 1
    assert all(begins_after(bench, bench.clients[1]) <= SHORT for _ in range(20)), "the one that is under way"
    bench, greedy = beside_who_awaits_answers(SHORT, window_joint_short=256)
    assert granted_ahead(bench, greedy) > 4, "by time alone a window of 3 ms holds six"


def test_behind_a_longer_one_another_is_granted_before_it_ends() -> None:
    bench, greedy = beside_who_awaits_answers(LONG)
    assert granted_ahead(bench, greedy) == 2
    bench, greedy = beside_who_awaits_answers(LONG, window_joint=1)
    assert granted_ahead(bench, greedy) == 1


def test_devices_are_never_idle_between_two_long_gangs_for_that() -> None:
    bench, _ = beside_who_awaits_answers(LONG)
    bench.dry = 0
    for _ in range(20):
        begins_after(bench, bench.clients[1])
    assert bench.dry <= 20, "once behind each short one of the other"


def test_more_are_granted_ahead_once_all_have_work_in_line_and_of_who_is_alone() -> None:
    bench, _ = backlogged()
    assert len(bench.queue) > 8
    bench = Bench()
    bench.join("x", SHORT, backlog=200)
    bench.run(100 * MS)
    assert len(bench.queue) == 200


def ends_of_grants(driver: Driver, nodes: int) -> list[int]:
    """A run of so many gangs, guessed to take 1 ms each, beside another session; after how many of them its grants end."""
    chain(driver, *[A] * nodes)
    driver.compile(1, devices=(0, 1), session=2)
    driver.put(11, devices=(0, 1), session=2)
    put(driver, 10, A)
    for index in range(40):
        driver.execute(1, (11,), 100 + index, session=2)
    driver.now_ns += SETTLED  # the other session still has work in line
    effects = run(driver, (10,), 20)
    for through in range(1, nodes + 41):
        last = driver.core.state.hosts[next(iter(driver.core.state.hosts))].last_sequence
        effects += driver.finish("a0", min(through, last)) + driver.finish("a1", min(through, last))
        driver.now_ns += MS
    (plan,) = {plan.plan_id: plan for _, plan in sent(effects, out.LoadPlan)}.values()
    commands = [*sent(effects, out.RunPlan), *sent(effects, out.GrantRun)]
    ends = [command.end_step for host, command in commands if host == "a0"]
    return [sum(isinstance(step, out.PlanLaunch) for step in plan.steps[:end]) for end in ends]


@pytest.mark.parametrize(("nodes", "ends"), [(6, [6]), (9, [9]), (10, [6, 10]), (16, [6, 12, 16])])
def test_a_grant_covers_a_quantum_and_a_rest_of_half_a_quantum_goes_along(nodes: int, ends: list[int]) -> None:
    driver = driver_of(2, guess_ns=MS, settled_ns=0)
    assert ends_of_grants(driver, nodes) == ends


def test_a_grant_covers_less_while_somebody_waits_for_answers() -> None:
    driver = driver_of(2, guess_ns=MS, settled_ns=10**12)
    assert ends_of_grants(driver, 6) == [2, 4, 6]
    driver = driver_of(2, guess_ns=MS, settled_ns=10**12)
    assert ends_of_grants(driver, 5) == [2, 5]
