"""Where the bodies of branches and loops run, and how the values lie that they take and return.

An argument lies as the first node wants it that reads it. All bodies of a branch return what lies alike, and a loop carries
values that lie alike in every iteration: a result that would not, or that no node of the body made, is put there by a node of
its own.
All of this is settled while the program is traced; nothing depends on what XLA chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pathways import _jax_irregular as ji
from pathways import _jax_nodes as jn
from pathways import _jax_programs as jp
from pathways import errors
from pathways._blocks import BRANCH, LOOP, Block, Irregular, Scope, wishes_of
from pathways._placing import Placing


class Bodies:
    """Places the bodies of one program; given to Placing, which asks it for every irregular equation that it meets."""

    def __init__(self, owns: Callable[[Any], bool], name: str) -> None:
        self._owns = owns
        self._name = name

    def place(self, equation: Any, given: Sequence[Any], home: tuple[Any, ...]) -> Irregular:
        """`given` says how each operand lies, or None where it may lie anywhere; `home` are devices to be on if all else fails.

        Raises errors.PathwaysError with the user's file and line.
        """
        named = next((devices for each in equation.params["jaxprs"] if (devices := ji.first_devices_named(each))), ())
        home = named or next((jn.device_order(each) for each in given if each is not None), ()) or home
        place = _loop if equation.params["kind"] == LOOP else _branch
        return place([self._body(equation, index, given, home) for index in range(len(equation.params["jaxprs"]))], equation,
                     list(given), home)  # fmt: skip

    def _body(self, equation: Any, index: int, given: Sequence[Any], home: tuple[Any, ...]) -> _Body:
        first = 1 if equation.params["kind"] == BRANCH else 0
        flat = jp.flat_of(equation.params["jaxprs"][index], lambda _: False)
        taken = dict(zip(equation.params["takes"][index], flat.inputs, strict=True))
        arguments = [
            taken[at] if at in taken else ji.new_variable(variable) for at, variable in enumerate(equation.invars) if at >= first
        ]
        flat.inputs = arguments
        return _Body(equation, equation.params["labels"][index], flat, arguments, given[first:], home, self)


class _Body:
    """One body on its way to a scope."""

    def __init__(
        self,
        equation: Any,
        label: str,
        flat: jp.Flat,
        arguments: list[Any],
        given: Sequence[Any],
        home: tuple[Any, ...],
        bodies: Bodies,
    ) -> None:
        place = jp.where(equation)
        self._put_at = jp.Place(place.file, place.line, "put")
        self.label = label
        self.arguments = arguments
        self.lies: dict[Any, Any] = dict(zip(arguments, given, strict=True))
        baked = dict(flat.constants)
        self.placing = Placing(flat, baked, self.lies.get, bodies._owns, bodies._name, bodies, home, is_body=True)

    def first_reader(self, argument: Any) -> Block | None:
        """The first node that reads an argument."""
        return next((block for block in self.placing.blocks if argument in self.placing.read_by(block)), None)

    def wanted(self, block: Block, argument: Any) -> Any:
        """How a node wants an argument; None if it does not matter to it."""
        if block.irregular is not None:
            return block.irregular.taken[self.placing.read_by(block).index(argument)]
        wish = wishes_of(block, self.placing.equations).read.get(argument)
        given = self.lies[argument]
        if wish is None and given is not None and jn.device_order(given) == block.devices:
            return given
        return wish

    def reader(self, argument: Any) -> Any:
        """How an argument lies best for the first node that reads it; None if none does."""
        block = self.first_reader(argument)
        return None if block is None else self.wanted(block, argument) or ji.whole_on(block.devices)

    def made(self, result: Any) -> Any:
        """How a result lies where it is made; None if no node of the body makes it."""
        block = self.placing.maker.get(result) if jp.literal(result) is None else None
        if block is None:
            return None
        return self.placing.lies_as_made(result) or ji.whole_on(block.devices)

    def settle(self, results: Sequence[Any], targets: Sequence[Any]) -> list[Any]:
        """Lets the results lie as the targets say; returns the variables that do."""
        settled: list[Any] = []
        for result, target in zip(results, targets, strict=True):
            if self.made(result) is None or result in settled or not self._may_lie(result, target):
                settled.append(self.placing.put(result, target, self._put_at))
            else:
                self.placing.maker[result].demands.setdefault(result, target)
                settled.append(result)
        self.placing.results = settled
        self.placing.close()
        return settled

    def _may_lie(self, result: Any, target: Any) -> bool:
        made = self.placing.lies_as_made(result)
        if made is not None:
            return ji.lie_alike(made, target, len(result.aval.shape))
        return bool(self.placing.maker[result].devices == jn.device_order(target))

    def scope(self) -> Scope:
        """What came of it."""
        placing = self.placing
        return Scope(self.label, placing.equations, placing.blocks, self.arguments, placing.results, self.lies)


def _branch(bodies: list[_Body], equation: Any, given: list[Any], home: tuple[Any, ...]) -> Irregular:
    for body in bodies:
        body.placing.place()
    results = [body.placing.results for body in bodies]
    returned = []
    for at in range(len(equation.params["results"])):
        makers = (body.made(each[at]) for body, each in zip(bodies, results, strict=True))
        passed = (body.reader(each[at]) or body.lies[each[at]] for body, each in zip(bodies, results, strict=True)
                  if jp.literal(each[at]) is None and each[at] in body.lies)  # fmt: skip
        found = next((each for each in (*makers, *passed) if each is not None), None)
        returned.append(found or ji.whole_on(_some(home, equation)))
    for body, each in zip(bodies, results, strict=True):
        body.settle(each, returned)
    taken = [given[0] or ji.whole_on(_some(home, equation)[:1])]
    for at in range(len(given) - 1):
        wanted = [body.reader(body.arguments[at]) for body in bodies]
        some = next((each for each in wanted if each is not None), None) or given[at + 1] or ji.whole_on(_some(home, equation))
        taken.append(some)
        for body, each in zip(bodies, wanted, strict=True):
            body.lies[body.arguments[at]] = each or given[at + 1] or some
    scopes = [body.scope() for body in bodies]
    return Irregular(BRANCH, scopes, equation.params["limits"], 0, taken, returned)


def _loop(bodies: list[_Body], equation: Any, given: list[Any], home: tuple[Any, ...]) -> Irregular:
    condition, body = bodies
    body.placing.place()
    results = [*body.placing.results, *body.arguments[len(body.placing.results) :]]
    carried = []
    for argument, result, lies in zip(body.arguments, results, given, strict=True):
        block, made = body.first_reader(argument), body.made(result)
        found = body.wanted(block, argument) if block is not None else None
        if found is None and made is not None and (block is None or jn.device_order(made) == block.devices):
            found = made
        carried.append(found or body.reader(argument) or lies or ji.whole_on(_some(home, equation)))
    body.lies.update(zip(body.arguments, carried, strict=True))
    body.settle(results, carried)
    condition.lies.update(zip(condition.arguments, carried, strict=True))
    condition.placing.place()
    answer = condition.made(condition.placing.results[0]) or ji.whole_on(_some(home, equation)[:1])
    condition.settle(condition.placing.results, [answer])
    for argument in condition.arguments:
        condition.lies[argument] = condition.reader(argument) or condition.lies[argument]
    scopes = [condition.scope(), body.scope()]
    return Irregular(LOOP, scopes, (), equation.params["max_iterations"], carried, list(carried))


def _some(home: tuple[Any, ...], equation: Any) -> tuple[Any, ...]:
    if home:
        return home
    place = jp.where(equation)
    raise errors.InvalidArgumentError(
        f"`{place.name}`, called at {place}, is on no slice: nothing in its bodies names devices, and nothing that it is given "
        "lies on some; call functions there that run on a slice, or leave it out of the program"
    )
