"""What branches and loops need of JAX that is not public: a primitive that holds bodies, and where in a trace one is.

A body is a closed jaxpr. What it closes over of the trace around it becomes an operand; all operands of one equation stand in one
list, and `takes` says for every body which of them it takes. Nothing here imports JAX before it is called.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pathways import _jax_programs as jp

EAGER, PROGRAM, TRANSFORMED = "eager", "program", "transformed"

_here = threading.local()


@dataclass(slots=True, eq=False)
class Body:
    """A traced body: it takes its arguments, then the tracers in `closed_over`. `shapes` are those of its results."""

    closed: Any
    closed_over: list[Any]
    structure: Any
    shapes: list[Any]


def recorded(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; while it is traced, branches and loops that it calls itself become nodes."""

    def run(*arguments: Any) -> Any:
        from jax._src import core

        before = getattr(_here, "trace", None)
        _here.trace = core.trace_ctx.trace
        try:
            return function(*arguments)
        finally:
            _here.trace = before

    return run


def called_in() -> str:
    """EAGER outside of every trace, PROGRAM in that of a program or body, TRANSFORMED inside of anything else."""
    from jax._src import core

    if core.trace_state_clean():
        return EAGER
    return PROGRAM if core.trace_ctx.trace is getattr(_here, "trace", None) else TRANSFORMED


def caller() -> jp.Place:
    """Where the user's code is now."""
    from jax._src import source_info_util

    jp.own_frames_are_not_the_users()
    frame = source_info_util.user_frame(source_info_util.current().traceback)
    return jp.Place("<unknown>", 0, "") if frame is None else jp.Place(frame.file_name, frame.start_line, frame.function_name)


def is_tracer(value: Any) -> bool:
    """Whether a value is known only when the program has run."""
    from jax._src import core

    return isinstance(value, core.Tracer)


def trace_body(function: Callable[..., Any], avals: Sequence[Any]) -> Body:
    """Traces a body, a function of flat arguments that returns a tree."""
    import jax

    structures: list[Any] = []

    def flat(*leaves: Any) -> list[Any]:
        results, structure = jp.flatten(function(*leaves))
        structures.append(structure)
        return results

    closed = jax.make_jaxpr(recorded(flat))(*avals)
    tracers = {var: value for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True) if is_tracer(value)}
    if tracers:
        closed = jp.with_constants_as_inputs(closed, tracers, list(closed.jaxpr.eqns))
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype, weak_type=each.weak_type) for each in closed.out_avals]
    return Body(closed, list(tracers.values()), structures[-1], shapes)


def bind(
    kind: str,
    name: str,
    bodies: Sequence[Body],
    labels: Sequence[str],
    operands: Sequence[Any],
    first: int,
    shapes: Sequence[Any],
    limits: Sequence[int] = (),
    max_iterations: int = 0,
) -> list[Any]:
    """Puts a branch or a loop into the trace; the bodies take the operands from `first` on. Returns the results, flat."""
    from jax._src import core

    given = list(operands)
    taken = tuple(range(first, len(operands)))
    takes = []
    for body in bodies:
        positions = []
        for value in body.closed_over:
            found = next((at for at in range(len(operands), len(given)) if given[at] is value), len(given))
            if found == len(given):
                given.append(value)
            positions.append(found)
        takes.append((*taken, *positions))
    return list(
        _primitive().bind(
            *given,
            kind=kind,
            name=name,
            jaxprs=tuple(body.closed for body in bodies),
            takes=tuple(takes),
            labels=tuple(labels),
            limits=tuple(limits),
            max_iterations=max_iterations,
            results=tuple(core.ShapedArray(shape.shape, shape.dtype, weak_type=shape.weak_type) for shape in shapes),
        )
    )


@functools.cache
def _primitive() -> Any:
    from jax._src import core

    primitive = core.Primitive(jp.IRREGULAR)
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda *_, results, **__: list(results))
    return primitive


def new_variable(variable: Any) -> Any:
    """A variable like this one, or like this literal."""
    from jax._src import core

    return core.Var(variable.aval)


def put(variable: Any) -> Any:
    """An equation that gives a variable or a literal a name of its own, wherever it is placed."""
    equation = _put_equation()
    return equation.replace(invars=[variable], outvars=[new_variable(variable)])


@functools.cache
def _put_equation() -> Any:
    import jax

    return jax.make_jaxpr(jax.device_put)(0.0).eqns[0]


def first_devices_named(closed: Any) -> tuple[Any, ...]:
    """The devices that the first function of a jaxpr names that names any, bodies of its branches and loops included."""
    for equation in closed.jaxpr.eqns:
        if jp.is_irregular(equation):
            found = next((devices for each in equation.params["jaxprs"] if (devices := first_devices_named(each))), ())
        else:
            found = next((tuple(each._device_assignment) for each in jp.shardings_named(equation)), ())
        if found:
            return found
    return ()


def whole_on(devices: Sequence[Any]) -> Any:
    """The sharding that gives every device everything."""
    import jax
    import numpy as np

    if len(devices) == 1:
        return jax.sharding.SingleDeviceSharding(devices[0])
    return jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(devices), ("all",)), jax.sharding.PartitionSpec())


def lie_alike(one: Any, other: Any, rank: int) -> bool:
    """Whether two shardings lay a value out in the same way."""
    return tuple(one._device_assignment) == tuple(other._device_assignment) and bool(one.is_equivalent_to(other, rank))
