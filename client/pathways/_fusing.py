"""Neighbouring nodes on one slice become one executable, which the cluster launches in place of them where one grant covers all.

A group is compiled from the nodes' own functions, each called as it is: XLA compiles every callee apart, so the results are the
same to the bit. That is done behind the user's back once a program has run twice, so that what runs once pays nothing; the
cluster goes on node by node until it has the executables. A move ends a group on both of its sides, so that what others wait for
leaves as early as before. Whatever goes wrong here leaves the program as it was.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pathways_proto.v1 import door_pb2, programs_pb2, types_pb2

from pathways import _jax_nodes as jn
from pathways import _jax_programs as jp
from pathways._blocks import Block
from pathways._nodes import Executable
from pathways._program_calls import Run, Runner
from pathways._program_message import Wiring, returned, spec_of, taken

# Runs before a program is worth it.
RUNS_BEFORE = 2
# One executable holds that many nodes at most: half of the gangs that the cluster keeps in flight on an island.
NODES_MAX = 128
# StableHLO text of a node and of a group: of larger ones the launch is not what takes time, and compiling them twice would.
NODE_TEXT_BYTES_MAX = 32 << 10
GROUP_TEXT_BYTES_MAX = 1 << 20

# How long a connection that closes waits for a compilation in the background.
FINISH_TIMEOUT_S = 30.0

_LOG = logging.getLogger("pathways")


@dataclass(slots=True, eq=False)
class Node:
    """A block in its graph. `layouts` are the specs, as bytes, in which it takes its inputs."""

    number: int
    block: Block
    executable: Executable
    layouts: list[bytes]


@dataclass(slots=True, eq=False)
class Group:
    """Neighbouring nodes. `inputs` are (variable, node, input) from outside; `outputs` are (variable, node, output)."""

    graph: int
    nodes: list[Node]
    inputs: list[tuple[Any, Node, int]] = field(default_factory=list)
    outputs: list[tuple[Any, Node, int]] = field(default_factory=list)


class Fusion:
    """What fuses one program, once; `ran` is called at every run."""

    def __init__(self, name: str, wiring: Wiring, executables: Mapping[Block, Executable], run: Run, runner: Runner) -> None:
        self._name = name
        self._wiring = wiring
        self._executables = executables
        self._run = run
        self._runner = runner
        self._context = jp.trace_context()
        self._generation = runner.generation()
        self._lock = threading.Lock()
        self._runs = 0
        self._begun = self._done = False
        self.kept: list[Any] = []  # executables, as long as the program

    def ran(self) -> None:
        """Counts a run; the second one starts the work in the background."""
        if self._begun:
            return
        self._runs += 1  # threads that call at once may count less
        if self._runs >= RUNS_BEFORE:
            self._begun = True
            _worker.add(self)

    def fuse(self) -> None:
        """Does it now, if it was not done; never raises."""
        with self._lock:
            if self._done:
                return
            self._done = True
            try:
                self._fuse()
            except Exception:
                _LOG.debug("program %s is not fused", self._name, exc_info=True)

    def _fuse(self) -> None:
        if jp.trace_context() != self._context or self._runner.generation() != self._generation:
            return  # functions would be traced to something else here, or devices are others
        groups = list(groups_of(self._wiring, self._executables))
        message = door_pb2.PluginFusion()
        known: dict[Any, Any] = {}
        for group in groups:
            compiled = _compiled(group, known)
            self.kept.append(compiled)
            _write(message.groups.add(), group, self._runner.executable_id(compiled))
        if groups:
            self._runner.fuse(self._run, message)


# ---- which ------------------------------------------------------------------------------------------------------------


def groups_of(wiring: Wiring, executables: Mapping[Block, Executable]) -> Iterator[Group]:
    """The groups of a program, of every graph without branches and loops, in the order of its message."""
    shardings = wiring.argument_shardings(executables)
    lies = dict(zip(wiring.arguments, shardings, strict=True))
    yield from _groups(_Numbers(), executables, wiring.blocks, lies, wiring.results)


class _Numbers:
    """Counts the graphs as the message does: each before those of its bodies."""

    def __init__(self) -> None:
        self._next = 0

    def next(self) -> int:
        self._next += 1
        return self._next - 1


def _groups(
    numbers: _Numbers,
    executables: Mapping[Block, Executable],
    blocks: Sequence[Block],
    lies: Mapping[Any, Any],
    results: Sequence[Any],
) -> Iterator[Group]:
    graph = numbers.next()
    irregular = [block.irregular for block in blocks if block.irregular is not None]
    if not irregular:
        yield from _regular(graph, executables, blocks, lies, results)
    for each in irregular:
        for scope in each.scopes:
            inside = {variable: scope.lies[variable] for variable in scope.arguments}
            yield from _groups(numbers, executables, scope.blocks, inside, scope.results)


def _regular(
    graph: int,
    executables: Mapping[Block, Executable],
    blocks: Sequence[Block],
    lies: Mapping[Any, Any],
    results: Sequence[Any],
) -> Iterator[Group]:
    have = {variable: {_layout(variable, sharding)} for variable, sharding in lies.items()}
    moved: set[Any] = set()  # variables that somebody takes in another layout, or elsewhere
    moving: set[Node] = set()  # nodes before which something is moved
    nodes: list[Node] = []
    for number, block in enumerate(blocks, 1):
        node = Node(number, block, executables[block], [])
        for variable, sharding in zip(block.inputs, taken(block, executables), strict=True):
            layout = _layout(variable, sharding)
            node.layouts.append(layout)
            if layout not in have[variable]:
                have[variable].add(layout)
                moved.add(variable)
                moving.add(node)
        for variable, sharding in zip(block.outputs, returned(block, executables), strict=True):
            have[variable] = {_layout(variable, sharding)}
        nodes.append(node)
    for run in _neighbours(nodes, moved, moving):
        if len(run) > 1:
            yield _closed(graph, run, nodes, results)


def _neighbours(nodes: Sequence[Node], moved: set[Any], moving: set[Node]) -> Iterator[list[Node]]:
    """Runs of nodes that may be one executable, as long as they can be."""
    run: list[Node] = []
    size = 0
    for node in nodes:
        text_bytes = node.executable.text_bytes
        fits = bool(node.block.outputs) and 0 < text_bytes <= NODE_TEXT_BYTES_MAX
        goes_on = bool(run) and fits and node not in moving and len(run) < NODES_MAX
        if goes_on:
            last = run[-1]
            goes_on = (
                last.block.devices == node.block.devices
                and last.executable.options == node.executable.options
                and size + text_bytes <= GROUP_TEXT_BYTES_MAX
                and moved.isdisjoint(last.block.outputs)
            )
        if not goes_on:
            yield run
            run, size = [], 0
        if fits:
            run.append(node)
            size += text_bytes
    yield run


def _closed(graph: int, run: list[Node], nodes: Sequence[Node], results: Sequence[Any]) -> Group:
    """The group with what it takes and what others take of it."""
    group = Group(graph, run)
    own = set(run)
    wanted = {*results, *(variable for node in nodes if node not in own for variable in node.block.inputs)}
    made: set[Any] = set()
    known: set[tuple[Any, bytes]] = set()
    for node in run:
        for index, variable in enumerate(node.block.inputs):
            key = variable, node.layouts[index]
            if variable not in made and key not in known:
                known.add(key)
                group.inputs.append((variable, node, index))
        made.update(node.block.outputs)
        group.outputs.extend((variable, node, index) for index, variable in enumerate(node.block.outputs) if variable in wanted)
    if not group.outputs:
        last = run[-1]
        group.outputs.append((last.block.outputs[0], last, 0))
    return group


def _layout(variable: Any, sharding: Any) -> bytes:
    return bytes(_spec(variable, sharding).SerializeToString(deterministic=True))


def _spec(variable: Any, sharding: Any) -> types_pb2.ArraySpec:
    return spec_of(jn.shape_of(variable), sharding)


# ---- how --------------------------------------------------------------------------------------------------------------


def _compiled(group: Group, known: dict[Any, Any]) -> Any:
    """One executable for the group; groups that compute the same share it."""
    place: dict[tuple[Any, bytes], int] = {}
    for index, (variable, node, position) in enumerate(group.inputs):
        place[variable, node.layouts[position]] = index
    made: dict[Any, tuple[int, int]] = {}
    calls: list[tuple[Executable, list[int | tuple[int, int]]]] = []
    for index, node in enumerate(group.nodes):
        sources: list[int | tuple[int, int]] = [
            made[variable] if variable in made else place[variable, layout]
            for variable, layout in zip(node.block.inputs, node.layouts, strict=True)
        ]
        calls.append((node.executable, sources))
        made.update({variable: (index, output) for output, variable in enumerate(node.block.outputs)})
    outputs = [made[variable] for variable, _, _ in group.outputs]
    lowered = jn.lower_calls(
        calls,
        [jn.shape_of(variable) for variable, _, _ in group.inputs],
        [node.executable.parameter_shardings[index] for _, node, index in group.inputs],
        outputs,
        [node.executable.result_shardings[index] for _, node, index in group.outputs],
        _donated(group),
    )
    options = group.nodes[0].executable.options
    key = (str(lowered.as_text()), tuple(sorted(options.items())), group.nodes[0].block.devices)
    if key not in known:
        known[key], _, _ = jn.compile_node(lowered, options)
    return known[key]


def _donated(group: Group) -> list[int]:
    """The inputs whose memory a result can have, because the last node that takes them donates them."""
    free = [_key(variable) for variable, _, _ in group.outputs]
    found: list[int] = []
    for index, (variable, _, _) in enumerate(group.inputs):
        readers = [node for node in group.nodes if variable in node.block.inputs]
        last = readers[-1]
        gives = all(at in last.executable.donate for at, each in enumerate(last.block.inputs) if each is variable)
        if gives and _key(variable) in free:
            free.remove(_key(variable))
            found.append(index)
    return found


def _key(variable: Any) -> tuple[Any, ...]:
    shape = jn.shape_of(variable)
    return shape.dtype, tuple(shape.shape)


def _write(message: programs_pb2.FusedGroup, group: Group, executable_id: int) -> None:
    message.graph = group.graph
    message.first_node, message.last_node = group.nodes[0].number, group.nodes[-1].number
    message.computation.executable_id = executable_id
    for variable, node, index in group.inputs:
        message.inputs.add(node=node.number, input=index)
        message.computation.parameters.append(_spec(variable, node.executable.parameter_shardings[index]))
    for variable, node, index in group.outputs:
        message.outputs.add(node=node.number, output=index)
        message.computation.results.append(_spec(variable, node.executable.result_shardings[index]))


# ---- when -------------------------------------------------------------------------------------------------------------


class _Worker:
    """Fuses one program after the other, in a thread that ends when there are none; the end of the process waits for one."""

    def __init__(self) -> None:
        self._jobs: deque[Fusion] = deque()
        self._changed = threading.Condition()
        self._running = False

    def add(self, fusion: Fusion) -> None:
        with self._changed:
            self._jobs.append(fusion)
            if self._running:
                return
            self._running = True
        try:
            threading.Thread(target=self._work, name="pathways-fusing").start()
        except RuntimeError:  # the process is ending, or may have no more threads: the user's call goes on without
            with self._changed:
                self._jobs.clear()
                self._running = False
                self._changed.notify_all()

    def drop(self) -> None:
        """Forgets what was not begun."""
        with self._changed:
            self._jobs.clear()

    def settle(self, timeout_s: float) -> bool:
        """Whether everything is done within this time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, timeout_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._jobs or not threading.main_thread().is_alive():
                    self._jobs.clear()
                    self._running = False
                    self._changed.notify_all()
                    return
                fusion = self._jobs.popleft()
            fusion.fuse()


_worker = _Worker()


def settle(timeout_s: float) -> bool:
    """Waits until what was begun in the background is done; for tests and measurements."""
    return _worker.settle(timeout_s)


def finish() -> None:
    """The connection is about to close: nothing more is begun, and what is being compiled ends first, or is given up."""
    _worker.drop()
    if not _worker.settle(FINISH_TIMEOUT_S):
        _LOG.warning("a program is still being fused; the connection closes under it")
