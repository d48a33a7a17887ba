"""Arguments of a program: which are static, which are donated, and what a trace of them is known by.

A call is bound to flat arrays and a key. Calls with equal keys have the same structure, shapes, types and static arguments.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pathways import _jax_programs as jp
from pathways import errors


class Call:
    """One call: its dynamic arguments flat, and how to make the call again with others in their place."""

    __slots__ = ("_static_args", "_static_kwargs", "_structure", "donated", "key", "leaves")

    def __init__(
        self,
        leaves: list[Any],
        structure: Any,
        static_args: dict[int, Any],
        static_kwargs: dict[str, Any],
        donated: frozenset[int],
        key: Any,
    ) -> None:
        self.leaves = leaves
        self._structure = structure
        self._static_args = static_args
        self._static_kwargs = static_kwargs
        self.donated = donated
        self.key = key

    def rebuild(self, leaves: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments with other leaves, static ones as they came."""
        dynamic, kwargs = jp.unflatten(self._structure, leaves)
        args = list(dynamic)
        for position, value in sorted(self._static_args.items()):
            args.insert(position, value)
        return args, {**kwargs, **self._static_kwargs}


class Signature:
    """What `pw.program` was told of a function's arguments."""

    def __init__(
        self,
        function: Callable[..., Any],
        name: str,
        static_argnums: int | Iterable[int],
        static_argnames: str | Iterable[str],
        donate_argnums: int | Iterable[int],
    ) -> None:
        self._name = name
        numbers = _numbers(static_argnums, "static_argnums", function)
        names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)
        positional = _positional(function)
        if unknown := _unknown(names, function):
            raise errors.InvalidArgumentError(f"static_argnames holds {unknown!r}, which is the name of no argument")
        # As in jax.jit, an argument that is static by number is so by name, too, and the other way round.
        self._static_names = names | {positional[number] for number in numbers if number < len(positional)}
        self._static_numbers = numbers | {number for number, each in enumerate(positional) if each in names}
        self._donated = _numbers(donate_argnums, "donate_argnums", function)
        if self._donated & self._static_numbers:
            raise errors.InvalidArgumentError(f"an argument of program {name} cannot be both static and donated")

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """Raises errors.InvalidArgumentError for static arguments without a hash, and for arrays donated twice."""
        static_args = {number: args[number] for number in self._static_numbers if number < len(args)}
        static_kwargs = {each: kwargs[each] for each in kwargs if each in self._static_names}
        dynamic = [value for number, value in enumerate(args) if number not in static_args]
        others = {each: value for each, value in kwargs.items() if each not in static_kwargs}
        leaves, structure = jp.flatten((dynamic, others))
        statics = (
            tuple((number, type(value), value) for number, value in sorted(static_args.items())),
            tuple((each, type(value), value) for each, value in sorted(static_kwargs.items())),
        )
        try:
            hash(statics)
        except TypeError as error:
            raise errors.InvalidArgumentError(
                f"a static argument of program {self._name} has no hash ({error}); make it a tuple or a frozen dataclass"
            ) from None
        donated = self._donated_leaves(args, static_args, leaves) if self._donated else frozenset()
        key = structure, statics, tuple(map(_leaf_key, leaves))
        return Call(leaves, structure, static_args, static_kwargs, donated, key)

    def _donated_leaves(self, args: tuple[Any, ...], static_args: dict[int, Any], leaves: list[Any]) -> frozenset[int]:
        found: set[int] = set()
        start = 0
        for number, value in enumerate(args):
            if number in static_args:
                continue
            count = len(jp.flatten(value)[0])
            if number in self._donated:
                found.update(range(start, start + count))
            start += count
        seen = [id(leaf) for leaf in leaves]
        for position in found:
            if seen.count(seen[position]) > 1 and jp.is_array(leaves[position]):
                raise errors.InvalidArgumentError(
                    f"program {self._name} was given one array as a donated argument and as another one; pass a copy of it"
                )
        return frozenset(found)


def _leaf_key(leaf: Any) -> Any:
    try:
        return jp.aval_key(leaf)
    except TypeError:
        return type(leaf)  # refused when it is traced, with better words


def _numbers(given: int | Iterable[int], word: str, function: Callable[..., Any]) -> set[int]:
    numbers = [given] if isinstance(given, int) else list(given)
    count = len(_positional(function))
    end = count if _takes_exactly(function) else sys.maxsize
    for number in numbers:
        if not isinstance(number, int) or not -count <= number < end:
            raise errors.InvalidArgumentError(f"{word} holds {number!r}, which is the position of no argument")
    return {number if number >= 0 else count + number for number in numbers}


def _positional(function: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def _unknown(names: set[str], function: Callable[..., Any]) -> str | None:
    """A name that no argument of the function can have."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return None
    return next((name for name in sorted(names) if name not in parameters), None)


def _takes_exactly(function: Callable[..., Any]) -> bool:
    """Whether the function has no *args, as far as can be known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return all(each.kind is not each.VAR_POSITIONAL for each in parameters)
