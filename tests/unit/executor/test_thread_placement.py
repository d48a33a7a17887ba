"""Where an executor's threads may run, as the kernel tells it: apart when asked for, untouched otherwise."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pathways_worker.executor.thread_placement import NotPlaced, place_apart, started_by

from tests.cluster import wait_until
from tests.unit.executor.driving import Group, lower_sharded, sharded

ALLOWED = os.sched_getaffinity(0)
SPLIT = ["--split-threads"]


def halves() -> tuple[set[int], set[int]]:
    """The CPUs of the dispatcher and of gloo."""
    cpus = sorted(ALLOWED)
    assert len(cpus) >= 2, "these tests need two CPUs"
    return set(cpus[: len(cpus) // 2]), set(cpus[len(cpus) // 2 :])


def affinities(pid: int) -> dict[int, set[int]]:
    """The CPUs of every thread of a process. One may end while they are listed."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            found[int(task.name)] = os.sched_getaffinity(int(task.name))
    return found


def name_of(pid: int, thread: int) -> str:
    return Path(f"/proc/{pid}/task/{thread}/comm").read_text()


def sleeps(pid: int, thread: int) -> int:
    """How often a thread has waited for something."""
    lines = Path(f"/proc/{pid}/task/{thread}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("voluntary_ctxt_switches")))


def add_up(group: Group, times: int) -> list[float]:
    """What both ranks got from so many all-reduces, each of the one before, of 1 and 2."""
    rows = sharded("d", 2)
    shape = jax.ShapeDtypeStruct((2,), np.float32)
    program = lower_sharded(lambda x: jnp.full((2,), x.sum()), shape, in_shardings=rows, out_shardings=rows)
    executables, _ = group.load(program)
    values = [executor.place(np.array([rank + 1], np.float32)) for rank, executor in enumerate(group.ranks)]
    for _ in range(times):
        values = [
            executor.execute(executable, [value])[0]
            for executor, executable, value in zip(group.ranks, executables, values, strict=True)
        ]
    zero = np.zeros(1, np.float32)
    return [float(executor.fetch(value, zero)[0]) for executor, value in zip(group.ranks, values, strict=True)]


@contextmanager
def group_of(words: list[str]) -> Iterator[Group]:
    group = Group(words=words)
    try:
        yield group
    finally:
        group.close()


def test_split_keeps_the_dispatcher_and_gloos_thread_on_different_cpus() -> None:
    own, of_gloo = halves()
    with group_of(SPLIT) as group:
        placed = []
        for executor in group.ranks:
            pid = executor.process.pid
            before = affinities(pid)
            assert before.pop(pid) == own
            (gloo_thread,) = (thread for thread, cpus in before.items() if cpus == of_gloo)
            # What computes keeps every CPU.
            pool = [cpus for thread, cpus in before.items() if "XLAEigen" in name_of(pid, thread)]
            assert pool == [ALLOWED] * len(ALLOWED)
            placed.append((pid, gloo_thread, sleeps(pid, gloo_thread)))
        assert add_up(group, 100) == [3.0 * 2**99] * 2
        # It is gloo's: it waits for the other host's part of every all-reduce.
        for pid, gloo_thread, slept in placed:
            assert sleeps(pid, gloo_thread) - slept >= 10
        words = [", ".join(map(str, sorted(cpus))) for cpus in (own, of_gloo)]
        said = f"threads placed: the dispatcher on CPUs {words[0]}, gloo on {words[1]}\n"
        for executor in group.ranks:
            executor.close()
            assert executor.stderr.decode().count(said) == 1


def test_threads_stay_as_they_are_by_default() -> None:
    with group_of([]) as group:
        for executor in group.ranks:
            assert all(cpus == ALLOWED for cpus in affinities(executor.process.pid).values())
        assert add_up(group, 1) == [3.0, 3.0]
        for executor in group.ranks:
            executor.close()
            assert b"threads" not in executor.stderr


def test_an_executor_with_one_cpu_says_so_and_works() -> None:
    (cpu,) = one = {min(ALLOWED)}
    # What a process may use is inherited from who starts it.
    os.sched_setaffinity(0, one)
    try:
        with group_of(SPLIT) as group:
            for executor in group.ranks:
                assert all(cpus == {cpu} for cpus in affinities(executor.process.pid).values())
            assert add_up(group, 1) == [3.0, 3.0]
            for executor in group.ranks:
                executor.close()
                lines = [line for line in executor.stderr.decode().splitlines() if "threads" in line]
                assert lines == ["threads not placed: this executor may use 1 CPU, and a split needs two"]
    finally:
        os.sched_setaffinity(0, ALLOWED)


def in_a_thread(function: Callable[[], Any]) -> Any:
    """What it returns; it may move the thread that it runs in."""
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(function()))
    thread.start()
    thread.join(10)
    return answers[0]


def test_threads_that_something_starts_are_told_from_those_before() -> None:
    end = threading.Event()

    def make() -> threading.Thread:
        thread = threading.Thread(target=end.wait, args=(10,))
        thread.start()
        return thread

    try:
        thread, ids = started_by(make)
        assert ids == [thread.native_id]
        assert started_by(lambda: 5) == (5, [])
    finally:
        end.set()


@pytest.mark.parametrize("count", [0, 2])
def test_without_exactly_one_new_thread_nothing_is_placed(count: int) -> None:
    halves()

    def attempt() -> tuple[str, set[int]]:
        with pytest.raises(NotPlaced) as refused:
            place_apart([threading.get_native_id()] * count)
        return str(refused.value), os.sched_getaffinity(0)

    sentence = f"threads not placed: gloo started {count} threads, and a split is for one"
    assert in_a_thread(attempt) == (sentence, ALLOWED)


def test_a_thread_that_has_gone_is_no_reason_to_move_the_dispatcher() -> None:
    halves()
    gone = threading.Thread(target=lambda: None)
    gone.start()
    thread_id = gone.native_id
    gone.join(10)
    assert thread_id is not None
    wait_until(lambda: not Path(f"/proc/self/task/{thread_id}").exists(), "the thread to be gone from the kernel too")

    def attempt() -> tuple[str, set[int]]:
        with pytest.raises(NotPlaced) as refused:
            place_apart([thread_id])
        return str(refused.value), os.sched_getaffinity(0)

    assert in_a_thread(attempt) == ("threads not placed: the system refused it (No such process)", ALLOWED)
