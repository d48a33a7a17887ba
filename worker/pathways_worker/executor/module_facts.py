"""What the executor reads from a StableHLO module before it compiles it: name, global types of `main`, custom calls.

Global output shapes come from here: shard shape times tiles is wrong for unreduced shardings.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pathways_common.model.failure import Reason

from pathways_worker.executor import module_limits as limits
from pathways_worker.executor import runtime
from pathways_worker.executor.custom_calls import CALLBACK_TARGETS, CustomCall
from pathways_worker.executor.element_types import MLIR_NUMBERS, TOKEN
from pathways_worker.executor.failures import refuse

_SHARDING = "mhlo.sharding"
# Operations that name functions which XLA writes out in their place.
_CALLING = frozenset({"func.call", "call", "stablehlo.composite", "stablehlo.custom_call"})
_TENSOR = re.compile(r"tensor<((?:\d+x)*)([a-zA-Z0-9]+(?:<[^>]*>)?)")


@dataclass(frozen=True, slots=True)
class GlobalType:
    """Type of a value of the module: a PrimitiveType number and a shape in elements."""

    dtype: int
    shape: tuple[int, ...]


@dataclass(slots=True)
class ModuleFacts:
    """`callback_results`: result types of the custom call by callback index, tokens included."""

    name: str = ""
    parameters: tuple[GlobalType, ...] = ()
    results: tuple[GlobalType, ...] = ()
    custom_calls: list[CustomCall] = field(default_factory=list)
    callback_results: dict[int, tuple[GlobalType, ...]] = field(default_factory=dict)


def global_type(text: str) -> GlobalType:
    """Reads `tensor<4x8xf32>` or `!stablehlo.token`; refuses dynamic and unknown types."""
    if text == "!stablehlo.token":
        return GlobalType(TOKEN, ())
    match = _TENSOR.match(text)
    number = MLIR_NUMBERS.get(match.group(2)) if match else None
    if match is None or number is None:
        raise refuse(Reason.UNSUPPORTED, f"the program has a value of type {text}, which executors do not support", type=text)
    return GlobalType(number, tuple(int(part) for part in match.group(1).split("x") if part))


def _callback_index(operation: Any) -> int | None:
    """The one index that a callback names, wherever it stands; None if there is none or the places differ."""
    entries = [runtime.integer_entries(operation, name, "index") for name in ("mhlo.backend_config", "backend_config")]
    if any(values is None for values in entries):
        return None
    found = {value for values in entries for value in values or ()}
    return found.pop() if len(found) == 1 else None


def read_module(module: Any) -> ModuleFacts:
    """Walks a module once. Refuses what would end the process that compiles it; see module_limits.py."""
    facts = ModuleFacts()
    facts.name = runtime.string_attribute(module.operation, "sym_name")
    functions = limits.Functions()
    known: set[Any] = set()
    inside = ""
    for operation, depth in runtime.operations(module):
        limits.check_depth(depth)
        name = operation.name
        for result in operation.results:
            _check_type(result.type, known)
        if name == "func.func":
            inside = _read_function(operation, facts, functions, known)
            continue
        if depth > 1 and inside:
            functions.count(inside)
            for callee in runtime.callees(operation) if name in _CALLING else ():
                functions.call(inside, callee)
        if name.endswith("custom_call"):
            _read_custom_call(operation, facts)
        elif name in limits.QUEUES:
            sentence = f"the program waits for {name.partition('.')[2]}, which nobody serves here; use arguments and results"
            raise refuse(Reason.PROGRAM_REFUSED, sentence)
    functions.check()
    for kind in (*facts.parameters, *facts.results):
        limits.check_border(kind.shape)
    return facts


def _read_function(operation: Any, facts: ModuleFacts, functions: limits.Functions, known: set[Any]) -> str:
    name = runtime.string_attribute(operation, "sym_name")
    function_type = operation.opview.type
    for kind in function_type.inputs:
        _check_type(kind, known)
    functions.add(name, bool(len(operation.regions[0].blocks)))
    for sharding in runtime.argument_strings(operation, _SHARDING):
        limits.check_sharding(sharding, is_mark=False)
    if name == "main":
        facts.parameters = tuple(global_type(str(kind)) for kind in function_type.inputs)
        facts.results = tuple(global_type(str(kind)) for kind in function_type.results)
    return name


def _check_type(kind: Any, known: set[Any]) -> None:
    if kind not in known:
        known.add(kind)
        shape = runtime.shape_of(kind)
        if shape is not None:
            limits.check_shape(shape, str(kind))


def _read_custom_call(operation: Any, facts: ModuleFacts) -> None:
    target = runtime.string_attribute(operation, "call_target_name")
    has_attributes = "mhlo.frontend_attributes" in operation.attributes
    limits.check_operands(target, len(operation.operands), has_attributes, len(operation.results))
    if _SHARDING in operation.attributes:
        limits.check_sharding(runtime.attribute_bytes(operation, _SHARDING), is_mark=True)
    index = _callback_index(operation) if target in CALLBACK_TARGETS else None
    facts.custom_calls.append(CustomCall(target, index))
    if index is not None:
        facts.callback_results.setdefault(index, tuple(global_type(str(result.type)) for result in operation.results))


def callback_types(facts: ModuleFacts, count: int) -> Sequence[tuple[GlobalType, ...]]:
    """Result types of each of `count` callbacks; a callback that the module never calls has none."""
    results: Mapping[int, tuple[GlobalType, ...]] = facts.callback_results
    return [results.get(index, ()) for index in range(count)]
