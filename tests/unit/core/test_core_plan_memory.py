"""What a run of a program takes of each device: the peak over its steps, worked out by hand here.

A value of `rows(0, 1)` is a square of 8 x 8 floats cut in two: 128 bytes on each of its devices; one of `rows(0)` takes 256.
"""

from __future__ import annotations

from pathways_common.model.ids import HostName
from pathways_server.core import effects as out
from pathways_server.core.plan_memory import peaks

from tests.unit.core.core_driver import Driver, sent
from tests.unit.core.core_graphs import Writer, plan_of
from tests.unit.core.core_runs import A, B, chain, define, driver_of, launched, put, run

HALF = 128


def with_budget(memory: int = 100_000) -> Driver:
    return driver_of(memory=memory)


def held(driver: Driver, host: str) -> int:
    account = driver.core.state.hosts[HostName(host)].account
    assert account is not None
    return account.held[0]


def finish(driver: Driver, island: str, through: int) -> list[out.Effect]:
    return [*driver.finish(f"{island}0", through, island), *driver.finish(f"{island}1", through, island)]


def test_a_chain_takes_two_values_at_a_time_and_not_the_sum() -> None:
    driver = with_budget()
    plan = plan_of(driver, chain(driver, *[A] * 10))
    # Two neighbours are there at once, never more; island b has none.
    assert peaks(plan, ()) == ((2 * HALF, 2 * HALF),)


def test_branches_that_meet_are_all_there_at_once() -> None:
    driver = with_budget()
    writer = Writer(driver, (A,))
    one, three = writer.computation((A,), (A,)), writer.computation((A, A, A), (A,))
    ends = [writer.node(one, (0, 0)) for _ in range(3)]
    last = writer.node(three, *((end, 0) for end in ends))
    assert peaks(plan_of(driver, writer.program((last, 0))), ()) == ((4 * HALF, 4 * HALF),)


def test_results_stay_to_the_end() -> None:
    driver = with_budget()
    writer = Writer(driver, (A,))
    one = writer.computation((A,), (A,))
    first = writer.node(one, (0, 0))
    second = writer.node(one, (first, 0))
    third = writer.node(one, (second, 0))
    plan = plan_of(driver, writer.program((first, 0), (third, 0)))
    assert peaks(plan, ()) == ((3 * HALF, 3 * HALF),)


def test_what_a_move_brings_counts_on_the_island_where_it_lands() -> None:
    driver = with_budget()
    plan = plan_of(driver, chain(driver, A, B))  # a: one value; b: what lands and what is made of it
    assert peaks(plan, ()) == ((HALF, HALF), (2 * HALF, 2 * HALF))


def test_an_argument_that_the_run_consumes_is_freed_for_it() -> None:
    driver = with_budget()
    writer = Writer(driver, (A,), first_executable=901)
    step = writer.computation((A,), (A,), donated=(0,))
    ends = writer.node(step, (0, 0))
    for _ in range(3):
        ends = writer.node(step, (ends, 0))
    plan = plan_of(driver, writer.program((ends, 0)))
    # Each node takes the memory of its argument behind its launch: with the caller's argument gone, the next value fits there.
    assert peaks(plan, ()) == ((2 * HALF, 2 * HALF),)
    assert peaks(plan, (0,)) == ((HALF, HALF),)


def test_a_run_takes_its_peak_at_the_first_grant_and_leaves_its_results() -> None:
    driver = with_budget()
    chain(driver, *[A] * 10)
    put(driver, 10, A)
    assert held(driver, "a0") == HALF
    assert len(sent(run(driver, (10,), 20), out.RunPlan)) == 2
    assert held(driver, "a0") == 3 * HALF
    finish(driver, "a", 10)
    assert held(driver, "a0") == 2 * HALF
    driver.release(20)
    assert held(driver, "a0") == HALF


def test_a_result_that_is_freed_while_the_run_goes_on_is_not_counted_behind_it() -> None:
    driver = with_budget()
    chain(driver, *[A] * 3)
    put(driver, 10, A)
    run(driver, (10,), 20)
    driver.release(20)
    assert held(driver, "a0") == 3 * HALF
    finish(driver, "a", 3)
    assert held(driver, "a0") == HALF


def test_a_run_waits_for_its_peak_on_every_island_and_what_never_fits_fails() -> None:
    driver = with_budget(5 * HALF)
    writer = Writer(driver, (A,), first_executable=901)
    up, down = writer.computation((A,), (A,)), writer.computation((B,), (B,))
    first = writer.node(up, (0, 0))
    define(driver, writer.program((writer.node(down, (first, 0)), 0)))
    put(driver, 10, A)
    for number in (30, 31, 32, 33):
        put(driver, number, B)
    effects = run(driver, (10,), 20)  # 2 values on b, where 4 of 5 are taken
    assert not sent(effects, out.RunPlan)


def test_a_consumed_argument_goes_over_to_the_run() -> None:
    driver = with_budget()
    writer = Writer(driver, (A,), first_executable=901)
    step = writer.computation((A,), (A,), donated=(0,))
    define(driver, writer.program((writer.node(step, (0, 0)), 0)))
    put(driver, 10, A)
    run(driver, (10,), 20, donated=(0,))
    assert held(driver, "a0") == 2 * HALF
    finish(driver, "a", 1)
    assert held(driver, "a0") == HALF
    driver.release(10, 20)
    assert held(driver, "a0") == 0


def test_a_result_that_another_run_consumes_counts_until_that_one_is_over() -> None:
    driver = with_budget()
    chain(driver, A)
    chain(driver, A, A, program=950, sequential=True)
    put(driver, 10, A)
    run(driver, (10,), 20)
    assert held(driver, "a0") == 2 * HALF
    run(driver, (20,), 30, program=950, donated=(0,))  # its first node, while the other run is at work
    assert held(driver, "a0") == 4 * HALF, "two values of its own"
    finish(driver, "a", 1)
    assert held(driver, "a0") == 4 * HALF, "the argument is needed"
    for host in ("a0", "a1"):
        launched(driver, host, 2)
    finish(driver, "a", 2)
    assert held(driver, "a0") == 4 * HALF, "hosts let go of it with the run"
    finish(driver, "a", 3)
    assert held(driver, "a0") == 2 * HALF, "the array and the result"
