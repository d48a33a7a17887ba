"""What traced programs need of JAX that is not public: equations of a jaxpr, what they name, and how they are compiled.

Equations and variables are JAX's own objects and opaque to everybody else. Nothing here imports JAX before it is called.
"""

from __future__ import annotations

import functools
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pathways._call_text import callee

# What JAX calls functions that have no name of their own; the text of the call then says more.
_NAMELESS = ("<lambda>", "_fun", "<unnamed function>", "<unnamed wrapped function>")

# The primitive of branches and loops.
IRREGULAR = "pathways_irregular"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the user wrote a call, and what is called there."""

    file: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(slots=True)
class Flat:
    """A traced function: equations in order, the variables of arguments and results, and the value of every constant."""

    inputs: list[Any]
    results: list[Any]
    equations: list[Any]
    constants: dict[Any, Any]
    # By position of the equation: the inputs that the called function closes over.
    closed_over: dict[int, list[Any]]
    jaxpr: Any


def abstract(value: Any) -> Any:
    """Shape, type and weakness of an argument; raises TypeError if it is no array."""
    import jax
    from jax._src import core

    aval = core.shaped_abstractify(value)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def aval_key(value: Any) -> tuple[Any, ...]:
    """Equal for values that one trace serves."""
    from jax._src import core

    aval = core.shaped_abstractify(value)
    return aval.shape, aval.dtype, aval.weak_type


def tracing() -> bool:
    """Whether this thread is inside a transformation of JAX."""
    from jax._src import core

    return not core.trace_state_clean()


def trace_context() -> Any:
    """Everything in JAX's configuration that changes what a function is traced to."""
    from jax._src import config

    return config.trace_context()


def value_errors() -> tuple[type[Exception], ...]:
    """What JAX raises when the value of a traced array is asked for."""
    import jax

    return (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
        jax.errors.NonConcreteBooleanIndexError,
    )


@functools.cache
def own_frames_are_not_the_users() -> None:
    """Lets the places that are told be those of the user's code."""
    from jax._src import source_info_util

    source_info_util.register_exclusion(str(Path(__file__).parent) + "/")


def trace(function: Callable[..., Any], avals: Sequence[Any], hoist: Callable[[Any], bool]) -> Flat:
    """Traces a function of flat arguments. Constants that `hoist` wants leave inner jitted functions and become shared ones."""
    import jax

    own_frames_are_not_the_users()
    return flat_of(jax.make_jaxpr(function)(*avals), hoist)


def flat_of(closed: Any, hoist: Callable[[Any], bool]) -> Flat:
    """The same of a closed jaxpr."""
    jaxpr = closed.jaxpr
    constants = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    equations: list[Any] = []
    closed_over: dict[int, list[Any]] = {}
    lifting = _Constants(hoist, constants)
    for equation in jaxpr.eqns:
        lifted = lifting.lift(equation)
        if lifted is not equation:
            closed_over[len(equations)] = lifted.invars[len(equation.invars) :]
        equations.extend(_single_puts(lifted))
    _read_through_puts(equations, jaxpr.outvars)
    return Flat(list(jaxpr.invars), list(jaxpr.outvars), equations, constants, closed_over, closed)


class _Constants:
    """Takes wanted constants out of jitted functions; the same value becomes the same variable."""

    def __init__(self, hoist: Callable[[Any], bool], constants: dict[Any, Any]) -> None:
        self._hoist = hoist
        self._constants = constants
        self._variables = {id(value): variable for variable, value in constants.items()}

    def lift(self, equation: Any) -> Any:
        """The equation with what it closes over as further inputs; the same equation if that is nothing."""
        if is_irregular(equation):
            return self._lift_bodies(equation)
        if not is_jit(equation):
            return equation
        inner, values = _lifted(equation.params["jaxpr"], self._hoist)
        return _with_inputs(equation, inner, [self._variable(value) for value in values]) if values else equation

    def _lift_bodies(self, equation: Any) -> Any:
        invars, jaxprs, takes = list(equation.invars), [], []
        for closed, taken in zip(equation.params["jaxprs"], equation.params["takes"], strict=True):
            inner, values = _lifted(closed, self._hoist)
            jaxprs.append(inner)
            takes.append((*taken, *range(len(invars), len(invars) + len(values))))
            invars.extend(self._variable(value) for value in values)
        return equation.replace(invars=invars, params=dict(equation.params, jaxprs=tuple(jaxprs), takes=tuple(takes)))

    def _variable(self, value: Any) -> Any:
        from jax._src import core

        found = self._variables.get(id(value))
        if found is None:
            found = self._variables[id(value)] = core.Var(core.shaped_abstractify(value))
            self._constants[found] = value
        return found


# By the identity of a jitted function's jaxpr, so that two calls of one function stay recognisable as such.
_lifted_before: dict[int, tuple[Any, Any, list[Any]]] = {}
_LIFTED_MAX = 4096


def _lifted(closed: Any, hoist: Callable[[Any], bool]) -> tuple[Any, list[Any]]:
    """A closed jaxpr whose wanted constants are inputs at the end, and their values; nested jitted functions included."""
    before = _lifted_before.get(id(closed))
    if before is not None and before[0] is closed:
        return before[1], before[2]
    wanted = {var: value for var, value in zip(closed.jaxpr.constvars, closed.consts, strict=True) if hoist(value)}
    inner = _Constants(hoist, wanted)
    equations = [inner.lift(equation) for equation in closed.jaxpr.eqns]
    result, values = closed, list(wanted.values())
    if wanted:
        result = with_constants_as_inputs(closed, wanted, equations)
    if len(_lifted_before) > _LIFTED_MAX:
        _lifted_before.clear()
    _lifted_before[id(closed)] = closed, result, values
    return result, values


def with_constants_as_inputs(closed: Any, wanted: Iterable[Any], equations: list[Any]) -> Any:
    """A closed jaxpr with these equations, and with some variables as inputs at the end, be they constants of it or not."""
    jaxpr, added = closed.jaxpr, list(wanted)
    kept = {var: value for var, value in zip(jaxpr.constvars, closed.consts, strict=True) if var not in set(added)}
    debug = jaxpr.debug_info
    if debug.arg_names is not None:
        debug = debug._replace(arg_names=(*debug.arg_names, *["closed over"] * len(added)))
    changed = jaxpr.replace(constvars=list(kept), invars=[*jaxpr.invars, *added], eqns=equations, debug_info=debug)
    return closed.replace(jaxpr=changed, consts=list(kept.values()))


def _with_inputs(equation: Any, inner: Any, variables: list[Any]) -> Any:
    from jax._src.sharding_impls import UNSPECIFIED

    count = len(variables)
    params = dict(equation.params, jaxpr=inner)
    params["in_shardings"] = (*params["in_shardings"], *[UNSPECIFIED] * count)
    params["in_layouts"] = (*params["in_layouts"], *[None] * count)
    params["donated_invars"] = (*params["donated_invars"], *[False] * count)
    return equation.replace(invars=[*equation.invars, *variables], params=params)


def _single_puts(equation: Any) -> list[Any]:
    """A device_put of several values as one for each: they may go to different devices."""
    if equation.primitive.name != "device_put" or len(equation.invars) == 1:
        return [equation]
    each = ("devices", "srcs", "copy_semantics")
    return [
        equation.replace(
            invars=[equation.invars[at]],
            outvars=[equation.outvars[at]],
            params=dict(equation.params, **{name: (equation.params[name][at],) for name in each}),
        )
        for at in range(len(equation.invars))
    ]


def _read_through_puts(equations: list[Any], results: Iterable[Any]) -> None:
    """Lets functions read what was put on their devices from where it was before: a program moves by itself.

    Only functions that say themselves how they want it, so that nothing else changes; nobody then reads what was put.
    """
    puts = {each.outvars[0]: each for each in equations if each.primitive.name == "device_put" and shardings_named(each)}
    readers: dict[Any, list[int]] = {}
    for position, equation in enumerate(equations):
        for variable in read(equation):
            if variable in puts:
                readers.setdefault(variable, []).append(position)
    for variable in results:
        if literal(variable) is None:
            readers.pop(variable, None)
    for variable, positions in readers.items():
        put = puts[variable]
        if literal(put.invars[0]) is not None:
            continue
        devices = shardings_named(put)[0].device_set
        wanted = [wishes(equations[position]).read.get(variable) for position in positions]
        if all(wish is not None and wish.device_set == devices for wish in wanted):
            for position in positions:
                inputs = [put.invars[0] if each is variable else each for each in equations[position].invars]
                equations[position] = equations[position].replace(invars=inputs)


# ---- equations ------------------------------------------------------------------------------------------------------


def is_jit(equation: Any) -> bool:
    """Whether an equation calls a jitted function."""
    return bool(equation.primitive.name == "jit")


def is_users_function(equation: Any) -> bool:
    """Whether an equation calls a function that the user jitted; JAX jits many of its own, such as jnp.clip."""
    from jax._src import source_info_util

    if not is_jit(equation):
        return False
    file = equation.params["jaxpr"].jaxpr.debug_info.func_filename
    return file is None or source_info_util.is_user_filename(file)


def is_irregular(equation: Any) -> bool:
    """Whether an equation is a branch or a loop of pathways; see _jax_irregular."""
    return bool(equation.primitive.name == IRREGULAR)


def literal(variable: Any) -> tuple[Any] | None:
    """The value of a literal, in a tuple; None for a variable."""
    from jax._src import core

    return (variable.val,) if isinstance(variable, core.Literal) else None


def read(equation: Any) -> list[Any]:
    """The variables that an equation reads, each once."""
    return list(dict.fromkeys(variable for variable in equation.invars if literal(variable) is None))


def written(equation: Any) -> list[Any]:
    """The variables that an equation writes and something may read."""
    from jax._src import core

    return [variable for variable in equation.outvars if not isinstance(variable, core.DropVar)]


def has_effects(equation: Any) -> bool:
    """Whether it does more than to compute its results."""
    return bool(equation.effects)


def has_ordered_effects(equation: Any) -> bool:
    """Whether it does something whose order among others is promised."""
    from jax._src import effects

    return any(effects.ordered_effects.contains(effect) for effect in equation.effects)


def donated(equation: Any) -> set[Any]:
    """The variables that the called function donates."""
    if not is_jit(equation):
        return set()
    flags = equation.params["donated_invars"]
    return {variable for variable, flag in zip(equation.invars, flags, strict=True) if flag and literal(variable) is None}


def where(equation: Any) -> Place:
    """The innermost place outside JAX and outside this package, and the name of what is called there."""
    from jax._src import source_info_util

    name = str(equation.params.get("name") or equation.primitive.name)
    frame = source_info_util.user_frame(equation.source_info.traceback)
    if frame is None:
        return Place("<unknown>", 0, name)
    if name in _NAMELESS or name == "shard_map":
        text = callee(frame.file_name, frame.start_line, frame.start_column, frame.end_line, frame.end_column)
        name = text or {"_fun": "pmap"}.get(name, "lambda" if name in _NAMELESS else name)
    return Place(frame.file_name, frame.start_line, name)


def shardings_named(equation: Any) -> list[Any]:
    """Every sharding by which an equation says on which devices it runs."""
    import jax
    from jax._src import core, dispatch, linear_util
    from jax.sharding import Sharding

    if equation.primitive.name == "device_put":
        target = equation.params["devices"][0]
        if isinstance(target, jax.Device):
            return [jax.sharding.SingleDeviceSharding(target)]
        return [target] if isinstance(target, Sharding) else []
    found: list[Any] = []
    about = linear_util.DebugInfo("pathways", "equation", None, None)
    whole = core.Jaxpr([], [], [], [equation], debug_info=about)
    for sharding, _ in dispatch.get_intermediate_shardings(whole):
        if isinstance(sharding, Sharding) and _concrete(sharding):
            found.append(sharding)
    return found


def _concrete(sharding: Any) -> bool:
    try:
        return bool(sharding._device_assignment)
    except (AttributeError, ValueError):  # a mesh without devices
        return False


@dataclass(slots=True)
class Wishes:
    """The shardings that an equation demands for what it reads and writes, by variable."""

    read: dict[Any, Any] = field(default_factory=dict)
    written: dict[Any, Any] = field(default_factory=dict)


def wishes(equation: Any) -> Wishes:
    """What is said by the called function itself, or by a shard_map that it consists of."""
    from jax.sharding import Sharding

    found = Wishes()
    if equation.primitive.name == "device_put":
        targets = shardings_named(equation)
        return Wishes(_pairs(equation.invars, targets), _pairs(equation.outvars, targets)) if targets else found
    if equation.primitive.name == "shard_map":
        return _shard_map_wishes(equation)
    if equation.primitive.name == "sharding_constraint":
        return Wishes({}, _pairs(equation.outvars, [equation.params["sharding"]]))
    if not is_jit(equation):
        return found
    inner = equation.params["jaxpr"].jaxpr
    outer = dict(zip(inner.invars, equation.invars, strict=True))
    for nested in inner.eqns:
        if nested.primitive.name != "shard_map":
            continue
        said = _shard_map_wishes(nested)
        found.read.update({outer[var]: wish for var, wish in said.read.items() if var in outer and literal(outer[var]) is None})
        found.written.update(
            {mine: said.written[var] for var, mine in zip(inner.outvars, equation.outvars, strict=True)
             if literal(var) is None and var in said.written}
        )  # fmt: skip
    explicit = [[each if isinstance(each, Sharding) else None for each in equation.params[name]]
                for name in ("in_shardings", "out_shardings")]  # fmt: skip
    found.read.update(_pairs(equation.invars, explicit[0]))
    found.written.update(_pairs(equation.outvars, explicit[1]))
    return found


def _pairs(variables: Iterable[Any], shardings: Iterable[Any]) -> dict[Any, Any]:
    return {
        var: wish
        for var, wish in zip(variables, shardings, strict=True)
        if wish is not None and literal(var) is None and _concrete(wish)
    }


def _shard_map_wishes(equation: Any) -> Wishes:
    from jax.sharding import Mesh, NamedSharding

    mesh = equation.params["mesh"]
    if not isinstance(mesh, Mesh) or set(equation.params["newly_manual_axes"]) != set(mesh.axis_names):
        return Wishes()
    return Wishes(
        _pairs(equation.invars, [NamedSharding(mesh, spec) for spec in equation.params["in_specs"]]),
        _pairs(equation.outvars, [NamedSharding(mesh, spec) for spec in equation.params["out_specs"]]),
    )


# ---- values and trees -----------------------------------------------------------------------------------------------


def host_value(value: Any, variable: Any) -> Any:
    """The value of a literal, of the type of the literal."""
    import numpy as np

    return np.asarray(value, variable.aval.dtype)


def constant_array(value: Any, variable: Any) -> Any:
    """A value as an array that a program returns: arrays stay what they are."""
    import jax
    import numpy as np

    if isinstance(value, jax.Array):
        return value
    return jax.numpy.asarray(np.asarray(value) if variable is not None and not variable.aval.weak_type else value)


def place_of_error(error: BaseException) -> Place:
    """The innermost place in the user's own code that an exception passed, and the name of the function there."""
    import numpy as np
    from jax._src import source_info_util

    others = str(Path(np.__file__).parent)
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if source_info_util.is_user_filename(frame.filename) and not frame.filename.startswith(others):
            return Place(frame.filename, frame.lineno or 0, frame.name)
    return Place("<unknown>", 0, "<unknown>")


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of a tree and its structure."""
    import jax

    return jax.tree.flatten(tree)  # type: ignore[no-any-return]


def unflatten(structure: Any, leaves: Sequence[Any]) -> Any:
    """The tree of these leaves."""
    import jax

    return jax.tree.unflatten(structure, leaves)


def is_array(value: Any) -> bool:
    """Whether a value is an array of JAX, traced or not."""
    import jax

    return isinstance(value, jax.Array)


def is_value(value: Any) -> bool:
    """Whether a function under JAX may return this."""
    from jax._src import core

    return bool(core.valid_jaxtype(value))
