"""Emulated device time for both sides of a benchmark: a step that lasts so long without using the host's cores.

`library()` builds it once, with g++. A cluster loads it by PATHWAYS_WORKER_FFI_LIBRARIES, a plain JAX process by `register`;
programs use `busy` on both. The duration is an array, so that one compiled program serves every duration.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

SOURCE = Path(__file__).with_name("device_time.cc")
BUILT = Path(__file__).resolve().parents[3] / "build/emulator"
LIBRARY_VARIABLE = "PATHWAYS_WORKER_FFI_LIBRARIES"
DURATION_MAX_NS = 2**32 - 1
# Names a folder into which every process writes when its steps ran. Executors hand the variable down.
TIMELINE_VARIABLE = "EMULATOR_TIMELINE"


def library() -> Path:
    """The built library; SystemExit with one sentence where it cannot be built."""
    include = jax.ffi.include_dir()
    text = SOURCE.read_bytes() + include.encode() + jax.__version__.encode()
    path = BUILT / f"device_time_{hashlib.sha256(text).hexdigest()[:16]}.so"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    half_built = path.with_suffix(".new")
    # Headers of XLA as a system's: their warnings are not ours.
    command = ["g++", "-O2", "-std=c++17", "-Wall", "-shared", "-fPIC", "-isystem", include, str(SOURCE), "-o", str(half_built)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    except FileNotFoundError:
        raise SystemExit("emulated device time needs g++, which is not installed; install it") from None
    if done.returncode:
        raise SystemExit(f"emulated device time cannot be built:\n{done.stderr[-3000:]}")
    half_built.rename(path)
    return path


def register(path: str) -> None:
    """Makes the emulator callable in this process: for plain JAX."""
    from pathways_worker.executor.ffi_libraries import load_libraries

    load_libraries([path])


def busy(x: Any, lasts_ns: Any, work: Callable[[Any], Any] | None = None) -> Any:
    """`x` after `lasts_ns` (uint32[1]) on the device. Inside jit, and in a shard_map with check_vma=False.

    With `work`, that is done to `x` within the time.
    """
    same = jax.ShapeDtypeStruct(x.shape, x.dtype)
    began = jax.ShapeDtypeStruct((2,), np.uint32)
    x, began = jax.ffi.ffi_call("pathways_bench_start", (same, began), input_output_aliases={0: 0})(x)
    if work is not None:
        x = work(x)
    x = jax.ffi.ffi_call("pathways_bench_end", same, input_output_aliases={0: 0})(x, began, lasts_ns)
    return _never(x)


def busy_us(x: Any) -> Any:
    """How long `busy` has lasted in this device's process so far, in microseconds modulo 2^32, as uint32[1]."""
    return jax.ffi.ffi_call("pathways_bench_busy", jax.ShapeDtypeStruct((1,), np.uint32))(x)


def timelines(folder: Path) -> dict[int, Any]:
    """Per process that wrote one: rows of began, ended and told duration, as int64[n, 3] in nanoseconds of CLOCK_MONOTONIC."""
    return {int(path.name): np.fromfile(path, np.int64).reshape(-1, 3) for path in sorted(folder.iterdir())}


def _never(x: Any) -> Any:
    """A heavy branch that is not taken. Without it XLA finds the program cheap and runs it in the call that dispatches it."""

    def heavy(x: Any) -> Any:
        square = jax.numpy.broadcast_to(x.ravel()[0], (256, 256)) + 1
        return x + (square @ square).sum()

    return jax.lax.cond(x.ravel()[0] < -1e30, heavy, lambda x: x, x)
