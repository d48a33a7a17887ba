"""What the core gives away of a traced run: the names of its nodes and pieces, and what every host remembers of it."""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.failure import Failure
from pathways_common.model.ids import HostName, IslandName


@dataclass(frozen=True, slots=True)
class TracedNode:
    node: int
    name: str
    source: str
    island: str
    execution_id: int


@dataclass(frozen=True, slots=True)
class TracedPiece:
    execution_id: int
    label: str


@dataclass(frozen=True, slots=True)
class TraceReady:
    """The answer to TraceRequested. `hosts` are (host, island, serialized TraceCollected), per piece of a run that has pieces.

    Times are what `Core.step` was given, in nanoseconds.
    """

    request_id: int
    execution_id: int
    session: int
    program: str
    nodes: tuple[TracedNode, ...]
    hosts: tuple[tuple[HostName, IslandName, bytes], ...]
    requested_ns: int
    granted_ns: int
    failure: Failure | None
    pieces: tuple[TracedPiece, ...] = ()
    piece_count: int = 0
    late_hosts: tuple[HostName, ...] = ()
    lost_hosts: tuple[HostName, ...] = ()
