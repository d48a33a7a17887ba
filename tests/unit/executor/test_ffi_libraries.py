"""Native code of an operator: what a library lists may be called on this host, and what cannot be loaded is one sentence."""

from __future__ import annotations

import ctypes
import subprocess

import jax
import numpy as np
import pytest
from pathways_worker.executor import ffi_libraries
from pathways_worker.executor.custom_calls import CustomCall, check_custom_calls
from pathways_worker.executor.failures import Refused
from pathways_worker.executor.ffi_libraries import LibraryRefused, Target, load_libraries, read_table, targets_of

from tests.tools import needs
from tests.unit.executor.driving import Executor, failure_text, lower

SOURCE = """
#include <cstdint>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;
static ffi::Error Twice(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = 2 * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(TwiceHandler, Twice, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
struct Target { const char* name; void* handler; int64_t infallible; };
extern "C" Target pathways_ffi_targets[] = {{"test_twice", (void*)TwiceHandler, 1}, {nullptr, nullptr, 0}};
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library with one target, built by g++."""
    needs("a library of FFI handlers", "g++")
    folder = tmp_path_factory.mktemp("library")
    (folder / "twice.cc").write_text(SOURCE)
    command = ["g++", "-O1", "-std=c++17", "-shared", "-fPIC", "-w", "-I", jax.ffi.include_dir(), "twice.cc", "-o", "twice.so"]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    return str(folder / "twice.so")


def twice() -> bytes:
    return lower(lambda x: jax.ffi.ffi_call("test_twice", jax.ShapeDtypeStruct((3,), np.float32))(x) + 1, np.zeros(3, np.float32))


def test_program_calls_the_target_of_a_library(library: str) -> None:
    executor = Executor(libraries=[library])
    try:
        executor.begin()
        executor.event("epoch_ready")
        loaded = executor.load(twice())
        assert not loaded.HasField("failure"), failure_text(loaded.failure)
        assert not loaded.info.fallible
        argument = executor.place([np.array([1, 2, 3], np.float32)])
        (result,) = executor.execute(loaded.executable_id, [argument])
        assert executor.fetch(result, np.zeros(3, np.float32)).tolist() == [3, 5, 7]
    finally:
        executor.close()


def test_host_without_the_library_refuses_the_program() -> None:
    executor = Executor()
    try:
        executor.begin()
        executor.event("epoch_ready")
        answer = executor.load(twice())
        assert "the program calls 'test_twice', which executors do not allow" in failure_text(answer.failure)
    finally:
        executor.close()


@pytest.mark.parametrize(
    ("path", "sentence"),
    [("/nowhere.so", "the FFI library /nowhere.so cannot be loaded"), ("libm.so.6", "libm.so.6 has no 'pathways_ffi_targets'")],
)
def test_library_that_cannot_be_used_is_one_sentence(path: str, sentence: str) -> None:
    with pytest.raises(LibraryRefused, match=sentence):
        targets_of(path)
    executor = Executor(libraries=[path])
    assert executor.process.wait(60) == 1
    executor.close()
    assert sentence in executor.stderr.decode()
    assert "Traceback" not in executor.stderr.decode()


def test_table_ends_at_the_first_entry_without_a_name() -> None:
    entries = [(b"first", 7, 1), (b"second", 8, 0), (None, 0, 0), (b"behind", 9, 0)]
    table = (ffi_libraries._Entry * len(entries))(*entries)
    assert list(read_table(table)) == [Target("first", 7, True), Target("second", 8, False)]


@pytest.mark.parametrize("name", ["lapack_spotrf_ffi", "Sharding", "twice_the_same"])
def test_target_that_executors_have_already_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(ffi_libraries, "targets_of", lambda path: [Target(name, ctypes.addressof(ctypes.c_int()), False)])
    monkeypatch.setattr(ffi_libraries.runtime, "register_ffi_target", lambda name, handler: None)
    with pytest.raises(LibraryRefused, match=f"names the target '{name}', which executors have already"):
        load_libraries(["one.so", "two.so"])


def test_target_of_this_host_makes_a_program_fallible_unless_it_promises() -> None:
    assert check_custom_calls([CustomCall("ours")], 0, {"ours": False})
    assert not check_custom_calls([CustomCall("ours")], 0, {"ours": True})
    with pytest.raises(Refused, match="the program calls 'ours'"):
        check_custom_calls([CustomCall("ours")], 0, {"theirs": True})
