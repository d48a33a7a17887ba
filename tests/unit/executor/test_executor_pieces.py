"""The pure pieces of the executor."""

from __future__ import annotations

import socket
import threading
from typing import Any

import numpy as np
import pytest
from pathways_proto.v1 import workers_pb2
from pathways_worker.executor.callbacks import CallbackChannel, CallbackStandIn
from pathways_worker.executor.custom_calls import CustomCall, allowed, check_custom_calls
from pathways_worker.executor.element_types import TOKEN
from pathways_worker.executor.failures import Refused
from pathways_worker.executor.frames import FrameReader, write_frame
from pathways_worker.executor.hlo_header import DeviceType, parse_header
from pathways_worker.executor.module_facts import GlobalType, global_type
from pathways_worker.executor.window import Entry, Window


def test_frames_survive_any_cut_of_the_stream() -> None:
    left, right = socket.socketpair()
    with left, right:
        reader = FrameReader(right)
        for payload in (b"", b"a", b"b" * 70_000):
            threading.Thread(target=write_frame, args=(left, payload)).start()
            assert reader.read() == payload
        left.sendall(b"\x05\x00\x00")
        left.sendall(b"\x00hel")
        left.sendall(b"lo\x00\x00\x00\x00raw")
        assert [reader.read(), reader.read(), bytes(reader.read_exactly(3) or b"")] == [b"hello", b"", b"raw"]
        assert not reader.ready(0)
        left.close()
        assert reader.read() is None


def test_the_header_of_an_optimised_module_tells_types_and_real_aliases() -> None:
    text = (
        "HloModule jit_f, is_scheduled=true, "
        "input_output_alias={ {0}: (0, {}, may-alias), {1}: (12, {}, must-alias) }, "
        "entry_computation_layout={(f32[4,8]{1,0:S(5)}, /*index=1*/bf16[]{:T(128)}, token[], s4[3]{0:E(4)})"
        "->(pred[2]{0}, f32[])}, "
        "num_partitions=2\n buffer_donor={ (1, {}) }"
    )
    header = parse_header(text)
    assert header.donated == (0, 12)
    assert header.parameters == (DeviceType(11, (4, 8)), DeviceType(16, ()), DeviceType(TOKEN, ()), DeviceType(21, (3,)))
    assert header.results == (DeviceType(1, (2,)), DeviceType(11, ()))


def test_the_header_of_a_module_without_parameters_has_none() -> None:
    header = parse_header("HloModule m, entry_computation_layout={()->f8e4m3fn[2,0]{1,0}}\n")
    assert (header.parameters, header.results, header.donated) == ((), (DeviceType(20, (2, 0)),), ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tensor<4x8xf32>", GlobalType(11, (4, 8))),
        ("tensor<i1>", GlobalType(1, ())),
        ("tensor<3xcomplex<f64>>", GlobalType(18, (3,))),
        ("tensor<2xui8>", GlobalType(6, (2,))),
        ("tensor<0x5xf8E4M3FN>", GlobalType(20, (0, 5))),
        ("!stablehlo.token", GlobalType(TOKEN, ())),
    ],
)
def test_types_of_the_module_are_read(text: str, expected: GlobalType) -> None:
    assert global_type(text) == expected


def test_a_dynamic_type_is_refused() -> None:
    with pytest.raises(Refused, match="tensor<"):
        global_type("tensor<?x4xf32>")


def test_every_library_target_that_jaxlib_registers_for_cpu_is_allowed() -> None:
    from jaxlib import cpu_sparse, lapack

    names = [name for module in (lapack, cpu_sparse) for name, *_ in module.registrations()["cpu"]]
    assert len(names) > 40
    assert [name for name in names if not allowed(name)] == []


def test_only_library_calls_make_a_program_fallible() -> None:
    marks = [CustomCall("Sharding"), CustomCall("annotate_device_placement"), CustomCall("xla.sdy.GlobalToLocalShape")]
    assert not check_custom_calls([*marks, CustomCall("xla_ffi_python_cpu_callback", 0)], 1)
    assert check_custom_calls([*marks, CustomCall("lapack_spotrf_ffi")], 0)


@pytest.mark.parametrize("index", [None, -1, 2])
def test_callback_indices_outside_the_load_are_refused(index: int | None) -> None:
    with pytest.raises(Refused):
        check_custom_calls([CustomCall("xla_ffi_partitioned_python_cpu_callback", index)], 2)


@pytest.mark.parametrize("target", ["xla_python_cpu_callback", "xla_buffer_python_cpu_callback", "", "lapack_anything_ffi"])
def test_other_doors_into_python_and_unknown_names_are_refused(target: str) -> None:
    assert not allowed(target)


# ---- window ----------------------------------------------------------------------------------------------------------


class Result:
    def __init__(self, ready: bool = False, deleted: bool = False) -> None:
        self.ready = ready
        self.deleted = deleted

    def is_ready(self) -> bool:
        return self.ready

    def is_deleted(self) -> bool:
        return self.deleted


class Token:
    def __init__(self, error: str = "") -> None:
        self.error = error
        self.awaited = False

    def block_until_ready(self) -> None:
        self.awaited = True
        if self.error:
            raise RuntimeError(self.error)


def entry(sequence: int, *results: Result, error: str = "") -> Entry:
    return Entry(sequence + 100, sequence, (), list(results), Token(error))


def test_the_ninth_launch_waits_for_the_first() -> None:
    window = Window(lambda _: pytest.fail("nothing failed"))
    entries = [entry(sequence, Result()) for sequence in range(1, 10)]
    for launched in entries[:8]:
        window.add(launched)
    assert not any(launched.token.awaited for launched in entries)
    window.add(entries[8])
    assert [launched.token.awaited for launched in entries] == [True] + [False] * 8
    assert (window.finished_through, len(window)) == (1, 8)


def test_donated_results_are_told_by_the_launch_that_consumed_them() -> None:
    window = Window(lambda _: pytest.fail("nothing failed"))
    last = Result()
    for launched in (entry(1, Result(deleted=True)), entry(2, Result(deleted=True)), entry(3, last)):
        window.add(launched)
    assert window.sweep() == 0
    last.ready = True
    assert (window.sweep(), len(window)) == (3, 0)


def test_a_failed_launch_is_told_once() -> None:
    told: list[int] = []
    window = Window(lambda failed: told.append(failed.execution_id))
    failed = entry(1, Result(ready=True), error="boom")
    window.add(failed)
    window.settle(failed)
    window.sweep()
    assert told == [101]
    assert failed.failure is not None
    assert failed.failure.message == "boom"


# ---- callbacks -------------------------------------------------------------------------------------------------------


def stand_in(timeout_ns: int, *types: GlobalType) -> tuple[CallbackStandIn, socket.socket]:
    ours, theirs = socket.socketpair()
    return CallbackStandIn(CallbackChannel(ours, timeout_ns), 5 << 40 | 1, 3, types), theirs


def test_a_callback_that_nobody_answers_returns_zeros_at_its_deadline() -> None:
    function, _theirs = stand_in(50 * 10**6, GlobalType(TOKEN, ()), GlobalType(11, (2,)))
    token, value = function(None, np.ones(2, np.float32))
    assert token is None
    np.testing.assert_array_equal(value, np.zeros(2, np.float32))
    assert [failure.reason for failure in function.failures] == ["TIMED_OUT"]
    assert "0.05 s" in function.failures[0].message


def test_after_an_abort_no_callback_of_the_session_is_sent() -> None:
    function, theirs = stand_in(10**10, GlobalType(4, ()))
    abort = workers_pb2.HostCommand(callback_abort=workers_pb2.CallbackAbort(session_number=5))
    write_frame(theirs, workers_pb2.ExecutorCommands(commands=[abort]).SerializeToString())
    assert function()[0] == 0
    assert [failure.reason for failure in function.failures] == ["CANCELLED"]
    assert not FrameReader(theirs).ready(0)


def test_a_late_reply_to_an_earlier_call_is_ignored() -> None:
    function, theirs = stand_in(10**10, GlobalType(4, ()))

    def answer(call_id: int, value: int) -> Any:
        array = {"dtype": 4, "data": np.int32(value).tobytes()}
        return workers_pb2.HostCommand(callback_reply={"call_id": call_id, "results": {"arrays": [array]}})

    def serve() -> None:
        call = workers_pb2.ExecutorReport.FromString(FrameReader(theirs).read() or b"").events[0].callback_call
        for command in (answer(call.call_id - 1, 1), answer(call.call_id, 2)):
            write_frame(theirs, workers_pb2.ExecutorCommands(commands=[command]).SerializeToString())

    thread = threading.Thread(target=serve)
    thread.start()
    assert function()[0] == 2
    assert function.failures == []
    thread.join(5)


def test_a_closed_channel_fails_the_callback_at_once() -> None:
    function, theirs = stand_in(10**10, GlobalType(4, ()))
    theirs.close()
    assert function()[0] == 0
    assert len(function.failures) == 1
