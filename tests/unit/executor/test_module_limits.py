"""Modules that end the process that compiles them unchecked, and the sentence that executors have for each instead."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib import _jax
from pathways_worker.executor import module_limits as limits
from pathways_worker.executor.compile_options import rebuild
from pathways_worker.executor.failures import Refused
from pathways_worker.executor.module_facts import read_module
from pathways_worker.executor.program_formats import read_program

from tests.fuzz.hostile_modules import DEADLY, hostile_modules
from tests.unit.executor.driving import Executor, lower, options_for
from tests.unit.executor.test_harm_prevented import received

MODULES = {each.name: each for each in hostile_modules()}
_UNCHECKED = """
import sys
from pathways_worker.executor import runtime
from tests.fuzz.hostile_modules import hostile_modules
runtime.prepare_process()
machine = runtime.Runtime(0, 1, "", 2)
for hostile in hostile_modules():
    if hostile.name == sys.argv[1]:
        machine.compile(runtime.parse_text(hostile.program.decode()), machine.devices[:1], runtime.new_compile_options(), [])
"""


@pytest.mark.parametrize(
    ("name", "number"), [("calls-itself", signal.SIGSEGV), ("iota-huge", signal.SIGABRT), ("text-brackets", signal.SIGSEGV)]
)
def test_unchecked_they_end_the_process(name: str, number: signal.Signals) -> None:
    words = [sys.executable, "-c", _UNCHECKED, name]
    assert subprocess.run(words, capture_output=True, timeout=60, check=False).returncode == -number


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("text-brackets", "its text nests brackets more than 200 deep"),
        ("text-digits", "its text has a word of more than 1000 characters"),
        ("text-minus", "affine maps or rows of signs"),
        ("text-affine", "affine maps or rows of signs"),
        ("iota-huge", "it has a value of type tensor<4611686018427387904xf32>, more than any memory holds"),
        ("argument-product", "it has a value of type tensor<2147483648x2147483648x4xf32>"),
        ("dot", "it has a value of type tensor<1099511627776x1099511627776xf32>"),
        ("argument-rank", "it takes or gives an array of 300 dimensions; at most 64"),
        ("calls-itself", "its function 'main' calls itself"),
        ("calls-in-a-circle", "its function 'main' calls itself"),
        ("calls-a-circle", "its function 'other' calls itself"),
        ("composite-of-itself", "its function 'main' calls itself"),
        ("call-computation", "its function 'main' calls itself"),
        ("calls-doubled-60-times", "it has more than 50000000 operations once its calls are written out"),
        ("declared-main", "it declares function 'main' without a body"),
        ("call-Sharding-0", "it calls 'Sharding' with 0 operands; that takes 1"),
        ("call-Qr-0", "it calls 'Qr' with 0 operands; that takes at least 1"),
        ("call-TopK-1", "it calls 'TopK' for 1 results; that gives 2"),
        ("call-xla.sdy.FuncResultSharding-1", "it calls 'xla.sdy.FuncResultSharding' without frontend attributes"),
        ("gspmd-argument-9-on-2", "it has a sharding into a negative number of parts"),
        ("gspmd-mark-15-on-2", "it marks a value inside as unreduced"),
        ("infeed-on-1", "the program waits for infeed, which nobody serves here"),
    ],
)
def test_each_is_refused_with_what_is_wrong(name: str, sentence: str) -> None:
    with pytest.raises(Refused) as refusal:
        read_module(read_program(MODULES[name].program, MODULES[name].devices))
    assert sentence in str(refusal.value), str(refusal.value)


def options_of(overrides: Sequence[tuple[str, int | float | str]], devices: int) -> bytes:
    """As a client makes them."""
    options = _jax.CompileOptions.ParseFromString(options_for(devices))
    options.env_option_overrides = list(overrides)
    return bytes(options.SerializeAsString())


@pytest.mark.slow
def test_one_executor_answers_all_of_them_and_computes_on() -> None:
    executor = Executor(2)
    try:
        executor.begin()
        executor.event("epoch_ready")
        honest = executor.load(lower(lambda x: x * 3, np.arange(4, dtype=np.float32)))
        refused = 0
        for number, name in enumerate(DEADLY):
            hostile = MODULES[name]
            devices, options = range(hostile.devices), options_of(hostile.overrides, hostile.devices)
            answer = executor.load(hostile.program, devices, options=options)
            if answer.HasField("failure"):
                refused += 1
                assert len(answer.failure.message.split()) > 3, f"{name}: {answer.failure}"
                assert "Traceback" not in answer.failure.message, f"{name}: {answer.failure}"
            given = executor.place(np.full(4, number, np.float32))
            (result,) = executor.execute(honest.executable_id, [given])
            assert executor.fetch_bytes(result) == np.full(4, number * 3, np.float32).tobytes(), name
        assert refused > len(DEADLY) * 3 // 4
        assert executor.process.poll() is None
    finally:
        executor.close()


def test_bytes_of_a_sharding_are_read_as_text_is() -> None:
    limits.check_sharding(b"\x08\x03\x1a\x02\x02\x01\x22\x02\x00\x01", is_mark=False)
    limits.check_sharding(b"{devices=[2,1]<=[2]}", is_mark=True)
    for wrong in (b"\x08\x03\x1a\x0b\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\xff\xff"):
        with pytest.raises(Refused, match="sharding"):
            limits.check_sharding(wrong, is_mark=False)


def test_text_in_strings_and_comments_counts_as_nothing() -> None:
    limits.check_text(b"module {} // " + b"(" * 300)
    limits.check_text(b'"' + b"{" * 300 + b'\\"' + b"9" * 3000 + b'" -> () -> ()')


def test_functions_that_share_others_are_no_circle() -> None:
    functions = limits.Functions()
    for name in ("main", "left", "right", "shared"):
        functions.add(name, True)
        functions.count(name)
    for caller, callee in (("main", "left"), ("main", "right"), ("left", "shared"), ("right", "shared")):
        functions.call(caller, callee)
    functions.check()


def test_what_people_write_passes() -> None:
    def layered(x: jax.Array) -> jax.Array:
        def body(carry: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            return jax.lax.cond(carry.sum() > 0, jnp.sin, jnp.cos, carry), carry[0]

        carry, firsts = jax.lax.scan(body, x, None, length=3)
        return jnp.linalg.qr(jnp.outer(carry, firsts[:1]))[0] + jnp.sort(carry)[:, None]

    facts = read_module(read_program(lower(layered, np.arange(4, dtype=np.float32)), 1))
    assert [kind.shape for kind in facts.results] == [(4, 1)]


def test_numbers_of_options_are_bounded() -> None:
    for value in (-1, 2147483647):
        with pytest.raises(Refused, match=r"'xla_cpu_parallel_codegen_split_count' is -?\d+; give a number from 0 to 4096"):
            rebuild(received(xla_cpu_parallel_codegen_split_count=value), received())
