"""Compiles the nodes of a program: one executable for every distinct computation, devices and shardings.

Shardings that a node leaves open are those of its inputs where these lie on the same devices, as in plain JAX, and else XLA's
choice. Arguments of the program are asked how they lie only then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pathways import _jax_nodes as jn
from pathways import _jax_programs as jp
from pathways._blocks import BRANCH, Block, Scope, wishes_of


@dataclass(slots=True, eq=False)
class Executable:
    """A compiled node: what it takes and returns, and how that lies. `kept` holds what its key is made of.

    `function` and `options` are what it was compiled from, `donate` the positions that it gives up; `text_bytes` is the size of
    its StableHLO, 0 if it does more than to compute its results.
    """

    compiled: Any
    parameters: list[Any]
    parameter_shardings: list[Any]
    results: list[Any]
    result_shardings: list[Any]
    kept: list[Any]
    function: Callable[..., list[Any]]
    donate: tuple[int, ...]
    options: dict[str, Any]
    text_bytes: int


class Compiler:
    """Compiles blocks, and remembers what it compiled by what it is. Not for several threads at once."""

    def __init__(self) -> None:
        self._made: dict[Any, Executable] = {}

    def compile(self, equations: Sequence[Any], blocks: Sequence[Block], lies: Callable[[Any], Any]) -> dict[Block, Executable]:
        """One executable for each block, those of bodies included. `lies(variable)` is the sharding of an argument, or None."""
        known: dict[Any, Any] = {}
        done: dict[Block, Executable] = {}
        for block in blocks:
            if block.irregular is None:
                executable = done[block] = self._executable(block, equations, known, lies)
                known.update(zip(block.outputs, executable.result_shardings, strict=True))
                continue
            known.update(zip(block.outputs, block.irregular.returned, strict=True))
            for scope in block.irregular.scopes:
                if block.irregular.kind == BRANCH:
                    _stay(scope, block.inputs[block.irregular.first :], known)
                done.update(self.compile(scope.equations, scope.blocks, scope.lies.get))
        return done

    def _executable(
        self, block: Block, around: Sequence[Any], known: Mapping[Any, Any], lies: Callable[[Any], Any]
    ) -> Executable:
        inputs = block.inputs
        said = wishes_of(block, around)
        equations = [around[position] for position in sorted(block.members)]
        wanted_inputs = [said.read.get(var) or _same_devices(known.get(var) or lies(var), block.devices) for var in inputs]
        wanted_outputs = [said.written.get(var) or block.demands.get(var) for var in block.outputs]
        donated = set().union(*(jp.donated(each) for each in equations))
        donate = [position for position, variable in enumerate(inputs) if variable in donated]
        if len(block.devices) == 1:
            only = _single(block.devices[0])
            wanted_inputs = [each or only for each in wanted_inputs]
            wanted_outputs = [each or only for each in wanted_outputs]
        shardings = (*wanted_inputs, None, *wanted_outputs)
        key = _key(equations, block, shardings, tuple(donate))
        found = self._made.get(key) if key is not None else None
        if found is None:
            found = self._compiled(block, equations, wanted_inputs, wanted_outputs, donate)
            if key is not None:
                self._made[key] = found
        return found

    def _compiled(
        self, block: Block, equations: list[Any], wanted_inputs: list[Any], wanted_outputs: list[Any], donate: list[int]
    ) -> Executable:
        function = jn.function_of(equations, block.inputs, block.outputs, block.constants, block.place.name)
        parameters = [jn.shape_of(variable) for variable in block.inputs]
        lowered, text = jn.lower_node(function, parameters, wanted_inputs, wanted_outputs, donate)
        options = jn.compiler_options(equations)
        # JAX traces a function anew for arrays of another mesh, though it may become the same program.
        key = (text, tuple(sorted(options.items())), block.devices, *wanted_inputs, None, *wanted_outputs)
        found = self._made.get(key) if text is not None else None
        if found is None:
            compiled, taken, returned = jn.compile_node(lowered, options)
            results = [jn.shape_of(variable) for variable in block.outputs]
            pure = text is not None and not any(jp.has_effects(each) for each in equations)
            size = len(text) if text is not None and pure else 0
            found = Executable(compiled, parameters, taken, results, returned, [], function, tuple(donate), options, size)
            if text is not None:
                self._made[key] = found
        # Keys hold identities of what equations are made of.
        found.kept.append((equations, block.constants))
        return found


def _stay(scope: Scope, given: Sequence[Any], known: Mapping[Any, Any]) -> None:
    """Lets values that a body takes and no node of it reads lie as they do, so that nothing moves them."""
    read = {variable for block in scope.blocks for variable in block.inputs}
    for argument, operand in zip(scope.arguments, given, strict=True):
        if argument not in read and operand in known:
            scope.lies[argument] = known[operand]


def _same_devices(sharding: Any, devices: tuple[Any, ...]) -> Any:
    return sharding if sharding is not None and jn.device_order(sharding) == devices else None


def _single(device: Any) -> Any:
    from jax.sharding import SingleDeviceSharding

    return SingleDeviceSharding(device)


def _key(equations: list[Any], block: Block, shardings: tuple[Any, ...], donate: tuple[int, ...]) -> Any:
    """Equal for blocks that one executable serves; None if that cannot be said."""
    numbers: dict[Any, int] = {}

    def number(variable: Any) -> Any:
        if variable in block.constants:
            return "constant", id(block.constants[variable])
        return numbers.setdefault(variable, len(numbers)), variable.aval

    order = tuple(number(variable) for variable in block.inputs)
    body = tuple(jn.equation_key(equation, number) for equation in equations)
    key = (order, body, tuple(number(variable) for variable in block.outputs), shardings, block.devices, donate, block.place.name)
    try:
        hash(key)
    except TypeError:
        return None
    return key
