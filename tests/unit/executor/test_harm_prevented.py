"""What the allow-list and the rebuilt options are for: the same bytes crash a process or write files without them."""

from __future__ import annotations

import base64
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pathways_worker.executor import programs, runtime
from pathways_worker.executor.compile_options import rebuild
from pathways_worker.executor.failures import Refused

from tests.unit.executor.driving import lower, options_for

VALUE = np.arange(4, dtype=np.float32)

_UNCHECKED = """
import base64, sys
from pathways_worker.executor import runtime
runtime.prepare_process()
machine = runtime.Runtime(0, 1, "", 1)
options = runtime.parse_compile_options(base64.b64decode(sys.argv[2]))
module = runtime.parse_program(base64.b64decode(sys.argv[1]))
executable = machine.compile(module, machine.devices, options, [])
import numpy
executable.execute_sharded([machine.place([numpy.arange(4, dtype="float32")], machine.devices, "")])
"""


def calls_back(x: Any) -> Any:
    return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct((4,), jnp.float32), x)


class Load:
    """A Load message as far as the compile step reads it."""

    executable_id = 1
    devices = (0,)
    image = b""

    def __init__(self, program: bytes, options: bytes, callback_ids: tuple[int, ...] = ()) -> None:
        self.program = program
        self.options = options
        self.callback_ids = callback_ids


@pytest.fixture(scope="module")
def machine() -> runtime.Runtime:
    return runtime.Runtime(0, 1, "", 1)


def no_stand_in(*_: Any) -> Any:
    pytest.fail("a stand-in was made for a callback that nobody has")


def unchecked(program: bytes, options: bytes) -> int:
    """Compiles and runs in a process of its own with nothing checked or rebuilt; the exit code."""
    words = [base64.b64encode(data).decode() for data in (program, options)]
    return subprocess.run([sys.executable, "-c", _UNCHECKED, *words], capture_output=True, timeout=60).returncode


def test_an_unknown_callback_index_crashes_a_process_that_does_not_check() -> None:
    assert unchecked(lower(calls_back, VALUE), options_for(1)) == -signal.SIGSEGV


def test_an_unknown_callback_index_is_refused_with_a_sentence(machine: runtime.Runtime) -> None:
    with pytest.raises(Refused, match="host callback 0, but it came with 0"):
        programs.load_program(machine, Load(lower(calls_back, VALUE), options_for(1)), no_stand_in, {})


def test_a_target_off_the_list_is_refused_by_name(machine: runtime.Runtime) -> None:
    def function(x: Any) -> Any:
        return jax.ffi.ffi_call("somebody_elses_library", jax.ShapeDtypeStruct((4,), jnp.float32))(x)

    program = lower(function, VALUE)
    with pytest.raises(Refused, match="'somebody_elses_library', which executors do not allow"):
        programs.load_program(machine, Load(program, options_for(1)), no_stand_in, {})


def test_a_clients_dump_options_write_files_in_a_process_that_takes_them_as_they_are(tmp_path: Path) -> None:
    assert unchecked(lower(jnp.tanh, VALUE), options_for(1, xla_dump_to=str(tmp_path))) == 0
    assert list(tmp_path.iterdir())


def test_rebuilt_options_write_nothing(machine: runtime.Runtime, tmp_path: Path) -> None:
    options = options_for(1, xla_dump_to=str(tmp_path))
    programs.load_program(machine, Load(lower(jnp.tanh, VALUE), options), no_stand_in, {})
    assert not list(tmp_path.iterdir())


def received(**user_options: Any) -> Any:
    options = runtime.new_compile_options()
    options.env_option_overrides = list(user_options.items())
    return options


def test_a_user_option_that_names_files_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="'xla_dump_to' is not allowed on shared executors"):
        rebuild(received(xla_dump_to=str(tmp_path)), runtime.new_compile_options())


def test_an_option_that_does_not_exist_is_named() -> None:
    with pytest.raises(Refused, match="No such compile option: 'fast_please'"):
        rebuild(received(fast_please=True), runtime.new_compile_options())


def test_options_that_plain_jax_takes_and_does_not_read_on_cpus_are_left_out() -> None:
    named: dict[str, Any] = {"xla_gpu_enable_latency_hiding_scheduler": True, "xla_dump_max_hlo_modules": 200}
    with jax.default_device(jax.devices("cpu")[0]):
        assert jax.jit(jnp.tanh, compiler_options=named)(0.0) == 0.0
    assert rebuild(received(**named, xla_cpu_use_xnnpack=True), runtime.new_compile_options()).env_option_overrides == [
        ("xla_cpu_use_xnnpack", True)
    ]


def test_options_that_change_numbers_are_kept() -> None:
    options = received(xla_cpu_enable_fast_min_max=True)
    options.executable_build_options.debug_options.xla_backend_optimization_level = 0
    rebuilt = rebuild(options, runtime.new_compile_options())
    assert rebuilt.env_option_overrides == [("xla_cpu_enable_fast_min_max", True)]
    assert rebuilt.executable_build_options.debug_options.xla_backend_optimization_level == 0
