"""What a client can get wrong in the computations and specs of a program, found before anything is lowered.

A spec is resolved once, however often it is named. Two specs with the same number are the same type, shape and layout on the same
devices in the same kind of memory, however they spell it: between such two nothing has to be moved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.model.graph import Computation, Program
from pathways_common.model.ids import GlobalId, local_id
from pathways_common.model.sharding import layout_of

from . import programs
from .placements import resolve
from .plan import PlacedSpec
from .records import Executable, Placement, Session
from .state import State


@dataclass(frozen=True, slots=True)
class Laid:
    """A checked spec."""

    number: int
    placed: PlacedSpec

    @property
    def spec(self) -> ArraySpec:
        return self.placed.spec


@dataclass(frozen=True, slots=True)
class Ready:
    """A checked computation."""

    executable: Executable
    parameters: tuple[Laid, ...]
    results: tuple[Laid, ...]


class Specs:
    """The specs of one program. Everything raises PathwaysError with what is wrong."""

    def __init__(self, state: State, session: Session, program: Program) -> None:
        self._state = state
        self._session = session
        self._devices = dict.fromkeys(program.devices)
        self._placements: dict[tuple[int, ...], Placement] = {}
        self._known: dict[ArraySpec, Laid] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        if len(self._devices) != len(program.devices):
            raise fail(Reason.INVALID_ARGUMENT, "the list of the program's devices names one twice; name every device once")

    def laid(self, spec: ArraySpec, noun: str) -> Laid:
        """`noun` says whose spec it is."""
        known = self._known.get(spec)
        if known is None:
            known = self._known[spec] = self._check(spec, noun)
        return known

    def placement(self, devices: tuple[int, ...], noun: str) -> Placement:
        known = self._placements.get(devices)
        if known is None:
            found = resolve(self._state, self._session, devices, noun)
            if isinstance(found, Failure):
                raise PathwaysError(found)
            for device in devices:
                if device not in self._devices:
                    message = f"{noun} names device {device}, which is not in the list of the program's devices; add it there"
                    raise fail(Reason.INVALID_ARGUMENT, message, device=device)
            known = self._placements[devices] = found
        return known

    def _check(self, spec: ArraySpec, noun: str) -> Laid:
        placement = self.placement(spec.devices, noun)
        layout = layout_of(spec.sharding, spec.shape, len(spec.devices))
        if layout.shard_shape != spec.shard_shape:
            message = f"a shard of {noun} is {list(spec.shard_shape)}; its sharding makes it {list(layout.shard_shape)}"
            raise fail(Reason.INVALID_ARGUMENT, message)
        kinds = placement.island.memory_kinds
        if spec.memory_kind and spec.memory_kind not in kinds:
            message = (
                f"{noun} lies in memory {spec.memory_kind!r}; devices of island {placement.island.name} have {', '.join(kinds)}"
            )
            raise fail(Reason.INVALID_ARGUMENT, message, memory_kind=spec.memory_kind, island=placement.island.name)
        memory = "" if kinds and spec.memory_kind == kinds[0] else spec.memory_kind
        key = (placement, spec.dtype, spec.shape, layout.tiles, layout.tile_at, memory)
        number = self._numbers.setdefault(key, len(self._numbers))
        return Laid(number, PlacedSpec(replace(spec, devices=placement.positions), placement))


def ready(state: State, session: Session, specs: Specs, position: int, computation: Computation) -> Ready:
    """Compares what a program says of a computation with what its executable is."""
    executable = _executable(state, session, computation.executable_id)
    facts = executable.facts
    assert facts is not None
    noun = f"computation {position} (program {local_id(executable.id)})"
    count = len(computation.parameters)
    if facts.parameter_count not in (-1, count):
        message = f"{noun} takes {facts.parameter_count} arguments and its specs name {count}; give one spec for each"
        raise fail(Reason.INVALID_ARGUMENT, message, expected=facts.parameter_count, got=count)
    sizes = tuple(spec.shard_bytes for spec in computation.results)
    if sizes:
        if len(sizes) != facts.output_count:
            message = f"{noun} has {facts.output_count} results and its specs name {len(sizes)}; give one spec for each"
            raise fail(Reason.INVALID_ARGUMENT, message, expected=facts.output_count, got=len(sizes))
        for index, (size, known) in enumerate(zip(sizes, facts.output_shard_bytes, strict=True)):
            if size != known:
                message = f"a shard of result {index} of {noun} has {known} bytes and its spec says {size}; correct the spec"
                raise fail(Reason.INVALID_ARGUMENT, message, expected=known, got=size)
    elif facts.output_count > 1 or any(facts.output_shard_bytes):  # a program without outputs has one result without bytes
        message = f"{noun} has {facts.output_count} results and its specs name none; give one spec for each"
        raise fail(Reason.INVALID_ARGUMENT, message, expected=facts.output_count, got=0)
    parameters = tuple(
        _own(specs, spec, executable, f"parameter {index} of {noun}") for index, spec in enumerate(computation.parameters)
    )
    results = tuple(_own(specs, spec, executable, f"result {index} of {noun}") for index, spec in enumerate(computation.results))
    return Ready(executable, parameters, results)


def _own(specs: Specs, spec: ArraySpec, executable: Executable, noun: str) -> Laid:
    laid = specs.laid(spec, noun)
    if laid.placed.placement is not executable.placement:
        message = f"{noun} does not lie on the executable's devices in their order; name those it was compiled for"
        raise fail(Reason.INVALID_ARGUMENT, message)
    return laid


def _executable(state: State, session: Session, identifier: GlobalId) -> Executable:
    executable = session.executables.get(identifier)
    if executable is None:
        raise PathwaysError(programs.unknown(state, identifier))
    if failure := executable.failure or executable.ended:
        raise PathwaysError(failure)
    if executable.facts is None:
        number = local_id(identifier)
        raise fail(Reason.UNAVAILABLE, f"program {number} is still being compiled; try again", retryable=True, executable=number)
    return executable
