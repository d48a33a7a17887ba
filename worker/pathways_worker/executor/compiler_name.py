"""One name for what an image depends on besides its key: the runtime, the kind of device and of processor, flags, and threads.

Code for one processor may end another one with SIGILL, and the number of threads is compiled in: both belong to the name. Two
hosts with one name may load each other's images.
"""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

import jaxlib

_PROCESSORS = Path("/proc/cpuinfo")
# Of the first processor; names differ between architectures.
_PROCESSOR_FIELDS = frozenset(
    {"vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU part", "CPU implementer"}
)
# What XLA takes the size of its thread pools from, and its flags.
_VARIABLES = ("XLA_FLAGS", "PJRT_NPROC", "NPROC")


def compiler_name(*runtime: str) -> str:
    """A digest of this process's compiler; `runtime` is what the runtime says of itself and its devices."""
    parts = [jaxlib.__version__, platform.machine(), *runtime, *_processor(), str(len(os.sched_getaffinity(0)))]
    parts += [f"{name}={os.environ.get(name, '')}" for name in _VARIABLES]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _processor() -> list[str]:
    try:
        text = _PROCESSORS.read_text(errors="replace")
    except OSError:  # no such file on this system; its machine name has to do
        return [platform.processor()]
    first = text.split("\n\n", 1)[0].splitlines()
    return [line for line in first if line.partition(":")[0].strip() in _PROCESSOR_FIELDS]
