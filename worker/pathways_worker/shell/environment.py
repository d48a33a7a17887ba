"""Children get an environment of our making: what a user set for JAX, XLA or Pathways in the daemon's shell does not reach them.

XLA gives up a collective after minutes instead of waiting for ever; with several devices its thread pool needs room, or programs
in flight deadlock it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from pathways_common.model.colocated import PYTHON_TIMEOUT_S

_FOREIGN = ("JAX_", "XLA_", "PATHWAYS_", "TF_", "PJRT_", "PYTHON")
# Of the Python ones only what decides where modules come from is kept.
_KEPT = ("PYTHONPATH", "PYTHONHOME")
# Faults that tests inject.
_INJECTED = ("PATHWAYS_PREPARE_DELAY_NS",)


def child_environment(
    environment: Mapping[str, str], device_count: int, collective_timeout_s: int, python_timeout_s: int
) -> dict[str, str]:
    """The environment of executors and coordinators."""
    clean = {name: value for name, value in environment.items() if name in _KEPT + _INJECTED or not name.startswith(_FOREIGN)}
    clean["JAX_PLATFORMS"] = "cpu"
    clean["XLA_FLAGS"] = f"--xla_cpu_collective_timeout_seconds={collective_timeout_s}"
    clean["PYTHONUNBUFFERED"] = "1"
    clean[PYTHON_TIMEOUT_S] = str(python_timeout_s)
    if device_count > 1:
        clean["PJRT_NPROC"] = str(max(8, 2 * device_count))
    return clean


def child_command(module: str) -> list[str]:
    """How a module of ours is run; -P: nothing in the current directory may become a module of it."""
    return [sys.executable, "-P", "-m", module]
