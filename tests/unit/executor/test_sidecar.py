"""A real sidecar: what a user's Python returns, raises, prints and keeps, and what becomes of calls when its process ends."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import cloudpickle
import jax
import numpy as np
import pytest
from jax.experimental import colocated_python
from pathways_common.model.colocated import string_block, string_contents
from pathways_proto.ifrt import strings_pb2
from pathways_proto.v1 import colocated_pb2
from pathways_worker.executor.sidecar_process import Answer, Sidecar

from tests.unit.executor.pickles import pickled, spec

# No sidecar can import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
WAIT_S = 60.0
# The session's number of the device, which is the host's second one.
NUMBER, PLACE = 5, 1


@pytest.fixture(scope="module")
def heard() -> list[str]:
    return []


@pytest.fixture(scope="module")
def sidecar(heard: list[str]) -> Iterator[Sidecar]:
    process = Sidecar("of a test", 2, heard.append)
    yield process
    process.kill("the test is over")


def begin(sidecar: Sidecar, number: int, function: Callable[..., Any], *values: bytes, **specs: Any) -> Answer:
    takes, gives = specs.get("takes", (spec(),) * len(values)), specs.get("gives", spec())
    return sidecar.call(number, pickled(NUMBER, function, takes, gives), [[value] for value in values], [PLACE])


def ended(answer: Answer) -> Answer:
    assert answer.wait(WAIT_S), "the sidecar did not answer"
    return answer


THREE = np.arange(3, dtype=np.int32)


def test_a_function_runs_on_the_hosts_device_that_the_session_calls_by_another_number(sidecar: Sidecar) -> None:
    def function(x: jax.Array) -> jax.Array:
        assert x.sharding.device_set == {jax.devices()[1]}, x.sharding
        assert len(jax.devices()) == 2
        return x * 2 + np.int32(os.getpid() == 0)

    answer = ended(begin(sidecar, 1, function, THREE.tobytes()))
    assert answer.failure is None, answer.failure
    assert answer.results[0].shards[0] == (THREE * 2).tobytes()


def test_wide_and_string_arrays_come_back_as_they_are(sidecar: Sidecar) -> None:
    words = strings_pb2.StringArrayContents(strings=[b"ab", "ü".encode(), b""])
    wide, strings = spec(dtype=np.int64), spec(dtype=np.dtypes.StringDType())
    big = np.array([1 << 40, -1, 0], dtype=np.int64)
    answer = ended(
        begin(
            sidecar, 2, lambda x, s: (s, x + 1), big.tobytes(), string_block(words.SerializeToString()),
            takes=(wide, strings), gives=(strings, wide),
        )
    )  # fmt: skip
    assert answer.failure is None, answer.failure
    back, more = (result.shards[0] for result in answer.results)
    assert list(strings_pb2.StringArrayContents.FromString(string_contents(back)).strings) == list(words.strings)
    assert more == (big + 1).tobytes()


def test_an_exception_travels_with_its_type_text_and_line_and_so_do_prints(sidecar: Sidecar, heard: list[str]) -> None:
    def function(x: jax.Array) -> jax.Array:
        print("one\ntwo", end="")
        raise KeyError("where is it")

    failure = ended(begin(sidecar, 3, function, THREE.tobytes())).failure
    assert failure is not None
    assert (failure.reason, failure.metadata["type"]) == ("USER_ERROR", "KeyError")
    assert "where is it" in failure.message
    assert "in function)" in failure.message
    # The lines came before the answer.
    assert heard[-2:] == ["one", "two"]


@pytest.mark.parametrize("wrong", ["shape", "tree", "type"])
def test_what_was_not_promised_is_refused(sidecar: Sidecar, wrong: str) -> None:
    gives = {"shape": lambda x: x[:2], "tree": lambda x: [x, x], "type": lambda x: "text"}[wrong]
    number = 10 + len(wrong)
    failure = ended(begin(sidecar, number, gives, THREE.tobytes())).failure
    assert failure is not None
    assert "promised" in failure.message


def test_calls_run_side_by_side_and_state_lives_until_it_is_let_go_of(sidecar: Sidecar, heard: list[str]) -> None:
    def meet(x: jax.Array) -> jax.Array:
        colocated_python.__dict__.setdefault("_barrier", threading.Barrier(2)).wait(30)
        return x

    class Held:
        def __call__(self, x: jax.Array) -> jax.Array:
            return x

        def __del__(self) -> None:
            print("let go")

    assert ended(begin(sidecar, 30, lambda x: (colocated_python.__dict__.setdefault("_barrier", threading.Barrier(2)), x)[1],
                       THREE.tobytes())).failure is None  # fmt: skip
    both = [begin(sidecar, 31, meet, THREE.tobytes()), begin(sidecar, 32, meet, THREE.tobytes())]
    assert [ended(answer).failure for answer in both] == [None, None]
    assert ended(begin(sidecar, 33, Held(), THREE.tobytes())).failure is None
    assert "let go" not in heard
    sidecar.forget(33)
    sidecar.flush()
    assert ended(begin(sidecar, 34, lambda x: x, THREE.tobytes())).failure is None
    assert "let go" in heard


def test_calls_end_with_the_process_and_say_how_it_ended() -> None:
    process = Sidecar("of a test", 1, lambda text: None)
    answer = begin(process, 1, lambda x: time.sleep(600) or x, THREE.tobytes())
    os.kill(process.pid, signal.SIGKILL)
    failure = ended(answer).failure
    assert failure is not None
    assert "it was killed by signal 9" in failure.message
    later = ended(process.call(1, colocated_pb2.ColocatedProgram(), [], [])).failure
    assert later == failure
    assert process.ended


def test_a_sidecar_ends_when_its_executor_does() -> None:
    process = Sidecar("of a test", 1, lambda text: None)
    assert ended(begin(process, 1, lambda x: x, THREE.tobytes(), takes=(spec(),))).failure is not None  # place 1 of 1 device
    process._channel.shutdown(2)
    assert process._process.wait(WAIT_S) == 0
