"""From a call of a user's function to the nodes of its program: trace, take constants out, place, compile, define.

What a program closes over and the cluster holds is passed at every run; so is what is too large to be a part of an executable.
Whatever cannot be traced is refused in one sentence with the user's file and line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pathways import _graph, _jax, errors
from pathways import _jax_irregular as ji
from pathways import _jax_nodes as jn
from pathways import _jax_programs as jp
from pathways._blocks import Block
from pathways._bodies import Bodies
from pathways._fusing import Fusion
from pathways._nodes import Compiler, Executable
from pathways._placing import Placing
from pathways._program_calls import Run, Runner
from pathways._program_message import Wiring, graph_of, message_of
from pathways._reshard import reshard

# A larger constant is uploaded once instead of being sent with every executable that holds it.
BAKED_BYTES_MAX = 64 << 10


@dataclass(slots=True)
class Source:
    """A result of the user's function: an argument as it came, a constant, or result `position` of the run."""

    kind: str
    position: int = 0
    value: Any = None


@dataclass(slots=True, eq=False)
class TracedCall:
    """A function traced for some shapes. `arguments` are the positions of the flat arguments that the program takes."""

    flat: jp.Flat
    wiring: Wiring
    graph: _graph.Graph
    arguments: list[int]
    hidden: list[Any]
    sources: list[Source]
    # How arguments lay when that was asked: the trace serves calls where they lie so again.
    asked: dict[int, Any]
    lies: Callable[[Any], Any] = field(repr=False)


@dataclass(slots=True, eq=False)
class Definition:
    """A traced call that is compiled: its executables, the message that defines it, and how arguments have to lie."""

    call: TracedCall
    message: Any
    executables: dict[Block, Executable]
    shardings: list[Any]
    hidden: list[Any]
    donated: frozenset[int]
    run: Run | None = None
    fusion: Fusion | None = None

    def execute(self, leaves: Sequence[Any]) -> list[Any]:
        """Runs the program with these flat arguments; returns the flat results."""
        if self.run is None:
            results: list[Any] = []
        else:
            try:
                placed = self._placed(leaves)
                results = self.run([jn.stored(array) for array in (*placed, *self.hidden)])
                if self.fusion is not None:
                    self.fusion.ran()
            except Exception:
                self._refuse_deleted(leaves)
                raise
            for at in self.donated:
                if jp.is_array(leaves[self.call.arguments[at]]):
                    leaves[self.call.arguments[at]].delete()
        return [_result(source, leaves, results) for source in self.call.sources]

    def _refuse_deleted(self, leaves: Sequence[Any]) -> None:
        for word, arrays in (("was called with", [leaves[at] for at in self.call.arguments]), ("closes over", self.hidden)):
            for array in arrays:
                if jp.is_array(array) and array.is_deleted():
                    raise errors.DeletedError(
                        f"program {self.call.wiring.name} {word} an array "
                        f"{array.dtype}{list(array.shape)} that was deleted or donated before; pass a living one"
                    ) from None

    def _placed(self, leaves: Sequence[Any]) -> list[Any]:
        placed = [leaves[position] for position in self.call.arguments]
        for donate in (False, True):
            moving = [
                at
                for at, (array, sharding) in enumerate(zip(placed, self.shardings, strict=False))
                if (at in self.donated) is donate and not (jp.is_array(array) and _jax.lies_as(array, sharding))
            ]
            if moving:
                moved = reshard([placed[at] for at in moving], [self.shardings[at] for at in moving], donate=donate)
                for at, array in zip(moving, moved, strict=True):
                    placed[at] = array
        return placed


def trace(
    name: str,
    source: str,
    function: Callable[..., list[Any]],
    leaves: Sequence[Any],
    runner: Runner,
    sequential: bool,
    fuse: bool = True,
) -> TracedCall:
    """Traces a function of flat arguments. Raises errors.PathwaysError for what a program cannot hold."""
    flat = _traced(name, function, leaves, runner)
    baked = {var: value for var, value in flat.constants.items() if not _wanted(value, runner)}
    positions = {variable: position for position, variable in enumerate(flat.inputs)}
    asked: dict[int, Any] = {}
    # Not the arrays themselves: what is made here lives as long as the program.
    insisted = [insisted_sharding(leaf, runner) for leaf in leaves]

    def lies(variable: Any) -> Any:
        position = positions.get(variable)
        if position is None:
            return insisted_sharding(flat.constants.get(variable), runner)
        if position not in asked:
            asked[position] = insisted[position]
        return asked[position]

    return _placed(name, source, sequential, fuse, flat, baked, asked, lies, runner)


def with_own_constants(call: TracedCall, runner: Runner) -> TracedCall:
    """The same call as a program that holds all its constants itself, be they large, except for arrays of the cluster."""
    flat = jp.flat_of(call.flat.jaxpr, lambda value: _lies_there(value, runner))
    baked = {var: value for var, value in flat.constants.items() if not _lies_there(value, runner)}
    wiring = call.wiring
    given = (wiring.name, wiring.source, wiring.sequential, wiring.fuse)
    return _placed(*given, flat, baked, call.asked, call.lies, runner, whole=True)


def _placed(
    name: str,
    source: str,
    sequential: bool,
    fuse: bool,
    flat: jp.Flat,
    baked: dict[Any, Any],
    asked: dict[int, Any],
    lies: Callable[[Any], Any],
    runner: Runner,
    whole: bool = False,
) -> TracedCall:
    positions = {variable: position for position, variable in enumerate(flat.inputs)}
    bodies = Bodies(runner.owns, name)
    placing = Placing(flat, baked, lies, runner.owns, name, bodies, constants_are_nodes=whole)
    placing.place()
    placing.close()
    blocks = placing.blocks
    outside = dict.fromkeys(variable for block in blocks for variable in block.inputs if variable not in placing.maker)
    taken = [variable for variable in flat.inputs if variable in outside]
    hidden = [variable for variable in outside if variable not in positions]
    sources, results = _sources(flat, placing, positions)
    if blocks and not results:
        results = [_any_output(name, blocks)]
    wiring = Wiring(name, source, sequential, blocks, [*taken, *hidden], results, fuse and not sequential)
    values = [flat.constants[variable] for variable in hidden]
    return TracedCall(flat, wiring, graph_of(wiring), [positions[each] for each in taken], values, sources, asked, lies)


def define(call: TracedCall, compiler: Compiler, runner: Runner, donated_leaves: frozenset[int]) -> Definition:
    """Compiles a traced call and gives it to the cluster. Raises errors.PathwaysError if it is refused there."""
    wiring = call.wiring
    executables = compiler.compile(call.flat.equations, wiring.blocks, call.lies)
    if not wiring.blocks:
        return Definition(call, None, {}, [], [], frozenset())
    returned = {source.position for source in call.sources if source.kind == "argument"}
    donated = [at for at, position in enumerate(call.arguments) if position in donated_leaves and position not in returned]
    ids = {executable: runner.executable_id(executable.compiled) for executable in dict.fromkeys(executables.values())}
    message = message_of(wiring, executables, ids, donated)
    run = runner.define(message, [jn.shape_of(each) for each in wiring.results], wiring.result_shardings(executables))
    shardings = wiring.argument_shardings(executables)
    count = len(call.arguments)
    hidden = reshard(list(call.hidden), shardings[count:]) if call.hidden else []
    fusion = Fusion(wiring.name, wiring, executables, run, runner) if wiring.fuse else None
    return Definition(call, message, executables, shardings[:count], hidden, frozenset(donated), run, fusion)


def serves(definition: Definition, leaves: Sequence[Any], runner: Runner) -> bool:
    """Whether these arguments lie where the trace asked for, or where the program wants them anyway."""
    call = definition.call
    for position, sharding in call.asked.items():
        lies = insisted_sharding(leaves[position], runner)
        if lies is sharding or (lies is not None and sharding is not None and _jax.lies_as(leaves[position], sharding)):
            continue
        if lies is None or position not in call.arguments:
            return False
        if not _jax.lies_as(leaves[position], definition.shardings[call.arguments.index(position)]):
            return False
    return True


def insisted_sharding(value: Any, runner: Runner) -> Any:
    """The sharding of an array of the cluster that insists on it, else None."""
    if not jp.is_array(value) or not jn.is_committed(value):
        return None
    return value.sharding if runner.owns(jn.device_order(value.sharding)[0]) else None


def _traced(name: str, function: Callable[..., list[Any]], leaves: Sequence[Any], runner: Runner) -> jp.Flat:
    avals = []
    for leaf in leaves:
        try:
            avals.append(jp.abstract(leaf))
        except TypeError as error:
            raise errors.InvalidArgumentError(
                f"program {name} was called with {type(leaf).__name__} {_short(leaf)}, which is no array; "
                "make it static (pw.program(static_argnums=...) or static_argnames=...)"
            ) from error
    try:
        return jp.trace(ji.recorded(function), avals, lambda value: _wanted(value, runner))
    except AttributeError as error:
        if "traced array" not in str(error):
            raise
        place = jp.place_of_error(error)
        what = str(error).splitlines()[0].rstrip(".")
        raise errors.InvalidArgumentError(
            f"program {name} asks a traced array at {place} (in `{place.name}`) for what only arrays with values have: {what}; "
            "leave that out, or do it outside the program"
        ) from error
    except jp.value_errors() as error:
        place = jp.place_of_error(error)
        raise errors.InvalidArgumentError(
            f"program {name} asks for the value of a traced array at {place} (in `{place.name}`), and there is none before the "
            "program has run; use jax.numpy and jax.lax there, make the argument that it comes from static "
            "(pw.program(static_argnums=...)), or read it outside the program"
        ) from error


def _wanted(value: Any, runner: Runner) -> bool:
    """Whether a constant is passed to the program at every run, instead of being a part of an executable."""
    return _lies_there(value, runner) or int(getattr(value, "nbytes", 0)) > BAKED_BYTES_MAX


def _lies_there(value: Any, runner: Runner) -> bool:
    """Whether a value is an array of the cluster."""
    return jp.is_array(value) and runner.owns(jn.device_order(value.sharding)[0])


def _sources(flat: jp.Flat, placing: Placing, positions: dict[Any, int]) -> tuple[list[Source], list[Any]]:
    """Where each result comes from, and the variables that the run returns: each once."""
    returned: dict[Any, int] = {}
    sources: list[Source] = []
    for variable in flat.results:
        literal = jp.literal(variable)
        if literal is not None:
            sources.append(Source("constant", value=jp.constant_array(literal[0], variable)))
        elif variable in positions:
            sources.append(Source("argument", positions[variable]))
        elif variable in flat.constants:
            sources.append(Source("constant", value=jp.constant_array(flat.constants[variable], variable)))
        else:
            sources.append(Source("result", returned.setdefault(variable, len(returned))))
    return sources, list(returned)


def _any_output(name: str, blocks: Sequence[Block]) -> Any:
    for block in reversed(blocks):
        if block.outputs:
            return block.outputs[0]
    place = blocks[-1].place
    raise errors.UnsupportedError(
        f"program {name} returns nothing that a node computes, so nothing would say when `{place.name}`, called at {place}, "
        "is done; return a result of a node"
    )


def _result(source: Source, leaves: Sequence[Any], results: Sequence[Any]) -> Any:
    if source.kind == "result":
        return results[source.position]
    return source.value if source.kind == "constant" else jp.constant_array(leaves[source.position], None)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
