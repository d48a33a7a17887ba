"""Carries out a Load: what was compiled, or a function of colocated Python, and the answer for the controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pathways_common.model.failure import Reason
from pathways_proto.v1 import workers_pb2

from pathways_worker.executor import runtime
from pathways_worker.executor.callbacks import CallbackStandIn
from pathways_worker.executor.colocated import PythonProgram, is_colocated, load_colocated
from pathways_worker.executor.failures import Refused, failure_of
from pathways_worker.executor.images import make_image
from pathways_worker.executor.programs import Program, load_program


def carry_out(
    machine: runtime.Runtime,
    load: Any,
    stand_in: Callable[[int, Sequence[Any]], CallbackStandIn],
    ffi_targets: Mapping[str, bool],
    python: bool,
) -> tuple[Program | PythonProgram | None, Any]:
    """The program, or None if it was refused, and the Loaded that says so. Never raises for what the program is."""
    answer = workers_pb2.Loaded(executable_id=load.executable_id, epoch=load.epoch)
    program: Program | PythonProgram
    try:
        if is_colocated(load.program):
            program = load_colocated(machine, load, python)
        else:
            program = load_program(machine, load, stand_in, ffi_targets)
    except Refused as refusal:
        answer.failure.CopyFrom(refusal.failure)
        return None, answer
    except Exception as error:
        answer.failure.CopyFrom(failure_of(error, Reason.COMPILE_ERROR))
        return None, answer
    answer.info.CopyFrom(program.info)
    answer.reused = program.reused
    if isinstance(program, Program) and load.image_key and not program.reused and not program.callbacks:
        answer.image = make_image(machine, program.executable, len(load.program))
    return program, answer
