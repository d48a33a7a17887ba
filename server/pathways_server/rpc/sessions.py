"""The Sessions service: one stream, one session. Frames become events; the session's end is always told to the core."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import Any

import grpc.aio
from pathways_common.model.bounds import LIST_ITEMS_MAX, SESSIONS_MAX
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import SessionNumber
from pathways_common.process.logs import fields
from pathways_common.rpc.auth import authorization
from pathways_common.rpc.version import mismatch
from pathways_proto.v1 import sessions_pb2

from pathways_server.core import events
from pathways_server.core.tenant_records import TenantName
from pathways_server.rpc import handshake
from pathways_server.rpc.decode import OperationDecoder, client_frame
from pathways_server.rpc.form import bad, checked_words
from pathways_server.rpc.streams import accept, read_first, run_stream
from pathways_server.rpc.wire import frame
from pathways_server.shell.counters import Counters
from pathways_server.shell.loop import Loop
from pathways_server.shell.peer import Peer, SessionPeer
from pathways_server.shell.tenant_book import TenantBook

_LOG = logging.getLogger(__name__)
# Global ids are 64 bits, 40 of them the session's own.
_SESSION_NUMBER_MAX = (1 << 24) - 1


class SessionStream:
    """One session: its frames go to the core, those of a plain client are numbered here. `peer` is the other direction."""

    def __init__(self, loop: Loop, decoder: OperationDecoder, counters: Counters, peer: SessionPeer, plain: bool) -> None:
        self.peer = peer
        self._loop = loop
        self._decoder = decoder
        self._counters = counters
        self._plain = plain

    async def read(self, context: Any) -> None:
        """Takes frames until the stream or the session ends."""
        while not self.over and (data := await context.read()) is not grpc.aio.EOF:
            self.take(data)

    @property
    def over(self) -> bool:
        """Whether the client has said goodbye."""
        return self.peer.said_goodbye

    def take(self, data: bytes) -> None:
        """One frame; raises PathwaysError if it is malformed."""
        peer = self.peer
        self._counters.frames_received += 1
        message = client_frame(data)
        if message.HasField("hello"):
            raise bad("a second hello", message.hello.client)
        operations = message.operations
        if self._plain:
            message.sequence, message.received = peer.link.received + 1, 0
        if not accept(peer, message.sequence, message.received, len(operations)):
            peer.wake()
            return
        if not peer.opened:
            raise bad("operations before the welcome", len(operations))
        decoded = self._decoder.decode(peer.number, operations)
        self._loop.post(decoded, peer)
        if decoded and isinstance(decoded[-1], events.SessionClosed):
            peer.said_goodbye = True

    def fail(self, failure: Failure) -> bool:
        """The client is told by the last words of its stream."""
        self._loop.end_session(self.peer, failure)
        return True

    def end(self, reason: str) -> None:
        """The stream is gone. Call it once."""
        peer = self.peer
        closed = () if peer.said_goodbye else (events.SessionClosed(peer.number, reason),)
        self._loop.post(closed, before=lambda: self._loop.leave_session(peer))
        _LOG.info("session closed", extra=fields(session=peer.number, reason=reason))


class SessionsService:
    """Admits clients. Serves Connect with undecoded frames: bytes in, bytes out."""

    def __init__(
        self,
        loop: Loop,
        decoder: OperationDecoder,
        counters: Counters,
        next_number: Callable[[], int],
        version: str,
        book: TenantBook,
    ) -> None:
        self._loop = loop
        self._decoder = decoder
        self._counters = counters
        self._next_number = next_number
        self._version = version
        self._book = book

    async def connect(self, _requests: Any, context: Any) -> None:
        """One session from hello to its end."""
        first = await read_first(context, "client")
        admitted = self.admit(first, sent=authorization(context.invocation_metadata()))
        if isinstance(admitted, bytes):
            await context.write(admitted)
            return
        reason = "the connection broke"
        try:
            reason = await run_stream(context, admitted.peer, admitted.read(context), admitted.fail)
        except PathwaysError as error:
            reason = error.failure.message
            raise
        finally:
            admitted.end(reason)

    def admit(self, first: bytes, attach: Callable[[Peer], None] | None = None, sent: str = "") -> SessionStream | bytes:
        """The session behind a first frame opens; or the frame that refuses it. Raises PathwaysError for a malformed frame.

        `sent`: the authorization that came with it; whose token that is, is the session's tenant.
        """
        message = client_frame(first)
        if not message.HasField("hello") or message.sequence:
            raise bad("the first frame must hold a hello alone and have sequence 0", message.sequence)
        hello = message.hello
        tenant = self._tenant_of(hello, sent)
        if isinstance(tenant, Failure):
            _LOG.info("session refused", extra=fields(reason=tenant.reason.value, sentence=tenant.message))
            return self.refused(tenant)
        number = SessionNumber(self._next_number())
        peer = SessionPeer(number, secrets.token_hex(16), frame, self._counters, hello.plain)
        if attach is not None:
            attach(peer)
        opened = events.SessionOpened(number, tuple(hello.islands), hello.client, tenant)
        values = fields(session=number, tenant=tenant, client=hello.client, islands=",".join(hello.islands))
        _LOG.info("session opened", extra=values)
        self._loop.sessions[number] = peer
        self._loop.post((opened,))
        return SessionStream(self._loop, self._decoder, self._counters, peer, hello.plain)

    def _tenant_of(self, hello: sessions_pb2.Hello, sent: str) -> TenantName | Failure:
        """Whose session it will be, or why not. An administrator, or anybody where there are no tokens, may name a tenant."""
        refusal = self._refusal(hello)
        if refusal is not None:
            return refusal
        named = checked_words(hello.tenant, "hello.tenant")
        caller = self._book.tokens.caller(sent)
        if caller is None:
            return Failure(Reason.UNAUTHENTICATED, self._book.tokens.problem(sent) or "")
        if not named or named == caller.tenant:
            return caller.tenant
        if not caller.administrator:
            sentence = f"the token belongs to tenant {caller.tenant} and cannot open a session of tenant {named!r}"
            return Failure(Reason.UNAUTHENTICATED, f"{sentence}: unset PATHWAYS_TENANT, or use that tenant's token")
        return TenantName(named) if named in self._book else self._book.unknown(named)

    def refused(self, failure: Failure) -> bytes:
        """The frame that says why a client is not admitted."""
        return handshake.session_refused_frame(failure)

    def _refusal(self, hello: sessions_pb2.Hello) -> Failure | None:
        """Why a hello is not accepted; raises PathwaysError if it is malformed."""
        checked_words(hello.client, "hello.client")
        checked_words(hello.pathways_version, "hello.pathways_version")
        if len(hello.islands) > LIST_ITEMS_MAX:
            raise bad("hello.islands is too long", len(hello.islands))
        for island in hello.islands:
            checked_words(island, "hello.islands")
        if hello.session_id:
            return Failure(Reason.UNAVAILABLE, "that session ended with its connection; connect anew and run the program again")
        if len(self._loop.sessions) >= SESSIONS_MAX:
            sentence = f"the controller has {SESSIONS_MAX} sessions already; end one of them or try again later"
            return Failure(Reason.RESOURCE_EXHAUSTED, sentence, retryable=True)
        return mismatch(self._version, hello.pathways_version, "client")
