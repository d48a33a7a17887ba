"""Workers and sessions over plain framed connections: the frames of their Connect, without a gRPC stream around each.

Who dials learns of the port from GetVersion. The preface names the service and holds the secret or token, the first frame is the
hello; both are small and due at once. From then on no task and no wait is between the socket and the loop: a frame that comes is
posted, and what the core sends leaves when the turn is over.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Protocol

from pathways_common.model.bounds import HELLO_TIMEOUT_NS, PENDING_REQUESTS_MAX, STOP_GRACE_NS
from pathways_common.model.failure import Failure, Reason, fail
from pathways_common.process.logs import fields
from pathways_common.rpc.auth import Check
from pathways_common.rpc.framed import FramedProtocol, read_preface

from pathways_server.shell.peer import Peer

_LOG = logging.getLogger(__name__)
# Hosts of a whole cluster that come at once.
_BACKLOG = 1024
_OURS = "ended by the controller"
# A connection whose frames wait to be read is looked at again after this: some slices of the turns.
_HOLD_S = 0.005


class Stream(Protocol):
    """One admitted end: its peer, and what it says."""

    @property
    def peer(self) -> Peer: ...

    @property
    def over(self) -> bool:
        """Whether it has said goodbye."""
        ...

    def take(self, data: bytes) -> None:
        """One frame; raises PathwaysError if it is malformed."""
        ...

    @property
    def crowded(self) -> bool:
        """Whether so many of its frames are not read yet that nothing more should be taken from the network."""
        ...

    def heard(self) -> None:
        """A sign of life came."""
        ...

    def fail(self, failure: Failure) -> bool:
        """It sent what is malformed. True if it was told so by its last words, which the peer sends."""
        ...

    def end(self, reason: str) -> None:
        """The connection is gone. Call it once."""
        ...


class Service(Protocol):
    """Admits who says hello."""

    def admit(
        self,
        first: bytes,
        attach: Callable[[Peer], None] | None = None,
        sent: str = "",
        sever: Callable[[], object] | None = None,
    ) -> Stream | bytes:
        """The stream behind a first frame, or the frame that refuses it. Raises PathwaysError if the frame is malformed.

        `sent`: the authorization of whoever comes, which has been checked. `sever`: ends the connection from this side.
        """
        ...

    def refused(self, failure: Failure) -> bytes:
        """The frame that says why nobody is admitted."""
        ...


@dataclass(frozen=True, slots=True)
class Entrance:
    """A service, and what says whether an authorization opens it. `check` None: whoever comes is admitted."""

    service: Service
    check: Check | None


class Links:
    """The listening port and its connections. `entrances` by the name of the service, as in a preface."""

    def __init__(self, entrances: Mapping[str, Entrance]) -> None:
        self.entrances = entrances
        self.connections: set[LinkConnection] = set()
        self.strangers = 0
        # Connections whose peers have news, until the turn of the loop is over.
        self._woken: list[LinkConnection] = []
        self._server: asyncio.Server | None = None

    def wake(self, connection: LinkConnection) -> None:
        """Its peer has news: it is flushed together with all others when the turn of the loop is over."""
        if not self._woken:
            asyncio.get_running_loop().call_soon(self._flush)
        self._woken.append(connection)

    def _flush(self) -> None:
        woken, self._woken = self._woken[::-1], []
        try:
            while woken:
                woken.pop().flush()
        finally:
            # A defect with one of them is told by the event loop, and the others go on.
            for connection in woken[::-1]:
                self.wake(connection)

    async def listen(self, host: str, port: int, tls: SSLContext | None = None) -> int:
        """Serves; the port. Raises PathwaysError with one sentence if it cannot be bound."""
        running = asyncio.get_running_loop()
        try:
            where = _where(host, port)
            self._server = await running.create_server(lambda: LinkConnection(self), **where, ssl=tls, backlog=_BACKLOG)
        except OSError as error:
            sentence = f"cannot listen on {host}:{port} for links ({error.strerror}); choose another --link-port"
            raise fail(Reason.INVALID_ARGUMENT, sentence, port=port) from error
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self, grace_s: float) -> None:
        """Takes nobody in any more, lets connections write what they have, and ends those that take too long."""
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_s):
                for connection in list(self.connections):
                    await connection.gone.wait()
        for connection in list(self.connections):
            connection.abort(_OURS)


def _where(host: str, port: int) -> dict[str, Any]:
    """What to listen on: an address for all stands for both families, as it does for gRPC beside it."""
    if host in ("::", "0.0.0.0") and socket.has_dualstack_ipv6():
        return {"sock": socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)}
    return {"host": host, "port": port}


class LinkConnection(FramedProtocol):
    """One worker or session from its preface to its end."""

    def __init__(self, links: Links) -> None:
        super().__init__()
        self._links = links
        self._entrance: Entrance | None = None
        self._stream: Stream | None = None
        self._reason = self._sent = ""
        self._flushing = self._leaving = False
        self._stranger = True
        self._hello_due: asyncio.TimerHandle | None = None
        self.gone = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody is there; who, it says in time."""
        super().connection_made(transport)
        self._links.connections.add(self)
        self._links.strangers += 1
        if self._links.strangers > PENDING_REQUESTS_MAX:
            self.abort("too many connections without a hello")
            return
        self._hello_due = asyncio.get_running_loop().call_later(HELLO_TIMEOUT_NS / 1e9, self._on_no_hello)

    def on_frame(self, data: bytes) -> None:
        """Preface, hello, then what the other end says."""
        stream = self._stream
        if stream is not None:
            if not stream.over:
                stream.take(data)
                if stream.over:
                    # It is told that its last words came, then the peer ends the stream.
                    asyncio.get_running_loop().call_later(STOP_GRACE_NS / 1e9, self.leave, "the stream ended")
                elif stream.crowded:
                    self.hold(True)
                    asyncio.get_running_loop().call_later(_HOLD_S, self._look_at_crowd)
        elif self._entrance is None:
            self._on_preface(data)
        elif not self._leaving:
            self._on_hello(data, self._entrance.service)

    def on_sign_of_life(self) -> None:
        """It lives, and says nothing else."""
        if self._stream is not None:
            self._stream.heard()

    def _look_at_crowd(self) -> None:
        assert self._stream is not None
        if self._stream.crowded and not self._leaving:
            asyncio.get_running_loop().call_later(_HOLD_S, self._look_at_crowd)
        else:
            self.hold(False)

    def _on_preface(self, data: bytes) -> None:
        name, sent = read_preface(data)
        entrance = self._links.entrances.get(name)
        if entrance is None:
            raise fail(Reason.INVALID_ARGUMENT, f"malformed message: no service {name[:40]!r} is linked here")
        self._entrance = entrance
        self._sent = sent
        problem = None if entrance.check is None else entrance.check(sent)
        if problem is not None:
            raise fail(Reason.UNAUTHENTICATED, problem)

    def _on_hello(self, data: bytes, service: Service) -> None:
        admitted = service.admit(data, self._attach, self._sent, self._sever)
        self._known()
        if isinstance(admitted, bytes):
            self.put(admitted)
            self.leave("")
            return
        self._stream = admitted
        self.trust()

    def _attach(self, peer: Peer) -> None:
        peer.attach(self._wake)

    def _sever(self) -> None:
        self.abort("another connection took its place")

    def on_malformed(self, failure: Failure) -> None:
        """The other end is told why, and the connection ends."""
        if self._stream is not None and self._stream.fail(failure):
            self._reason = failure.message
            self._stream.peer.finish(None)
            return
        # Who named no service is most likely a worker with something wrong.
        entrance = self._entrance or next(iter(self._links.entrances.values()))
        self.put(entrance.service.refused(failure))
        self.leave(failure.message)

    def _on_no_hello(self) -> None:
        seconds = HELLO_TIMEOUT_NS // 10**9
        self.on_malformed(Failure(Reason.TIMED_OUT, f"no hello came within {seconds} s", retryable=True))

    def _known(self) -> None:
        if self._hello_due is not None:
            self._hello_due.cancel()
        if self._stranger:
            self._stranger = False
            self._links.strangers -= 1

    # ---- towards the other end --------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._links.wake(self)

    def flush(self) -> None:
        """Sends what the peer has, in as few frames as the window allows."""
        self._flushing = False
        stream = self._stream
        if stream is None or self._leaving:
            return
        peer = stream.peer
        while self.ready and (frame := peer.next_frame()) is not None:
            self.put(frame)
        if peer.ending:
            if self.ready:
                self.leave(_OURS)
            else:  # the rest goes when there is room
                asyncio.get_running_loop().call_later(STOP_GRACE_NS / 1e9, self.abort, _OURS)

    def on_room(self) -> None:
        """The other end has caught up."""
        self._wake()

    def finish(self) -> None:
        """Nothing more comes from the controller: what its peer still has to say goes, then the connection ends."""
        self.flush()
        self.leave(_OURS)

    def leave(self, reason: str) -> None:
        """Ends the connection once what is written has left, or soon."""
        if not self._leaving:
            self._leaving = True
            self._reason = self._reason or reason
            self.close()
            asyncio.get_running_loop().call_later(STOP_GRACE_NS / 1e9, self.abort, reason)

    def on_end(self, reason: str) -> None:
        """The connection is gone."""
        self._links.connections.discard(self)
        self.gone.set()
        self._known()
        if self._stream is not None:
            self._stream.end(self._reason or reason)
        elif self._reason:
            _LOG.warning("not admitted", extra=fields(sentence=self._reason))
