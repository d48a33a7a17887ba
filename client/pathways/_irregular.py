"""`pw.while_loop`, `pw.cond`, `pw.counted`: what runs next depends on a value that something before it computed.

In a program they become nodes that the cluster carries out by itself; elsewhere they read the value and go on in Python, so
that a function gives the same numbers with and without `pw.program`. Their bodies call functions on slices, as programs do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from pathways import _jax_irregular as ji
from pathways import _jax_programs as jp
from pathways import errors
from pathways._blocks import BRANCH, LOOP

ITERATIONS_MAX = (1 << 63) - 1


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init: Any, *, max_iterations: int) -> Any:
    """Runs `value = body_fun(value)` from `init` on as long as `cond_fun(value)` is true; returns the last value.

    As jax.lax.while_loop, but the bodies may call functions on any slices. `value` is a tree of arrays whose structure, shapes
    and types stay the same. Others get their turn between iterations, and a loop that is cancelled ends there.

        while_loop(lambda c: c[1] > 1e-3, lambda c: (c[0] + 1, step(c[1])), (0, x), max_iterations=1000)

    Raises errors.ExecutionError with the user's file and line if `max_iterations` did not end it; of a program, its results do.
    """
    called = _called("while_loop")
    most = _whole_number(max_iterations, "max_iterations", called)
    if not 1 <= most <= ITERATIONS_MAX:
        raise errors.InvalidArgumentError(f"{called} was given max_iterations={most}; it must be at least 1")
    leaves, structure = jp.flatten(init)
    _check_values(leaves, called, "init")
    if not leaves:
        raise errors.InvalidArgumentError(f"{called} was given no arrays as init; a loop without any never changes its mind")
    if ji.called_in() == ji.EAGER:
        return _loop_here(cond_fun, body_fun, leaves, structure, most, called)

    def flat(function: Callable[[Any], Any]) -> Callable[..., Any]:
        return lambda *values: function(jp.unflatten(structure, values))

    shapes = [jp.abstract(leaf) for leaf in leaves]
    body = ji.trace_body(flat(body_fun), shapes)
    _check_carried(body.structure, body.shapes, structure, shapes, called)
    strong = [_strong(shape, like) for shape, like in zip(shapes, body.shapes, strict=True)]
    if strong != shapes:
        # As in jax.lax, a type that came of a Python number gives way to the one that the body returns.
        shapes, body = strong, ji.trace_body(flat(body_fun), strong)
        _check_carried(body.structure, body.shapes, structure, shapes, called)
    condition = ji.trace_body(flat(cond_fun), shapes)
    if [(shape.shape, shape.dtype.name) for shape in condition.shapes] != [((), "bool")]:
        raise errors.InvalidArgumentError(
            f"the condition of {called} returns {_types(condition.shapes)}; it must return one boolean scalar, bool[]"
        )
    results = ji.bind(LOOP, "while_loop", [condition, body], ["while", "do"], leaves, 0, shapes, max_iterations=most)
    return jp.unflatten(structure, results)


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """Returns `true_fun(*operands)` if `pred` is true (or a number other than 0), else `false_fun(*operands)`.

    As jax.lax.cond, but the two may call functions on any slices, and only one of them runs. Both return the same structure of
    arrays of the same shapes and types.
    """
    called = _called("cond")
    _check_scalar(pred, called, "a predicate", "a boolean or a number")
    if not jp.is_array(pred) or ji.called_in() == ji.EAGER:
        return _as_arrays((true_fun if bool(pred) else false_fun)(*operands))
    index = pred if pred.dtype == bool else pred != 0
    return _branch("cond", called, index, [false_fun, true_fun], ["if false", "if true"], operands)


def counted(fun: Callable[..., Any], padded: Any, count: Any, *operands: Any, smallest: int = 1) -> Any:
    """Returns `fun(padded[:b], count, *operands)` for the smallest b that holds `count` rows: a power of two, or all of them.

    For functions that return an array padded to a maximum together with how much of it counts: what follows is compiled once for
    each b, from `smallest` (a power of two, for functions that want a number of rows) to the length of `padded`, and the one that
    fits is chosen when `count` is there. `fun` returns the same structure, shapes and types for all of them.
    """
    called = _called("counted")
    _check_scalar(count, called, "a count", "a whole number", "iu")
    _check_values([padded], called, "the padded array")
    if not jp.abstract(padded).shape:
        raise errors.InvalidArgumentError(f"{called} was given a scalar as the padded array; it must have rows to count")
    size = jp.abstract(padded).shape[0]
    first = _whole_number(smallest, "smallest", called)
    if first < 1 or first & (first - 1):
        raise errors.InvalidArgumentError(f"{called} was given smallest={first}; it must be a power of two")
    limits = [each for each in (1 << power for power in range(63)) if first <= each < size] + [size]

    def of(limit: int) -> Callable[..., Any]:
        return lambda rows, number, *others: fun(rows[:limit], number, *others)

    if not jp.is_array(count) or ji.called_in() == ji.EAGER:
        number = int(count)
        if number > size:
            raise errors.ExecutionError(f"{called} got count {number}, and the padded array has {size} rows")
        return _as_arrays(of(next(limit for limit in limits if number <= limit))(padded, count, *operands))
    labels = [f"up to {limit}" for limit in limits]
    return _branch("counted", called, count, [of(limit) for limit in limits], labels, (padded, count, *operands), limits)


def _branch(
    name: str,
    called: str,
    index: Any,
    functions: Sequence[Callable[..., Any]],
    labels: Sequence[str],
    operands: tuple[Any, ...],
    limits: Sequence[int] = (),
) -> Any:
    leaves, structure = jp.flatten(operands)
    _check_values(leaves, called, "operands")
    shapes = [jp.abstract(leaf) for leaf in leaves]

    def flat(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *values: function(*jp.unflatten(structure, values))

    bodies = [ji.trace_body(flat(function), shapes) for function in functions]
    first = bodies[0]
    for body, label in zip(bodies[1:], labels[1:], strict=True):
        if body.structure != first.structure or not _same_types(body.shapes, first.shapes):
            raise errors.InvalidArgumentError(
                f"{called} returns {_types(first.shapes)} ({labels[0]}) and {_types(body.shapes)} ({label}); all of its "
                "functions must return the same structure of arrays of the same shapes and types"
            )
    if not first.shapes:
        raise errors.InvalidArgumentError(f"{called} returns no arrays; let its functions return what they compute")
    # A result is as weak as a Python number only if it is so whatever is chosen.
    together = zip(*(body.shapes for body in bodies), strict=True)
    results = [next((one for one in each if not one.weak_type), each[0]) for each in together]
    return jp.unflatten(first.structure, ji.bind(BRANCH, name, bodies, labels, [index, *leaves], 1, results, limits))


def _loop_here(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], leaves: list[Any], structure: Any, most: int, called: str
) -> Any:
    value = _as_arrays(jp.unflatten(structure, leaves))
    shapes = [jp.abstract(leaf) for leaf in jp.flatten(value)[0]]
    for _ in range(most):
        if not bool(cond_fun(value)):
            return value
        value = _as_arrays(body_fun(value))
        new, after = jp.flatten(value)
        _check_carried(after, [jp.abstract(leaf) for leaf in new], structure, shapes, called)
    if bool(cond_fun(value)):
        raise errors.ExecutionError(f"{called} did not end within max_iterations={most}; give it more, or look at its condition")
    return value


def _as_arrays(tree: Any) -> Any:
    leaves, structure = jp.flatten(tree)
    return jp.unflatten(structure, [jp.constant_array(leaf, None) if jp.is_value(leaf) else leaf for leaf in leaves])


def _called(name: str) -> str:
    """The call in words. Raises errors.UnsupportedError where it cannot be carried out."""
    called = f"pw.{name}, called at {ji.caller()},"
    if ji.called_in() == ji.TRANSFORMED:
        raise errors.UnsupportedError(
            f"{called} is inside a function that JAX transforms (jit, grad, vmap, lax control flow); call it in the program "
            "itself or in a body of pw.while_loop, pw.cond or pw.counted, and use jax.lax inside jitted functions"
        )
    return called


def _check_values(leaves: Sequence[Any], called: str, what: str) -> None:
    for leaf in leaves:
        if not jp.is_value(leaf):
            raise errors.InvalidArgumentError(f"{called} was given {type(leaf).__name__} as {what}, which is no array")


def _check_scalar(value: Any, called: str, what: str, wanted: str, kinds: str = "biuf") -> None:
    shape = jp.abstract(value) if jp.is_value(value) else None
    if shape is None or shape.shape or shape.dtype.kind not in kinds:
        given = _types([shape]) if shape is not None else type(value).__name__
        raise errors.InvalidArgumentError(f"{called} was given {given} as {what}; it must be {wanted} without dimensions")


def _check_carried(structure: Any, shapes: Sequence[Any], wanted: Any, before: Sequence[Any], called: str) -> None:
    if structure != wanted or not _same_types(shapes, before):
        raise errors.InvalidArgumentError(
            f"the body of {called} takes {_types(before)} and returns {_types(shapes)}; it must return the same structure of "
            "arrays of the same shapes and types"
        )


def _same_types(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return [(each.shape, each.dtype) for each in some] == [(each.shape, each.dtype) for each in others]


def _strong(shape: Any, like: Any) -> Any:
    return shape.update(weak_type=False) if shape.weak_type and not like.weak_type else shape


def _whole_number(value: Any, name: str, called: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise errors.InvalidArgumentError(f"{called} was given {name}={value!r}; it must be a whole number") from None


def _types(shapes: Sequence[Any]) -> str:
    return "(" + ", ".join(f"{shape.dtype.name}[{','.join(map(str, shape.shape))}]" for shape in shapes) + ")"
