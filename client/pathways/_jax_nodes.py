"""What traced programs need of JAX that is not public, second part: nodes are compiled, laid out and run.

Equations and variables are JAX's own objects. Nothing here imports JAX before it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pathways import _jax_programs as jp


def shape_of(variable: Any) -> Any:
    """Shape, type and weakness of a variable."""
    import jax

    aval = variable.aval
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def equation_key(equation: Any, number: Callable[[Any], Any]) -> tuple[Any, ...]:
    """Equal for equations that compute the same of what `number` says of their variables; may be unhashable."""
    inputs = tuple(number(var) if jp.literal(var) is None else ("literal", _literal_key(var)) for var in equation.invars)
    outputs = tuple(number(var) for var in equation.outvars)
    # A jaxpr is recognised by its identity; whoever keeps the key keeps the equation.
    params = tuple(
        (name, id(value) if type(value).__name__ in ("ClosedJaxpr", "Jaxpr") else value)
        for name, value in equation.params.items()
    )
    return equation.primitive, equation.ctx, params, inputs, outputs


def _literal_key(variable: Any) -> tuple[Any, ...]:
    import numpy as np

    value = np.asarray(variable.val)
    return variable.aval.dtype, value.shape, value.tobytes()


def function_of(
    equations: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], constants: dict[Any, Any], name: str
) -> Callable[..., list[Any]]:
    """A Python function that does what the equations say. A single call of a jitted function becomes that function itself."""
    from jax._src import core, linear_util

    if len(equations) == 1 and jp.is_jit(equations[0]):
        call = equations[0]
        inner = call.params["jaxpr"]

        def run(*arguments: Any) -> list[Any]:
            known = {**constants, **dict(zip(inputs, arguments, strict=True))}
            values = [known[var] if jp.literal(var) is None else var.val for var in call.invars]
            results = dict(zip(call.outvars, core.eval_jaxpr(inner.jaxpr, inner.consts, *values), strict=True))
            return [results[var] for var in outputs]
    else:
        plain = [each for each in equations if each.primitive.name != "device_put"]
        alias = {each.outvars[0]: each.invars[0] for each in equations if each.primitive.name == "device_put"}

        def aliased(var: Any) -> Any:
            while jp.literal(var) is None and var in alias:
                var = alias[var]
            return var

        rewritten = [each.replace(invars=[aliased(var) for var in each.invars]) for each in plain]
        effects = set().union(*(each.effects for each in plain))
        about = linear_util.DebugInfo("pathways node", name, None, None)
        jaxpr = core.Jaxpr(list(constants), list(inputs), [aliased(var) for var in outputs], rewritten, effects, about)
        values = list(constants.values())

        def run(*arguments: Any) -> list[Any]:
            return list(core.eval_jaxpr(jaxpr, values, *arguments))

    run.__name__ = run.__qualname__ = "".join(letter if letter.isalnum() else "_" for letter in name) or "node"
    return run


def lower_node(
    function: Callable[..., list[Any]],
    shapes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    donate: Sequence[int],
) -> tuple[Any, str | None]:
    """Lowers a function of flat arguments for the shardings given (None: XLA chooses).

    The text is equal for functions that compute the same; None if that cannot be said, because it calls back into Python.
    """
    import jax

    jitted = jax.jit(
        function,
        in_shardings=tuple(inputs) if shapes else None,
        out_shardings=list(outputs),
        donate_argnums=tuple(donate),
        keep_unused=True,
    )
    lowered = jitted.lower(*shapes)
    text = str(lowered.as_text())
    return lowered, None if "callback" in text else text


def lower_calls(
    calls: Sequence[tuple[Any, Sequence[int | tuple[int, int]]]],
    shapes: Sequence[Any],
    inputs: Sequence[Any],
    results: Sequence[tuple[int, int]],
    outputs: Sequence[Any],
    donate: Sequence[int],
) -> Any:
    """Lowers calls of executables, one after the other, to one function whose callees are compiled each for itself.

    A call is an executable of _nodes.py and where its arguments come from: a position among the inputs, or (call, output).
    """
    import jax

    jitted: dict[Any, Any] = {}
    for executable, _ in calls:
        if executable not in jitted:
            jitted[executable] = jax.jit(
                executable.function,
                in_shardings=tuple(executable.parameter_shardings) if executable.parameters else None,
                out_shardings=list(executable.result_shardings),
                keep_unused=True,
            )

    def fused(*arguments: Any) -> list[Any]:
        made: list[list[Any]] = []
        for executable, sources in calls:
            given = [arguments[each] if isinstance(each, int) else made[each[0]][each[1]] for each in sources]
            made.append(jitted[executable](*given))
        return [made[call][output] for call, output in results]

    whole = jax.jit(
        fused,
        in_shardings=tuple(inputs) if shapes else None,
        out_shardings=list(outputs),
        donate_argnums=tuple(donate),
        keep_unused=True,
    )
    lowered = whole.lower(*shapes)
    _keep_calls_apart(lowered)
    return lowered


# What may stand between calls: nothing that computes.
_MARKS = ("func.return", "sdy.sharding_constraint")


def _keep_calls_apart(lowered: Any) -> None:
    """Without it XLA would put callees into the caller and fuse their operations across, which may change the last bits.

    An optimization barrier is no help: XLA takes those out before it fuses. Raises ValueError if something is computed between
    the calls.
    """
    from jax._src.lib.mlir import ir

    module = lowered._lowering._hlo
    with module.context:
        apart = ir.DictAttr.get({"inlineable": ir.StringAttr.get("false")})
        for function in module.body.operations:
            if function.attributes["sym_name"].value == "main":
                for operation in (each.operation for each in function.regions[0].blocks[0].operations):
                    if operation.name == "func.call":
                        operation.attributes["mhlo.frontend_attributes"] = apart
                    elif operation.name not in _MARKS:
                        raise ValueError(f"{operation.name} stands between the calls of a group")


def compile_node(lowered: Any, options: dict[str, Any]) -> tuple[Any, list[Any], list[Any]]:
    """Compiles what was lowered; the shardings of what it takes and of what it returns come back."""
    compiled = lowered.compile(compiler_options=options or None)
    taken, _ = compiled.input_shardings
    return compiled, list(taken), list(compiled.output_shardings)


def compiler_options(equations: Iterable[Any]) -> dict[str, Any]:
    """The compiler options of the jitted functions called."""
    options: dict[str, Any] = {}
    for equation in equations:
        if jp.is_jit(equation):
            options.update(dict(equation.params["compiler_options_kvs"]))
    return options


# ---- layouts and runs -----------------------------------------------------------------------------------------------


def physical(shape: Any, sharding: Any) -> tuple[Any, Any]:
    """What is stored of a value and how that lies: random keys are arrays of words, everything else is itself."""
    import jax
    from jax._src import core
    from jax._src.sharding_impls import physical_sharding

    if not jax.dtypes.issubdtype(shape.dtype, jax.dtypes.extended):
        return shape, sharding
    aval = core.ShapedArray(shape.shape, shape.dtype)
    return core.physical_aval(aval), physical_sharding(aval, sharding)


def stored(array: Any) -> Any:
    """The array that is stored for an array: that of a random key holds its words."""
    return getattr(array, "_base_array", array)


def device_order(sharding: Any) -> tuple[Any, ...]:
    """The devices of a sharding in the order of its shards."""
    return tuple(sharding._device_assignment)


def op_sharding(sharding: Any, rank: int) -> bytes:
    """The serialized xla.OpSharding over positions in the device list; empty if every device has everything."""
    if len(sharding._device_assignment) == 1:
        return b""
    cut = sharding._to_xla_hlo_sharding(rank)
    return b"" if cut.is_replicated() else bytes(cut.to_proto().SerializeToString())


def memory_kind(sharding: Any) -> str:
    """The kind of memory; empty for the default of its devices."""
    kind = sharding.memory_kind
    if kind is None or kind == sharding._device_assignment[0].default_memory().kind:
        return ""
    return str(kind)


def is_committed(array: Any) -> bool:
    """Whether an array insists on its devices."""
    return bool(array.committed)


def load_plugin_program(client: Any, text: str) -> Any:
    """Compiles a plugin program; raises what JAX raises."""
    from jax.extend.ifrt_programs import ifrt_programs

    return client.compile_ifrt_program(ifrt_programs.make_plugin_program(text), ifrt_programs.make_plugin_compile_options())


def result_makers(shapes: Sequence[Any], shardings: Sequence[Any]) -> Any:
    """What makes arrays of the results of a plugin program."""
    from jax._src import core
    from jax._src.interpreters import pxla

    avals = [core.ShapedArray(shape.shape, shape.dtype, weak_type=shape.weak_type) for shape in shapes]
    return pxla.global_avals_to_results_handler(avals, tuple(shardings), True).handlers


def park(loaded: Any, arrays: Sequence[Any], launch_id: int) -> None:
    """Executes a plugin program that returns nothing."""
    loaded.execute_sharded(list(arrays), with_tokens=False, launch_id=launch_id)


def launch(loaded: Any, arrays: Sequence[Any], makers: Any, launch_id: int | None = None) -> list[Any]:
    """Executes a plugin program and makes arrays of what it returns. `launch_id`: that of its feeds; not before jaxlib 0.10."""
    fed = {} if launch_id is None else {"launch_id": launch_id}
    results = loaded.execute_sharded(list(arrays), with_tokens=False, **fed)
    return list(results.consume_with_handlers(makers))
