"""Gangs over two real executors: order, failures and what the two rules prevent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from pathways_proto.v1 import workers_pb2
from pathways_worker.executor.__main__ import NO_FALLIBLE_RULE, NO_ORDER_CHECK

from tests.unit.executor.driving import Executor, Group, lower, lower_sharded, reply, sharded, two_devices

HEAVY = np.ones((700, 700), np.float32)


def all_reduce() -> bytes:
    """float32[2] with one element per rank -> their sum, on both ranks."""
    shape = jax.ShapeDtypeStruct((2,), jnp.float32)
    shardings = {"in_shardings": sharded("d", 2), "out_shardings": sharded((), 2)}
    return lower_sharded(lambda x: jnp.full((1,), x.sum()), shape, **shardings)


def late_error() -> bytes:
    """float32[1] -> float32[1], which the library call refuses, but only after some milliseconds of matrix products."""

    def function(x: Any, heavy: Any) -> Any:
        square = jnp.reshape(x[0] + (heavy @ heavy @ heavy).sum() * 0, (1, 1))
        call = jax.ffi.ffi_call(
            "lapack_spotrf_ffi", (jax.ShapeDtypeStruct((1, 1), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32))
        )
        return jnp.reshape(call(square)[0], (1,))

    return lower(function, np.ones(1, np.float32), HEAVY)


def number(value: float) -> np.ndarray[Any, Any]:
    return np.full((1,), value, np.float32)


def run_late_error(executor: Executor) -> tuple[int, int]:
    """Launches the failing program of one host; the ids of its result and its execution."""
    loaded = executor.load(late_error(), devices=(0,))
    assert loaded.info.fallible
    arguments = [executor.place(number(1)), executor.place(HEAVY)]
    command = executor.prepare_command(loaded.executable_id, arguments, 1)
    executor.send(command)
    return command.prepare.first_result_id, command.prepare.execution_id


@pytest.fixture(scope="class")
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    """Two executors, with the rules of the class that asks."""
    group = Group(request.cls.ENVIRONMENT)
    yield group
    group.close()


class TestWithTheRules:
    ENVIRONMENT: ClassVar[dict[str, str]] = {}

    def test_an_all_reduce_over_two_hosts_adds_both_shards(self, group: Group) -> None:
        executables, infos = group.load(all_reduce())
        results = [
            executor.execute(executable, [executor.place(number(3 + rank))])[0]
            for rank, (executor, executable) in enumerate(zip(group.ranks, executables, strict=True))
        ]
        assert [float(executor.fetch(result, number(0))[0]) for executor, result in zip(group.ranks, results, strict=True)] == [
            7,
            7,
        ]
        assert infos[0].digest == infos[1].digest
        assert tuple(infos[0].outputs[0].shape) == (1,)

    def test_launches_that_arrive_swapped_are_put_in_order(self, group: Group) -> None:
        assert swapped_launches(group) == [(2, 20), (2, 20)]

    def test_a_failed_input_that_nobody_knows_of_is_awaited_and_replaced_by_zeros(self, group: Group) -> None:
        executables, _ = group.load(all_reduce())
        first, second = group.ranks
        bad, failing = run_late_error(first)
        gang = first.prepare_command(executables[0], [bad], 1)
        first.send(gang)
        next_result = first.execute(executables[0], [first.place(number(10))])[0]
        other = second.execute(executables[1], [second.place(number(1))])[0]
        other_next = second.execute(executables[1], [second.place(number(10))])[0]
        assert float(second.fetch(other, number(0))[0]) == 1
        assert float(first.fetch(next_result, number(0))[0]) == float(second.fetch(other_next, number(0))[0]) == 20
        cause = first.event("node_failed", execution_id=failing)
        assert "Wrong number of attributes" in cause.failure.message
        told = first.event("node_failed", execution_id=gang.prepare.execution_id)
        assert told.launched_with_zeros
        assert told.failure.message == cause.failure.message
        with pytest.raises(AssertionError, match=r"EXECUTION_ERROR: .*Wrong number of attributes"):
            first.fetch(gang.prepare.first_result_id, number(0))

    def test_an_input_that_does_not_fit_on_one_host_does_not_leave_the_other_hanging(self, group: Group) -> None:
        executables, _ = group.load(all_reduce())
        first, second = group.ranks
        gang = first.prepare_command(executables[0], [first.place(np.zeros((2,), np.float32))], 1)
        first.send(gang)
        other = second.execute(executables[1], [second.place(number(5))])[0]
        assert float(second.fetch(other, number(0))[0]) == 5
        told = first.event("node_failed", execution_id=gang.prepare.execution_id)
        assert told.launched_with_zeros
        assert "incompatible size" in told.failure.message

    def test_an_error_that_passed_through_an_infallible_program_is_found_as_well(self, group: Group) -> None:
        executables, _ = group.load(all_reduce())
        first, second = group.ranks
        add = first.load(lower(lambda x: x + 1, number(0)), devices=(0,)).executable_id
        bad, _ = run_late_error(first)
        gang = first.prepare_command(executables[0], first.execute(add, [bad]), 1)
        first.send(gang)
        other = second.execute(executables[1], [second.place(number(5))])[0]
        assert float(second.fetch(other, number(0))[0]) == 5
        assert first.event("node_failed", execution_id=gang.prepare.execution_id).launched_with_zeros

    def test_a_callback_that_raises_on_one_host_does_not_leave_the_other_hanging(self, group: Group) -> None:
        executables, _ = group.load(all_reduce())
        first, second = group.ranks

        def function(x: Any) -> Any:
            return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct((1,), jnp.float32), x)

        called = first.load(lower(function, number(0)), devices=(0,), callback_ids=[4])
        thread = first.serve_callback(
            lambda call: workers_pb2.HostCommand(
                callback_reply={"call_id": call.call_id, "failure": {"reason": "USER_ERROR", "message": "ValueError: mine"}}
            )
        )
        failed = first.execute(called.executable_id, [first.place(number(2))])
        gang = first.prepare_command(executables[0], failed, 1)
        first.send(gang)
        other = second.execute(executables[1], [second.place(number(6))])[0]
        assert float(second.fetch(other, number(0))[0]) == 6
        told = first.event("node_failed", execution_id=gang.prepare.execution_id)
        assert (told.failure.reason, told.failure.message) == ("USER_ERROR", "ValueError: mine")
        thread.join(5)

    def test_a_callback_inside_a_gang_is_called_by_the_host_of_its_shard(self, group: Group) -> None:
        def per_shard(x: Any) -> Any:
            return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct((1,), jnp.float32), x)

        spec = NamedSharding(two_devices(), PartitionSpec("d"))
        mapped = jax.shard_map(per_shard, mesh=spec.mesh, in_specs=spec.spec, out_specs=spec.spec, check_vma=False)
        program = lower_sharded(mapped, jax.ShapeDtypeStruct((2,), jnp.float32), in_shardings=spec, out_shardings=spec)
        executables, infos = group.load(program, callback_ids=[9])
        assert not infos[0].fallible
        threads = [
            executor.serve_callback(lambda call, rank=rank: reply(call, number(100 + rank)))
            for rank, executor in enumerate(group.ranks)
        ]
        results = [
            executor.execute(executable, [executor.place(number(0))])[0]
            for executor, executable in zip(group.ranks, executables, strict=True)
        ]
        assert [float(executor.fetch(result, number(0))[0]) for executor, result in zip(group.ranks, results, strict=True)] == [
            100,
            101,
        ]
        for thread in threads:
            thread.join(5)


class TestWithoutTheRules:
    """The same events with the rules off: this is what they are for. In order: the last one leaves the group unusable."""

    ENVIRONMENT: ClassVar[dict[str, str]] = {NO_ORDER_CHECK: "1", NO_FALLIBLE_RULE: "1"}

    def test_swapped_launches_give_wrong_numbers_and_no_error(self, group: Group) -> None:
        assert swapped_launches(group) == [(11, 11), (11, 11)]
        assert not any(executor.events_of("node_failed") or executor.events_of("contradiction") for executor in group.ranks)

    def test_an_unseen_error_on_one_host_pairs_two_different_gangs(self, group: Group) -> None:
        executables, _ = group.load(all_reduce())
        first, second = group.ranks
        bad, _ = run_late_error(first)
        first.execute(executables[0], [bad])
        next_result = first.execute(executables[0], [first.place(number(10))])[0]
        other = second.execute(executables[1], [second.place(number(1))])[0]
        # Right would be: an error, and 20.
        assert float(second.fetch(other, number(0))[0]) == 11
        assert float(first.fetch(next_result, number(0))[0]) == 11


class TestWithADeadPeer:
    ENVIRONMENT: ClassVar[dict[str, str]] = {}

    def test_the_survivor_reports_the_lost_collective_and_keeps_what_it_holds(self, group: Group) -> None:
        executables, _ = group.load(all_reduce())
        first, second = group.ranks
        results = [
            executor.execute(executable, [executor.place(number(1))])[0]
            for executor, executable in zip(group.ranks, executables, strict=True)
        ]
        for executor, result in zip(group.ranks, results, strict=True):
            assert float(executor.fetch(result, number(0))[0]) == 2
        held = first.place(number(4))
        gang = first.prepare_command(executables[0], [held], 1)
        first.send(gang)
        second.process.kill()
        told = first.event("node_failed", execution_id=gang.prepare.execution_id)
        assert (told.failure.reason, told.failure.retryable) == ("SLICE_LOST", True)
        np.testing.assert_array_equal(first.fetch(held, number(0)), number(4))


def swapped_launches(group: Group) -> list[tuple[float, float]]:
    """Gang A adds 1 and 1, gang B 10 and 10; rank 1 gets B's command first. What each rank reads for A and B."""
    executables, _ = group.load(all_reduce())
    results = []
    for rank, (executor, executable) in enumerate(zip(group.ranks, executables, strict=True)):
        inputs = [executor.place(number(1)), executor.place(number(10))]
        commands = [executor.prepare_command(executable, [identifier], 1) for identifier in inputs]
        results.append([command.prepare.first_result_id for command in commands])
        executor.send(*(reversed(commands) if rank else commands))
    return [
        (float(executor.fetch(a, number(0))[0]), float(executor.fetch(b, number(0))[0]))
        for executor, (a, b) in zip(group.ranks, results, strict=True)
    ]
