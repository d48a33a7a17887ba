"""Records of what reads values: fetches, waits and copies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pathways_common.model.array import ArraySpec
from pathways_common.model.ids import FetchId, HostName
from pathways_common.model.sharding import Layout

if TYPE_CHECKING:
    from .records import Buffer, Part, Session


@dataclass(slots=True, eq=False)
class Fetch:
    number: int
    session: Session
    fetch_id: int
    buffers: tuple[Buffer, ...]
    shard: int
    size_bytes: int
    deadline_ns: int
    sent: bool = False
    linger_until_ns: int = 0
    lingers_since_ns: int = 0  # of `State.listened_ns`
    others: tuple[Part, ...] = ()  # read if this shard is lost before the answer
    held: bool = False  # the host is to keep the bytes where they are until it is told where they go


@dataclass(slots=True, eq=False)
class Wait:
    number: int
    session: Session
    wait_id: int
    buffers: tuple[Buffer, ...]
    parts: tuple[Part, ...]
    deadline_ns: int
    sent: bool = False
    hosts_due: dict[HostName, None] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Copy:
    """`order` is its place among the session's operations, for fences; `asked` that of what it was made for: itself, or the
    walk that wants it; 0: the core's own, which may be what any work waits for. Without `layouts`, shard i goes to shard i."""

    number: int
    session: Session
    buffers: tuple[Buffer, ...]
    parts: tuple[Part, ...]
    result: Buffer
    spec: ArraySpec
    deadline_ns: int
    order: int
    asked: int
    held_until_ns: int = 0
    sent: bool = False
    remaining: int = 0
    fetches: list[FetchId] = field(default_factory=list)
    layouts: tuple[Layout, Layout] | None = None
