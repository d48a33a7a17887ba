"""`@pw.program`: a function that calls jitted functions on slices becomes one message per host and run.

Decorated, a function returns what it returns undecorated. Inside another program, or under a transformation of JAX, it is that
function itself. Traces are kept by shapes, static arguments and structure; a trace is not repeated unless one of them is new.
"""

from __future__ import annotations

import functools
import threading
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any, overload

from pathways_common.model.jaxlibs import without_programs

from pathways import _jax, _program_calls, _registering, _tracing, errors
from pathways import _jax_programs as jp
from pathways._graph import Graph
from pathways._nodes import Compiler
from pathways._program_arguments import Call, Signature
from pathways._program_calls import Runner

_DISPATCHES = ("parallel", "sequential")


class _Traces:
    """What one program was traced to in one session. Looked up without a lock, added to under one."""

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.lock = threading.Lock()
        self.compiler = Compiler()
        self.calls: dict[Any, list[tuple[_tracing.Definition, Any]]] = {}


class Lowered:
    """A program as it is sent to the cluster. `message` is the PluginProgram of door.proto."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self.message = compiled._definition.message

    def as_text(self) -> str:
        """The message, readable: computations, nodes, edges, layouts."""
        return str(self.message) if self.message is not None else ""

    def compile(self) -> Compiled:
        """What runs it."""
        return self._compiled


class Traced:
    """A program traced for some arguments; nothing is compiled yet. `graph` shows its nodes, `jaxpr` what JAX traced."""

    def __init__(self, program: Program, call: Call, traced: _tracing.TracedCall, structure: Any) -> None:
        self._program = program
        self._call = call
        self._structure = structure
        self.graph: Graph = traced.graph
        self.jaxpr = traced.flat.jaxpr

    def lower(self) -> Lowered:
        """Compiles the nodes and defines the program."""
        return Lowered(self.compile())

    def compile(self) -> Compiled:
        """The same, ready to run."""
        return self._program._compiled(self._call)


class Compiled:
    """A program compiled for some shapes: takes the dynamic arguments, in the same structure, and runs."""

    def __init__(self, program: Program, key: Any, definition: _tracing.Definition, structure: Any, runner: Runner) -> None:
        self._program = program
        self._key = key
        self._runner = weakref.ref(runner)
        self._definition = definition
        self._structure = structure
        self.graph: Graph = definition.call.graph

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the program. Static arguments are given as they were."""
        call = self._program._signature.bind(args, kwargs)
        if call.key != self._key:
            raise errors.InvalidArgumentError(
                f"program {self._program.name} was compiled for other shapes, structure or static arguments; "
                "call the program itself, which traces again, or compile it for these"
            )
        if jp.tracing():
            return self._program._function(*args, **kwargs)
        if _program_calls.runner() is not self._runner():
            raise errors.InvalidArgumentError(
                f"program {self._program.name} was compiled in an earlier connection; compile it again"
            )
        return jp.unflatten(self._structure, self._definition.execute(call.leaves))

    def register(self, name: str, replace: bool = False) -> int:
        """Keeps the program under a name, beyond this session, for whoever holds the token of the cluster; returns its version.

        It takes the arrays that the program uses, in the order of the arguments, and returns what the cluster computes, each
        value once. With `replace` a name that is taken gets a next version. Raises errors.PathwaysError.
        """
        return _registering.register(self._program.name, self._definition, name, replace)


class Program:
    """A decorated function; made by `pw.program`. May be called from any number of threads at once."""

    def __init__(
        self,
        function: Callable[..., Any],
        signature: Signature,
        name: str,
        sequential: bool,
        fuse: bool,
    ) -> None:
        functools.update_wrapper(self, function)
        self.name = name
        self._function = function
        self._signature = signature
        self._sequential = sequential
        self._fuse = fuse
        self._graph: Graph | None = None
        code = getattr(function, "__code__", None)
        self._source = f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns; the work is under way then, and not yet done."""
        if jp.tracing():
            return self._function(*args, **kwargs)
        call = self._signature.bind(args, kwargs)
        definition, structure = self._find(call, _program_calls.runner())
        return jp.unflatten(structure, definition.execute(call.leaves))

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """In a class a program is a method, as functions are; its `self` is static or a tree of arrays."""
        return self if instance is None else types.MethodType(self, instance)

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traces the function for these arguments; compiles and runs nothing."""
        call = self._signature.bind(args, kwargs)
        traced, structure = self._trace(call, _program_calls.runner())
        return Traced(self, call, traced, structure)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The message that defines the program for these arguments."""
        return Lowered(self.compile(*args, **kwargs))

    def compile(self, *args: Any, **kwargs: Any) -> Compiled:
        """Traces, compiles and defines the program for these arguments, and does not run it."""
        return self._compiled(self._signature.bind(args, kwargs))

    @property
    def graph(self) -> Graph:
        """The graph that was traced last: print it, draw it with `to_dot()`, or walk its `nodes`."""
        if self._graph is None:
            raise errors.InvalidArgumentError(
                f"program {self.name} has no graph before it is traced; call it, or {self.name}.trace(...)"
            )
        return self._graph

    def __repr__(self) -> str:
        return f"<pathways program {self.name}>"

    def _compiled(self, call: Call) -> Compiled:
        runner = _program_calls.runner()
        definition, structure = self._find(call, runner)
        return Compiled(self, call.key, definition, structure, runner)

    def _find(self, call: Call, runner: Runner) -> tuple[_tracing.Definition, Any]:
        traces: _Traces | None = runner.traced.get(self)
        if traces is None or traces.generation != runner.generation():
            with _NEW:
                traces = runner.traced.get(self)
                if traces is None or traces.generation != runner.generation():
                    traces = runner.traced[self] = _Traces(runner.generation())
        key = call.key, jp.trace_context()
        found = _serving(traces, key, call, runner)
        if found is None:
            with traces.lock:
                found = _serving(traces, key, call, runner)
                if found is None:
                    found = self._define(traces, call, runner)
                    traces.calls[key] = [*traces.calls.get(key, ()), found]
        return found

    def _define(self, traces: _Traces, call: Call, runner: Runner) -> tuple[_tracing.Definition, Any]:
        traced, structure = self._trace(call, runner)
        return _tracing.define(traced, traces.compiler, runner, call.donated), structure

    def _trace(self, call: Call, runner: Runner) -> tuple[_tracing.TracedCall, Any]:
        structures: list[Any] = []

        def flat_function(*leaves: Any) -> list[Any]:
            args, kwargs = call.rebuild(leaves)
            results, structure = jp.flatten(self._function(*args, **kwargs))
            structures.append(structure)
            for result in results:
                if not jp.is_value(result):
                    raise errors.InvalidArgumentError(
                        f"program {self.name} returns {type(result).__name__} {result!r}, which is no array; "
                        "return arrays, numbers, and trees of them"
                    )
            return results

        traced = _tracing.trace(self.name, self._source, flat_function, call.leaves, runner, self._sequential, self._fuse)
        self._graph = traced.graph
        return traced, structures[-1]


_NEW = threading.Lock()


def _serving(traces: _Traces, key: Any, call: Call, runner: Runner) -> tuple[_tracing.Definition, Any] | None:
    for found in traces.calls.get(key, ()):
        if _tracing.serves(found[0], call.leaves, runner):
            return found
    return None


@overload
def program(function: Callable[..., Any], /) -> Program: ...
@overload
def program(
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Iterable[int] = (),
    name: str | None = None,
    dispatch: str = "parallel",
    fuse: bool = True,
) -> Callable[[Callable[..., Any]], Program]: ...
def program(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    donate_argnums: int | Iterable[int] = (),
    name: str | None = None,
    dispatch: str = "parallel",
    fuse: bool = True,
) -> Program | Callable[[Callable[..., Any]], Program]:
    """Makes one program of a function that calls jitted functions, each on its own slice. The results stay the same.

        devices = pw.make_virtual_device_set()
        double = jax.pmap(lambda x: x * 2., devices=devices.add_slice(2).devices)
        add_one = jax.pmap(lambda x: x + 1., devices=devices.add_slice(2).devices)

        @pw.program
        def both(v):
            x = double(v)
            return x, add_one(x)

        both(numpy.array([1., 2.]))     # (Array([2., 4.]), Array([3., 5.])): one call, two nodes, values move by themselves
        print(both.graph)               # one line per node: name, devices, inputs, file and line

    Each call of a jax.jit, jax.pmap or jitted shard_map function that names devices becomes a node there; all else joins a
    neighbouring node. Python itself runs once per shape: branches may depend on static arguments, not on the values of arrays.

    static_argnums, static_argnames: arguments that are no arrays, as in jax.jit; a new value traces again.
    donate_argnums: arguments that end with the call, so that their memory can be used again.
    name:           for people; the function's name without it.
    dispatch:       "parallel", or "sequential" for comparison: a node is made ready only after the one before it was launched.
    fuse:           neighbouring nodes on one slice become one executable after the second run, launched as one while nobody else
                    waits for their island. Results stay the same to the bit; if a host dies, the error names all nodes of the
                    executable. False: every node is launched by itself.

    As of a jitted function, all results fail if an argument has failed. A node that fails takes along only what depends on it.

    Raises errors.PathwaysError with the user's file and line: InvalidArgumentError where the value of a traced array is read, for
    a function that is on no slice and for devices that are not the cluster's; UnavailableError without a cluster.
    """
    if unserved := without_programs(_jax.jaxlib_version()):
        raise errors.VersionMismatchError(unserved)
    if dispatch not in _DISPATCHES:
        raise errors.InvalidArgumentError(f'dispatch is {dispatch!r}; it must be "parallel" or "sequential"')

    if not isinstance(fuse, bool):
        raise errors.InvalidArgumentError(f"fuse is {fuse!r}; it must be True or False")

    def decorate(plain: Callable[..., Any]) -> Program:
        if not callable(plain):
            raise errors.InvalidArgumentError(f"pw.program was given {plain!r}, which is no function")
        called = name or getattr(plain, "__name__", None) or type(plain).__name__
        signature = Signature(plain, called, static_argnums, static_argnames, donate_argnums)
        return Program(plain, signature, called, dispatch == "sequential", fuse)

    return decorate if function is None else decorate(function)
