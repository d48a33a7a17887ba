"""One connection of a stream that may have several, one after the other. Once another has taken its place it is deaf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import grpc.aio
from pathways_common.model.bounds import ORPHAN_NS
from pathways_common.model.failure import Failure

from pathways_server.shell.peer import Peer

Sever = Callable[[], object]


class LinkTerms(NamedTuple):
    """What streams are promised: `term` is the life of the controller that promises it."""

    term: int
    lease_ns: int
    grace_ns: int
    orphan_ns: int = ORPHAN_NS


class Resumable(Protocol):
    """A session or a host: what outlives its connections."""

    attached: Attached | None

    @property
    def peer(self) -> Peer: ...

    @property
    def over(self) -> bool: ...

    @property
    def crowded(self) -> bool: ...

    def take(self, data: bytes) -> None: ...

    async def settled(self) -> None:
        """Waits until what was taken has been read, where that is waited for."""

    def heard(self) -> None:
        """The other end gave a sign of life."""

    def fail(self, failure: Failure) -> bool: ...

    def end(self, reason: str) -> None:
        """The connection that it has is gone."""


class Attached:
    """What a connection sees of its stream. `sever` ends the connection from this side."""

    def __init__(self, stream: Resumable, sever: Sever | None) -> None:
        self._stream = stream
        self._sever = sever or _nothing
        before, stream.attached = stream.attached, self
        if before is not None:
            before.sever()

    def sever(self) -> None:
        """Another connection has taken its place, or nobody wants it any more."""
        self._sever()

    @property
    def current(self) -> bool:
        """Whether it is the stream's connection still."""
        return self._stream.attached is self

    @property
    def peer(self) -> Peer:
        """The other direction."""
        return self._stream.peer

    @property
    def over(self) -> bool:
        """Whether nothing more is read from it."""
        return not self.current or self._stream.over

    @property
    def crowded(self) -> bool:
        """Whether nothing more should be taken from the network for now."""
        return self.current and self._stream.crowded

    async def read(self, context: Any) -> None:
        """Takes frames until the call, or the stream, ends."""
        while not self.over and (data := await context.read()) is not grpc.aio.EOF:
            self.take(data)
            await self._stream.settled()

    def take(self, data: bytes) -> None:
        """One frame; raises PathwaysError if it is malformed."""
        if self.current:
            self._stream.take(data)

    def heard(self) -> None:
        """A sign of life came."""
        if self.current:
            self._stream.heard()

    def fail(self, failure: Failure) -> bool:
        """It sent what is malformed. True if it was told so by its last words."""
        return self.current and self._stream.fail(failure)

    def end(self, reason: str) -> None:
        """The connection is gone. Call it once."""
        if self.current:
            self._stream.attached = None
            self._stream.end(reason)


def _nothing() -> None:
    """There is nothing to end."""
