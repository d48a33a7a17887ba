"""Images of real executors: loaded on other devices they compute what plain JAX does; whatever is wrong with one is compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback

from tests.unit.executor.driving import Executor, Group, lower, lower_sharded, ready_executor, sharded

KEY = "program/0x1"
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4) / 10


def step(x: Any) -> Any:
    """Something with a product, a fusion and a library call."""
    return jnp.tanh(x) @ x.T, jnp.linalg.qr(x)[1]


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ready_executor(device_count=2) as executor:
        yield executor


def load(executor: Executor, program: bytes, devices: Sequence[int], image: bytes = b"", key: str = KEY, **fields: Any) -> Any:
    """The Loaded answer of a Load with a key, and with this image."""
    command = executor.load_command(program, devices, **fields)
    command.load.image_key = key
    command.load.image = image
    executor.handled(command)
    answer = executor.event("loaded", executable_id=command.load.executable_id)
    assert not answer.HasField("failure"), answer.failure.message
    return answer


def place_on(executor: Executor, device: int, value: np.ndarray[Any, Any]) -> int:
    command = executor.place_command([value])
    command.place_array.pieces[0].local_device = device
    executor.send(command)
    return int(command.place_array.buffer_id)


def test_what_was_compiled_for_one_device_runs_on_another_and_is_described_alike(executor: Executor) -> None:
    program = lower(step, MATRIX)
    compiled = load(executor, program, [0])
    assert (compiled.reused, bool(compiled.image)) == (False, True)
    reused = load(executor, program, [1], compiled.image)
    assert (reused.reused, reused.image) == (True, b"")
    assert reused.info == compiled.info
    expected = jax.jit(step)(MATRIX)
    for device, answer in ((0, compiled), (1, reused)):
        results = executor.execute(answer.executable_id, [place_on(executor, device, MATRIX)], 2)
        for result, value in zip(results, expected, strict=True):
            np.testing.assert_allclose(executor.fetch(result, value), value, rtol=1e-6, atol=1e-6)


def test_a_program_without_parameters_is_described_alike_from_an_image(executor: Executor) -> None:
    shardings = {"out_shardings": sharded("d", 2)}
    program = lower_sharded(lambda: jnp.arange(2, dtype=jnp.int32), **shardings)
    compiled = load(executor, program, [0, 1])
    reused = load(executor, program, [1, 0], compiled.image)
    assert (compiled.reused, reused.reused) == (False, True)
    assert reused.info.fields == compiled.info.fields


def test_a_donation_is_the_same_from_an_image(executor: Executor) -> None:
    program = lower(lambda x: x + 1, MATRIX, donate_argnums=0)
    image = load(executor, program, [0]).image
    reused = load(executor, program, [1], image)
    assert (reused.reused, list(reused.info.donated_parameters)) == (True, [0])
    argument = place_on(executor, 1, MATRIX)
    (result,) = executor.execute(reused.executable_id, [argument])
    np.testing.assert_array_equal(executor.fetch(result, MATRIX), MATRIX + 1)
    with pytest.raises(AssertionError, match="DELETED"):
        executor.fetch(argument, MATRIX)


def test_a_program_over_several_devices_takes_them_in_any_order(executor: Executor) -> None:
    shape = jax.ShapeDtypeStruct((2,), jnp.float32)
    shardings = {"in_shardings": sharded("d", 2), "out_shardings": sharded("d", 2)}
    program = lower_sharded(lambda x: x - x.sum(), shape, **shardings)
    image = load(executor, program, [0, 1]).image
    reused = load(executor, program, [1, 0], image)
    assert reused.reused
    command = executor.place_command([np.full(1, 5, np.float32), np.full(1, 3, np.float32)])
    command.place_array.pieces[0].local_device, command.place_array.pieces[1].local_device = 1, 0
    executor.send(command)
    (result,) = executor.execute(reused.executable_id, [command.place_array.buffer_id])
    shards = [float(executor.fetch(result, np.zeros(1, np.float32), index)[0]) for index in (0, 1)]
    assert shards == [5 - 8, 3 - 8]


def damaged(image: bytes) -> bytes:
    return image[: len(image) // 2]


def of_another_compiler(image: bytes) -> bytes:
    return b"other" + image


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (damaged, b"an image could not be loaded; the program is compiled here"),
        (of_another_compiler, b"an image was made by another compiler; the program is compiled here"),
        (lambda _: b"nonsense", b"an image was made by another compiler; the program is compiled here"),
    ],
)
def test_an_image_that_is_of_no_use_costs_a_compilation_and_one_line(executor: Executor, spoil: Any, words: bytes) -> None:
    program = lower(lambda x: x * 3, MATRIX)
    image = load(executor, program, [0]).image
    lines = executor.stderr.count(b"an image")
    answer = load(executor, program, [1], spoil(image))
    assert (answer.reused, bool(answer.image)) == (False, True), "what was compiled instead has an image again"
    (result,) = executor.execute(answer.executable_id, [place_on(executor, 1, MATRIX)])
    np.testing.assert_array_equal(executor.fetch(result, MATRIX), MATRIX * 3)
    assert words in executor.stderr
    assert executor.stderr.count(b"an image") == lines + 1


def test_the_list_of_allowed_calls_holds_for_images_too(executor: Executor) -> None:
    def function(x: Any) -> Any:
        return jax.ffi.ffi_call("somebody_elses_library", jax.ShapeDtypeStruct((3, 4), jnp.float32))(x)

    image = load(executor, lower(lambda x: x * 3, MATRIX), [0]).image
    command = executor.load_command(lower(function, MATRIX))
    command.load.image_key, command.load.image = KEY, image
    executor.handled(command)
    failure = executor.event("loaded", executable_id=command.load.executable_id).failure
    assert "'somebody_elses_library', which executors do not allow" in failure.message


def test_without_a_key_and_with_a_callback_there_is_no_image(executor: Executor) -> None:
    assert load(executor, lower(lambda x: x * 3, MATRIX), [0], key="").image == b""

    def calls_back(x: Any) -> Any:
        return io_callback(lambda value: value, jax.ShapeDtypeStruct((3, 4), jnp.float32), x)

    assert load(executor, lower(calls_back, MATRIX), [0], callback_ids=[5]).image == b""


def test_a_gang_of_one_that_compiled_and_one_that_did_not_meets_in_its_collectives() -> None:
    shape = jax.ShapeDtypeStruct((2,), jnp.float32)
    shardings = {"in_shardings": sharded("d", 2), "out_shardings": sharded((), 2)}
    program = lower_sharded(lambda x: x.sum() * jnp.ones(1), shape, **shardings)
    group = Group()
    try:
        commands = []
        for executor in group.ranks:
            command = executor.load_command(program, (0, 1))
            command.load.image_key = "program/0x1.1x1"
            executor.send(command)
            commands.append(command)
        image = group.ranks[0].event("loaded", executable_id=commands[0].load.executable_id).image
        first = group.ranks[1].event("loaded", executable_id=commands[1].load.executable_id)
        # The second host of the other order, from the image of the first one.
        answers = [
            load(executor, program, (1, 0), held, "program/0x1.1x1")
            for executor, held in zip(group.ranks, (b"", image), strict=True)
        ]
        assert [answer.reused for answer in answers] == [False, True]
        assert {bytes(answer.info.digest) for answer in answers} == {bytes(first.info.digest)}
        results = [
            executor.execute(answer.executable_id, [executor.place(np.full(1, 3 + rank, np.float32))])[0]
            for rank, (executor, answer) in enumerate(zip(group.ranks, answers, strict=True))
        ]
        sums = [float(e.fetch(result, np.zeros(1, np.float32))[0]) for e, result in zip(group.ranks, results, strict=True)]
        assert sums == [7, 7]
    finally:
        group.close()


def test_equal_processes_have_one_compiler_and_flags_make_another() -> None:
    names = []
    for environment in ({}, {}, {"XLA_FLAGS": "--xla_cpu_enable_fast_math=true"}):
        executor = Executor(environment=environment)
        executor.begin()
        names.append(executor.event("epoch_ready").compiler)
        executor.close()
    assert names[0] == names[1] != names[2]
    assert all(names)
