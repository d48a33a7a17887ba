"""A program may come as text, as bytes or as an artifact of jax.export; without options it runs on all devices named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from jax._src.interpreters import mlir as jax_mlir
from pathways_proto.v1 import workers_pb2

from tests.unit.executor.driving import Executor, program_of, sharded

X = np.arange(8, dtype=np.float32)
# By hand, as somebody without JAX writes it: each device adds its half, an all-reduce sums over both.
TEXT = """
// y = x + 1 by shards, total = sum of y
module @add_and_sum {
  sdy.mesh @mesh = <["d"=2]>
  func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>})
      -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"d"}]>}, tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, []>}) {
    %one = stablehlo.constant dense<1.0> : tensor<8xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %y = stablehlo.add %x, %one : tensor<8xf32>
    %total = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0]
        : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
    return %y, %total : tensor<8xf32>, tensor<f32>
  }
}
"""


@pytest.fixture(scope="module")
def pair() -> Iterator[Executor]:
    executor = Executor(2)
    executor.begin()
    executor.event("epoch_ready")
    yield executor
    executor.close()


def add_and_sum(x: Any) -> Any:
    return x + 1, (x + 1).sum()


def lowered() -> Any:
    shape = jax.ShapeDtypeStruct((8,), np.float32, sharding=sharded(("d",), 2))
    return jax.jit(add_and_sum).trace(shape).lower(lowering_platforms=("cpu",))


def exported() -> bytes:
    shape = jax.ShapeDtypeStruct((8,), np.float32, sharding=sharded(("d",), 2))
    return bytes(export.export(jax.jit(add_and_sum), platforms=["cpu"])(shape).serialize())


def plain_bytes() -> bytes:
    return bytes(jax_mlir.module_to_bytecode(lowered().compiler_ir("stablehlo")))


def load(executor: Executor, program: bytes, devices: tuple[int, ...] = (0, 1)) -> Any:
    """Without options."""
    command = executor.load_command(program, devices)
    command.load.options = b""
    executor.handled(command)
    return executor.event("loaded", executable_id=command.load.executable_id)


FORMS = {
    "text": TEXT.encode(),
    "text of JAX": lowered().as_text().encode(),
    "portable bytes": program_of(lowered()),
    "plain bytes": plain_bytes(),
    "an artifact of jax.export": exported(),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_program_computes_on_both_devices(pair: Executor, form: str) -> None:
    loaded = load(pair, FORMS[form])
    assert not loaded.HasField("failure"), loaded.failure.message
    assert [list(output.shape) for output in loaded.info.outputs] == [[8], []]
    argument = pair.place(X[:4], X[4:])
    y, total = pair.execute(loaded.executable_id, [argument], 2)
    expected = np.asarray(jnp.sum(jnp.asarray(X) + 1))
    for index in (0, 1):
        np.testing.assert_array_equal(pair.fetch(total, expected, index), expected)
    first = pair.fetch(y, np.zeros(loaded.info.outputs[0].shard_shape, np.float32), 0)
    np.testing.assert_array_equal(first, (X + 1)[: first.size])


def test_parameters_of_a_program_without_options_stay_as_they_are_written(pair: Executor) -> None:
    text = "module { func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> } }"
    loaded = load(pair, text.encode())
    assert list(loaded.info.outputs[0].shard_shape) == [4]


@pytest.mark.parametrize(
    ("program", "begin"),
    [
        (b"module @x { func.func @main( }", "the program is StableHLO text that does not parse: "),
        (b"module @x {\n  func.func @main() { return %nothing : tensor<f32> }\n}", "the program is StableHLO text that does not"),
        (b"module \xff\xfe", "the program is StableHLO text that does not parse: "),
        (b"ML\xefRjunk", "the program is no StableHLO bytecode that this executor can read ("),
        (b"HloModule x", "the program is neither StableHLO nor an artifact of jax.export; send StableHLO as text or bytes"),
        (exported()[:100], "the program is neither StableHLO nor an artifact of jax.export; send StableHLO as text or bytes"),
        (b"", "the program is empty; send StableHLO as text or bytes, or an artifact of jax.export"),
    ],
)
def test_a_program_that_cannot_be_read_is_one_sentence(pair: Executor, program: bytes, begin: str) -> None:
    failure = load(pair, program).failure
    assert failure.reason == "COMPILE_ERROR"
    assert failure.message.startswith(begin)
    assert "\n" not in failure.message


def test_a_module_without_a_main_function_is_refused_and_the_executor_goes_on(pair: Executor) -> None:
    failure = load(pair, b"module @x { }").failure
    assert failure.reason == "COMPILE_ERROR"
    assert not load(pair, FORMS["text"]).HasField("failure")


def test_an_artifact_for_another_number_of_devices_is_refused(pair: Executor) -> None:
    failure = load(pair, exported(), (0,)).failure
    assert failure.message == "the artifact was exported for 2 devices and 1 were named; name as many"


def test_an_artifact_for_several_platforms_is_refused(pair: Executor) -> None:
    shape = jax.ShapeDtypeStruct((8,), np.float32, sharding=sharded(("d",), 2))
    artifact = bytes(export.export(jax.jit(add_and_sum), platforms=["cpu", "cuda"])(shape).serialize())
    failure = load(pair, artifact).failure
    assert "exported for cpu, cuda" in failure.message


def test_the_answer_to_the_same_text_is_the_same_on_every_member(pair: Executor) -> None:
    assert isinstance(load(pair, FORMS["text"]), workers_pb2.Loaded)
    assert load(pair, FORMS["text"]).info.digest == load(pair, FORMS["text"]).info.digest
