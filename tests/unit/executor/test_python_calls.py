"""Colocated Python through a real executor: it is loaded unopened, its results land, and launches do not wait for them."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import cloudpickle
import jax
import numpy as np
import psutil
import pytest
from pathways_common.model.colocated import MAGIC, PRINT_CALLBACK_ID
from pathways_proto.v1 import colocated_pb2, workers_pb2
from pathways_worker.executor.python_calls import PythonCalls, _Call

from tests.cluster import wait_until
from tests.unit.executor.driving import SESSION, Executor, lower, operands, reply
from tests.unit.executor.pickles import pickled, spec

# No sidecar can import this file.
cloudpickle.register_pickle_by_value(sys.modules[__name__])
THREE = np.arange(3, dtype=np.int32)


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    process = Executor(2, host="a0")
    process.begin()
    process.event("epoch_ready")
    yield process
    process.close()


def load(executor: Executor, function: Callable[..., Any], place: int = 1, takes: Any = None, gives: Any = None) -> Any:
    message = pickled(place + 40, function, (spec(),) if takes is None else takes, spec() if gives is None else gives)
    return executor.load(MAGIC + message.SerializeToString(), (place,))


def call(executor: Executor, loaded: Any, argument: int, landing: int, stream: int = 1) -> int:
    assert not loaded.HasField("failure"), loaded.failure
    return executor.execute(loaded.executable_id, [argument], landings=[landing], stream=stream)[0]


def place(executor: Executor) -> int:
    """THREE on the second device only."""
    command = executor.place_command([THREE])
    command.place_array.pieces[0].local_device = 1
    executor.send(command)
    return int(command.place_array.buffer_id)


def test_a_result_lands_and_is_an_array_like_any_other(executor: Executor) -> None:
    loaded = load(executor, lambda x: x * 2)
    assert loaded.info.python
    assert not loaded.info.fallible
    result = call(executor, loaded, place(executor), 501)
    executor.event("landed", transfer_id=501)
    assert list(executor.fetch(result, THREE)) == [0, 2, 4]
    plus = executor.load(lower(lambda x: x + 1, THREE), (1,))
    assert list(executor.fetch(executor.execute(plus.executable_id, [result])[0], THREE)) == [1, 3, 5]


def test_launches_behind_a_call_do_not_wait_for_it(executor: Executor) -> None:
    loaded = load(executor, lambda x: time.sleep(3) or x)
    plus = executor.load(lower(lambda x: x + 1, THREE), (1,))
    source = place(executor)
    result = call(executor, loaded, source, 502)
    assert list(executor.fetch(executor.execute(plus.executable_id, [source])[0], THREE)) == [1, 2, 3]
    assert not [event for event in executor.events_of("landed") if event.transfer_id == 502]
    executor.event("landed", transfer_id=502)
    assert list(executor.fetch(result, THREE)) == [0, 1, 2]


def test_calls_of_one_thread_keep_their_order_and_share_a_process(executor: Executor) -> None:
    def note(letter: str) -> Callable[[jax.Array], jax.Array]:
        def function(x: jax.Array) -> jax.Array:
            if letter == "a":
                time.sleep(1)
            noted = np.__dict__.setdefault("_noted", [])
            noted.append(letter)
            return x if noted[-3:] != ["a", "b", "c"] else x + 100

        return function

    source, programs = place(executor), [load(executor, note(letter)) for letter in "abc"]
    results = [call(executor, program, source, 510 + index, stream=9) for index, program in enumerate(programs)]
    executor.event("landed", transfer_id=512)
    assert list(executor.fetch(results[2], THREE)) == [100, 101, 102]


def test_an_exception_fails_the_result_and_its_landing_and_names_the_host(executor: Executor) -> None:
    def function(x: jax.Array) -> jax.Array:
        raise ValueError("no such shard")

    result = call(executor, load(executor, function), place(executor), 520)
    failure = executor.event("transfer_failed", transfer_id=520).failure
    assert failure.reason == "USER_ERROR"
    assert "ValueError: no such shard (raised by colocated Python f on host a0" in failure.message
    with pytest.raises(AssertionError, match="no such shard"):
        executor.fetch(result, THREE)


def test_prints_go_to_the_client_with_the_name_of_the_host(executor: Executor) -> None:
    said: list[Any] = []

    def answer(request: Any) -> Any:
        said.append((request.session_number, request.callback_id, operands(request)[0].tobytes()))
        return reply(request)

    serving = executor.serve_callback(answer)
    call(executor, load(executor, lambda x: (print("hello"), x)[1]), place(executor), 530)
    executor.event("landed", transfer_id=530)
    serving.join(20)
    assert said == [(SESSION, PRINT_CALLBACK_ID, b"[a0] hello")]


def test_a_program_for_another_host_or_that_cannot_be_read_is_refused(executor: Executor) -> None:
    unreadable = executor.load(MAGIC + b"\xff", (0,)).failure
    assert (unreadable.reason, "no colocated Python that this host can read" in unreadable.message) == ("COMPILE_ERROR", True)
    assert executor.load(MAGIC, (0,)).failure.reason == "INVALID_ARGUMENT"  # it names no device


def test_a_request_for_storage_that_does_not_fit_itself_is_refused_when_it_is_loaded(executor: Executor) -> None:
    message = colocated_pb2.ColocatedProgram(name="read of 1 arrays", devices=[0])
    message.storage.arrays.add(path="/data/x", dtype=11, shape=[4], shard_shape=[4]).shards.add(start=[0])
    failure = executor.load(MAGIC + message.SerializeToString(), (0,)).failure
    assert failure.reason == "INVALID_ARGUMENT"
    assert failure.message.startswith("read of 1 arrays cannot be carried out: it has 0 outputs for 1 arrays")


def sidecars_of(executor: Executor) -> list[psutil.Process]:
    children = psutil.Process(executor.process.pid).children()
    return [child for child in children if "pathways_worker.sidecar" in child.cmdline()]


def test_sidecars_end_with_their_session_and_a_later_call_starts_another(executor: Executor) -> None:
    loaded = load(executor, lambda x: x)
    call(executor, loaded, place(executor), 540)
    executor.event("landed", transfer_id=540)
    before = sidecars_of(executor)
    assert len(before) == 1
    executor.handled(workers_pb2.HostCommand(cancel_transfer=workers_pb2.CancelTransfer(session_number=SESSION)))
    psutil.wait_procs(before, 20)
    assert not before[0].is_running()
    call(executor, loaded, place(executor), 541)
    executor.event("landed", transfer_id=541)
    assert len(sidecars_of(executor)) == 1


def test_without_tokens_nothing_is_loaded() -> None:
    process = Executor(words=["--no-python"])
    try:
        process.begin()
        process.event("epoch_ready")
        failure = load(process, lambda x: x, place=0).failure
        assert failure.reason == "UNSUPPORTED"
        assert "without tokens" in failure.message
    finally:
        process.close()


def test_a_call_whose_time_was_over_before_it_began_takes_nobody_along() -> None:
    given_up: list[tuple[int, str]] = []
    objects: Any = SimpleNamespace(give_up=lambda identifier, failure: given_up.append((identifier, failure.message)))
    calls = PythonCalls(SimpleNamespace(), objects, SimpleNamespace(), print, print, "a0", timeout_ns=10**9)  # type: ignore[arg-type]
    program, sidecar = SimpleNamespace(name="f", message=None, places=(0,)), SimpleNamespace()  # that cannot be called or killed
    calls._run(_Call(1, program, [], [(7, SimpleNamespace())], sidecar, time.monotonic() - 1))  # type: ignore[arg-type,list-item]
    ((identifier, message),) = given_up
    assert identifier == 7
    assert message.startswith("colocated Python f was not begun within 1 s on host a0")


def test_a_call_that_gives_other_results_than_promised_fails_and_the_next_in_its_line_goes_on() -> None:
    given_up: list[tuple[int, str]] = []
    filled: list[int] = []
    objects: Any = SimpleNamespace(
        give_up=lambda identifier, failure: given_up.append((identifier, failure.message)),
        fill=lambda identifier, *_: filled.append(identifier),
    )
    calls = PythonCalls(SimpleNamespace(), objects, SimpleNamespace(), print, print, "a0")  # type: ignore[arg-type]
    one = (np.dtype(np.int32), (3,), "")

    def waiting(number: int, *results: Any) -> Any:
        """Of one result, whose sidecar answers at once with as many shards of each; or breaks."""
        answer = SimpleNamespace(
            wait=lambda _: True, failure=None, results=[SimpleNamespace(shards=shards) for shards in results]
        )
        program: Any = SimpleNamespace(name="f", message=None, places=(0,), devices=(None,), outputs=(one,))
        sidecar: Any = SimpleNamespace(call=lambda *_: answer) if results else SimpleNamespace()
        return _Call(number, program, [], [(number, SimpleNamespace())], sidecar, time.monotonic() + 60)  # type: ignore[list-item]

    line = deque([waiting(1, [b""], [b""]), waiting(2, []), waiting(3), waiting(4, [bytes(12)])])
    calls._lines[1, 1] = line
    calls._serve((1, 1))
    assert [identifier for identifier, _ in given_up] == [1, 2, 3]
    promised = "colocated Python f gave {} shards of its results on host a0, promised were 1 of each of 1"
    assert [message for _, message in given_up[:2]] == [promised.format([1, 1]), promised.format([0])]
    assert given_up[2][1].startswith("colocated Python f could not be called on host a0: ")
    assert filled == [4]
    assert not calls._lines


def sleeping() -> Any:
    time.sleep(600)


def threes() -> Any:
    return jax.numpy.full(3, 3, np.int32)


def test_a_call_that_does_not_return_in_time_fails_by_name_and_ends_its_process() -> None:
    """The next call gets another process."""
    given_up: list[tuple[int, Any]] = []
    filled: list[int] = []
    objects: Any = SimpleNamespace(
        give_up=lambda identifier, failure: given_up.append((identifier, failure)),
        fill=lambda identifier, *_: filled.append(identifier),
    )
    machine: Any = SimpleNamespace(local_devices=[None])
    calls = PythonCalls(machine, objects, SimpleNamespace(), print, print, "a0", timeout_ns=10**9)  # type: ignore[arg-type]

    def run(number: int, function: Callable[[], Any], seconds: float) -> Any:
        program: Any = SimpleNamespace(
            name=function.__name__, message=pickled(40, function, (), spec(), function.__name__), places=(0,), devices=(None,),
            outputs=((np.dtype(np.int32), (3,), ""),),
        )  # fmt: skip
        sidecar = calls._sidecar(1)
        pending: Any = SimpleNamespace()
        calls._run(_Call(number, program, [], [(number, pending)], sidecar, time.monotonic() + seconds))
        return sidecar

    used = []
    try:
        used.append(run(1, threes, 60))  # the process has started
        used.append(run(2, sleeping, 1))
        ((identifier, failure),) = given_up
        assert (identifier, failure.reason) == (2, "TIMED_OUT")
        assert failure.message.startswith("colocated Python sleeping did not return within 1 s on host a0; the process that ran")
        wait_until(lambda: used[1].ended, "the process to be ended", timeout_s=15)
        assert not psutil.pid_exists(used[1].pid)
        used.append(run(3, threes, 60))
    finally:
        for each in used:
            each.kill("the test is over")
    assert filled == [1, 3]
    assert used[0] is used[1]
    assert used[2].pid != used[0].pid


def test_a_request_for_storage_that_its_process_does_not_end_in_time_is_ended_by_its_own_deadline() -> None:
    """As when the process stands still. Whoever calls again at once gets another one."""
    told: list[tuple[str, str]] = []
    calls: PythonCalls

    def give_up(_identifier: int, failure: Any) -> None:
        told.append((failure.reason, failure.message))
        again.append(calls._sidecar(1))

    machine, again = SimpleNamespace(local_devices=[None]), list[Any]()
    calls = PythonCalls(machine, SimpleNamespace(give_up=give_up), SimpleNamespace(), print, print, "a0")  # type: ignore[arg-type]
    message = colocated_pb2.ColocatedProgram(name="read of 1 arrays")
    message.storage.timeout_ns = 10**9
    program: Any = SimpleNamespace(name=message.name, message=message, places=(0,), devices=(None,), outputs=())
    sidecar = calls._sidecar(1)
    try:
        sidecar.await_start(60)
        psutil.Process(sidecar.pid).suspend()
        began_s = time.monotonic()
        calls._run(_Call(1, program, [], [(1, SimpleNamespace())], sidecar, began_s + 300))  # type: ignore[list-item]
        assert 1 <= time.monotonic() - began_s < 3
        ((reason, words),) = told
        assert reason == "TIMED_OUT"
        assert words.startswith("colocated Python read of 1 arrays did not return within 1 s on host a0; the process that ran")
        assert again[0] is not sidecar
    finally:
        for each in (sidecar, *again):
            each.kill("the test is over")
