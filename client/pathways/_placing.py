"""Which equation of a traced function runs in which node.

An equation that names devices is a node of its own. One that names none joins the newest node that it reads from; if it reads
from none, the node that reads from it, as often as there are such (it is computed there again, which moves less). If there is
neither, it runs where the arrays lie that it reads, if they insist on it, else in the last node. A function that the user jitted
for no slice is refused instead, and so is a program of no node.
Nodes are in an order in which every node comes after those it reads from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from pathways import _jax_irregular as ji
from pathways import _jax_nodes as jn
from pathways import _jax_programs as jp
from pathways import errors
from pathways._blocks import Block, Irregular, wishes_of

# lies(variable): the sharding on which an argument or constant insists; None if it may lie anywhere
Lies = Callable[[Any], Any]


class BodyPlacing(Protocol):
    """What places the bodies of branches and loops."""

    def place(self, equation: Any, given: Sequence[Any], home: tuple[Any, ...]) -> Irregular:
        """`given` says how the operands lie, where that is known."""


class Placing:
    """Places the equations of one function; `blocks` and `maker` (variable -> block) are the outcome.

    First `place`, then `put` as often as need be, last `close`. In a body `home` are devices for what is on none. Constants that
    loops and branches take are nodes in a body, and arguments elsewhere, which cost no launch, unless `constants_are_nodes`.
    """

    def __init__(
        self,
        flat: jp.Flat,
        baked: Mapping[Any, Any],
        lies: Lies,
        owns: Callable[[Any], bool],
        name: str,
        bodies: BodyPlacing,
        home: tuple[Any, ...] = (),
        is_body: bool = False,
        constants_are_nodes: bool = False,
    ) -> None:
        self._flat = flat
        self._baked = baked
        self._asked = lies
        self._owns = owns
        self._name = name
        self._bodies = bodies
        self._home = home
        self._is_body = is_body
        self._constants_are_nodes = is_body or constants_are_nodes
        self.equations = flat.equations
        self.results: list[Any] = list(flat.results)
        self._outside = {*flat.inputs, *flat.constants}
        # By block, what an irregular one takes; and the block that goes on with its outputs, by devices.
        self._operands: dict[Block, list[Any]] = {}
        self._after: dict[tuple[Block, tuple[Any, ...]], Block] = {}
        self.blocks: list[Block] = []
        self.maker: dict[Any, Block] = {}
        # Equations that wait for somebody who reads from them, by what they write; and where their arrays lie.
        self._waiting: dict[Any, int] = {}
        self._lies: dict[int, tuple[Any, ...]] = {}
        self._effects: list[int] = []

    def place(self) -> None:
        """Places everything. Raises errors.PathwaysError with the user's file and line."""
        needed = self._needed()
        for position, equation in enumerate(self.equations):
            if position in needed:
                self._place(position, equation)
        self._place_results()

    def put(self, variable: Any, sharding: Any, place: jp.Place) -> Any:
        """Lets a variable or a literal lie like this, by a node of its own; the variable that does is returned."""
        equation = ji.put(variable)
        self.equations.append(equation)
        block = Block(len(self.blocks), jn.device_order(sharding), place, None, {len(self.equations) - 1})
        written = equation.outvars[0]
        block.demands[written] = sharding
        self.blocks.append(block)
        self.maker[written] = block
        return written

    def lies_as_made(self, variable: Any) -> Any:
        """How a variable lies that a node made, if the program itself says so."""
        block = self.maker[variable]
        if block.irregular is not None:
            return block.irregular.returned[block.outputs.index(variable)]
        return block.demands.get(variable) or wishes_of(block, self.equations).written.get(variable)

    def read_by(self, block: Block) -> list[Any]:
        """The variables that a node reads from outside of it."""
        if block in self._operands:
            return self._operands[block]
        equations = [self.equations[position] for position in sorted(block.members)]
        local = {variable for equation in equations for variable in jp.written(equation)}
        reads = dict.fromkeys(variable for equation in equations for variable in jp.read(equation))
        return [variable for variable in reads if variable not in local]

    def _needed(self) -> set[int]:
        wanted = {variable for variable in self._flat.results if jp.literal(variable) is None}
        needed: set[int] = set()
        for position in range(len(self.equations) - 1, -1, -1):
            equation = self.equations[position]
            if jp.has_effects(equation) or not wanted.isdisjoint(jp.written(equation)):
                needed.add(position)
                wanted.update(jp.read(equation))
        return needed

    def _place(self, position: int, equation: Any) -> None:
        if jp.has_ordered_effects(equation):
            raise errors.UnsupportedError(
                f"{self._call(equation)} has an effect that is ordered among others, which a program does not carry out; "
                "leave out ordered=True, or call it outside the program"
            )
        if jp.is_irregular(equation):
            self._place_irregular(position, equation)
            return
        devices = self._named(position, equation)
        if devices:
            self._open(position, devices, main=position)
            return
        makers = [self.maker[variable] for variable in jp.read(equation) if variable in self.maker]
        if makers:
            self._go_on(position, equation, max(makers, key=lambda block: block.number))
            return
        self._lies[position] = self._where_inputs_lie(equation)
        self._waiting.update(dict.fromkeys(jp.written(equation), position))
        if jp.has_effects(equation):
            self._effects.append(position)

    def _go_on(self, position: int, equation: Any, newest: Block) -> None:
        """Places an equation that names no devices and reads from this node."""
        if newest.irregular is None:
            self._join(position, newest)
            return
        lies = next(self.lies_as_made(each) for each in jp.read(equation) if self.maker.get(each) is newest)
        devices = jn.device_order(lies)
        if (newest, devices) in self._after:
            self._join(position, self._after[newest, devices])
        else:
            self._after[newest, devices] = self._open(position, devices, main=None)

    def _place_irregular(self, position: int, equation: Any) -> None:
        place = jp.where(equation)
        irregular = self._bodies.place(equation, [self._lying(each) for each in equation.invars], self._home)
        operands = [
            self._operand(variable, sharding, place) for variable, sharding in zip(equation.invars, irregular.taken, strict=True)
        ]
        block = Block(len(self.blocks), (), place, position, {position}, irregular=irregular)
        # What a loop only hands on comes out at the end.
        handed_on = operands[len(equation.outvars) : len(irregular.returned)]
        block.outputs = [*equation.outvars, *map(ji.new_variable, handed_on)]
        self.blocks.append(block)
        self._operands[block] = operands
        self.maker.update(dict.fromkeys(block.outputs, block))

    def _lying(self, operand: Any) -> Any:
        """How an operand of an irregular equation lies; None if it may lie anywhere."""
        if jp.literal(operand) is not None:
            return None
        if operand in self._outside:
            return self._asked(operand)
        block = self.maker.get(operand)
        if block is not None:
            return self.lies_as_made(operand) or ji.whole_on(block.devices)
        devices = self._lies[self._waiting[operand]]
        return ji.whole_on(devices) if devices else None

    def _operand(self, operand: Any, sharding: Any, place: jp.Place) -> Any:
        """The variable of an operand; made by a node if it is not one yet."""
        literal = jp.literal(operand)
        if self._constants_are_nodes and (literal is not None or operand in self._baked):
            return self.put(operand, sharding, jp.Place(place.file, place.line, "put"))
        if literal is not None:
            constant = ji.new_variable(operand)
            self._flat.constants[constant] = jp.host_value(literal[0], operand)
            self._outside.add(constant)
            return constant
        if operand not in self._outside and operand not in self.maker:
            self._open(self._waiting[operand], jn.device_order(sharding), main=None)
        return operand

    def _insists(self, variable: Any) -> tuple[Any, ...]:
        sharding = self._asked(variable)
        return () if sharding is None else jn.device_order(sharding)

    def _named(self, position: int, equation: Any) -> tuple[Any, ...]:
        shardings = jp.shardings_named(equation)
        if not shardings:
            closed_over = self._flat.closed_over.get(position, ())
            return next((devices for each in closed_over if (devices := self._insists(each))), ())
        for sharding in shardings:
            for device in jn.device_order(sharding):
                if not self._owns(device):
                    raise errors.InvalidArgumentError(
                        f"{self._call(equation)} runs on {device}, which is no device of the cluster that this process is "
                        "connected to; take the devices of a slice (pw.make_virtual_device_set().add_slice(...).devices)"
                    )
        found = [jn.device_order(sharding) for sharding in shardings]
        if any(set(devices) != set(found[0]) for devices in found):
            raise errors.InvalidArgumentError(
                f"{self._call(equation)} names two sets of devices in one call, {_listed(found[0])} and "
                f"{_listed(next(each for each in found if set(each) != set(found[0])))}; split it into two functions"
            )
        return found[0] if found else ()

    def _where_inputs_lie(self, equation: Any) -> tuple[Any, ...]:
        for variable in jp.read(equation):
            if variable in self._outside and (devices := self._insists(variable)):
                return devices
        for variable in jp.read(equation):
            if variable in self._waiting and (devices := self._lies[self._waiting[variable]]):
                return devices
        return ()

    def _open(self, position: int, devices: tuple[Any, ...], main: int | None) -> Block:
        for each in sorted(self._closure([position]) - {position}, reverse=True):
            lies = self._lies[each]
            if lies and set(lies) != set(devices) and not self._made(each):
                # An array insists on other devices than these: what is made of it is computed there.
                self._open(each, lies, main=None)
        block = Block(len(self.blocks), devices, jp.where(self.equations[position]), main)
        self.blocks.append(block)
        for each in self._effects if main is not None else ():
            self._join(each, block)
        self._join(position, block)
        return block

    def _closure(self, positions: Sequence[int]) -> set[int]:
        """These equations, and those waiting ones that they need."""
        found: set[int] = set()
        stack = list(positions)
        while stack:
            position = stack.pop()
            if position not in found:
                found.add(position)
                needs = jp.read(self.equations[position])
                stack.extend(self._waiting[each] for each in needs if each in self._waiting and each not in self.maker)
        return found

    def _join(self, position: int, block: Block) -> None:
        closure = self._closure([position])
        block.members |= closure
        for each in closure:
            # Those with effects are done once; so is what was asked for here, and what can be nowhere else.
            if each == position or each in self._effects or block.main is None:
                self.maker.update(dict.fromkeys(jp.written(self.equations[each]), block))
        self._effects = [each for each in self._effects if each not in closure]

    def _made(self, position: int) -> bool:
        return any(variable in self.maker for variable in jp.written(self.equations[position]))

    def _place_results(self) -> None:
        for variable in self._flat.results:
            if jp.literal(variable) is not None or variable in self._outside or variable in self.maker:
                continue
            position = self._waiting[variable]
            joined = next((block for block in self.blocks if position in block.members), None)
            if joined is not None:
                self.maker[variable] = joined
            elif self._is_body and (near := self._near(self._lies[position])) is not None:
                self._join(position, near)
                self.maker.update(dict.fromkeys(jp.written(self.equations[position]), near))
            elif self._is_body and (devices := self._lies[position] or self._home):
                self._open(position, devices, main=None)
            elif self._lies[position]:
                self._open(position, self._lies[position], main=None)
            else:
                self._join_the_last(position)
        for position in self._effects:
            last = self._near(())
            if last is None:
                raise errors.InvalidArgumentError(
                    f"{self._call(self.equations[position])} is on no slice, and nothing in the program is; leave it out"
                )
            self._join(position, last)

    def _join_the_last(self, position: int) -> None:
        """A result that nothing ties to any devices, such as `step + 1`, is computed in the last node."""
        strangers = [each for each in sorted(self._closure([position])) if jp.is_users_function(self.equations[each])]
        last = self._near(())
        if strangers or not self.blocks:
            raise errors.InvalidArgumentError(
                f"{self._call(self.equations[(strangers or [position])[0]])} is on no slice: nothing near it names devices; "
                "jit it with in_shardings or out_shardings on a slice's mesh, use jax.pmap(devices=...), or leave it out of "
                "the program"
            )
        if last is not None:
            self._join(position, last)
            return
        loop = self.blocks[-1].irregular
        assert loop is not None, "a block without devices is irregular"
        self._open(position, jn.device_order(loop.returned[0]), main=None)

    def _near(self, devices: tuple[Any, ...]) -> Block | None:
        """The last node on these devices, or on any if there are none."""
        return next((each for each in reversed(self.blocks) if each.devices and set(each.devices) >= set(devices)), None)

    def close(self) -> None:
        """Finds what crosses from block to block."""
        crossing = {variable for variable in self.results if jp.literal(variable) is None}
        for block in self.blocks:
            reads = self.read_by(block)
            if block.irregular is None:
                block.inputs = [variable for variable in reads if variable not in self._baked]
                block.constants = {variable: self._baked[variable] for variable in reads if variable in self._baked}
            else:
                block.inputs = reads
            crossing.update(block.inputs)
        for block in [each for each in self.blocks if each.irregular is None]:
            members = sorted(block.members)
            writes = dict.fromkeys(variable for each in members for variable in jp.written(self.equations[each]))
            # A function that is alone in its node returns everything, so that all its calls share one executable.
            whole = len(members) == 1
            block.outputs = [
                variable for variable in writes if self.maker.get(variable) is block and (whole or variable in crossing)
            ]

    def _call(self, equation: Any) -> str:
        place = jp.where(equation)
        return f"`{place.name}`, called at {place} in program {self._name},"


def _listed(devices: Sequence[Any]) -> str:
    return ", ".join(str(device) for device in devices[:4]) + (", ..." if len(devices) > 4 else "")
