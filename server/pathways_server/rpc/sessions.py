"""The Sessions service: a session, over one connection after another. Frames become events; how it ends is told to the core."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from pathways_common.model.bounds import LIST_ITEMS_MAX, READ_FRAMES_MAX, SESSIONS_MAX, SLICE_EVENTS
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import SessionNumber
from pathways_common.process.logs import fields
from pathways_common.rpc.auth import authorization
from pathways_proto.v1 import sessions_pb2

from pathways_server.core import effects, events
from pathways_server.core.tenant_records import DEFAULT_TENANT, TenantName
from pathways_server.rpc import handshake
from pathways_server.rpc.attached import Attached, LinkTerms, Sever
from pathways_server.rpc.decode import OperationDecoder, client_frame
from pathways_server.rpc.form import bad, checked_words
from pathways_server.rpc.session_ids import SessionIds
from pathways_server.rpc.streams import acknowledge, read_first, run_stream
from pathways_server.rpc.versions import client_refusal, versions_of
from pathways_server.rpc.wire import frame
from pathways_server.shell.counters import Counters
from pathways_server.shell.loop import Loop
from pathways_server.shell.peer import Peer, SessionPeer
from pathways_server.shell.reading import Reading
from pathways_server.shell.tenant_book import TenantBook

_LOG = logging.getLogger(__name__)
# Global ids are 64 bits, 40 of them the session's own.
_SESSION_NUMBER_MAX = (1 << 24) - 1


class SessionStream:
    """One session: its frames go to the core, those of a plain client are numbered here. `peer` is the other direction.

    A frame is acknowledged when the core has handled it, so what a session sends faster than it is read stays with its door.
    `resumable`: it goes on when its connection breaks, until the core says that its lease has ended.
    """

    def __init__(
        self,
        loop: Loop,
        decoder: OperationDecoder,
        counters: Counters,
        peer: SessionPeer,
        plain: bool,
        tenant: TenantName = DEFAULT_TENANT,
        ids: SessionIds[SessionStream] | None = None,
    ) -> None:
        self.peer = peer
        self.tenant = tenant
        self.attached: Attached | None = None
        self.connection = 0  # the last that its client numbered
        self._ids = ids
        self._loop = loop
        self._decoder = decoder
        self._counters = counters
        self._plain = plain
        self._taken = 0
        # Events of the next frame that an earlier life of the controller has stepped.
        self.stepped_before = 0
        self._heard = False  # since the welcome
        self._reason = ""
        self._read: asyncio.Future[None] | None = None

    @property
    def session_id(self) -> str:
        """Random, a capability."""
        return self.peer.session_id

    @property
    def number(self) -> SessionNumber:
        """For people."""
        return self.peer.number

    def heard(self) -> None:
        """Nobody waits for a sign of life of a session."""

    async def settled(self) -> None:
        """Waits until what was taken has been read."""
        if not self._loop.reading.waiting(self.peer):
            return
        self._read = asyncio.get_running_loop().create_future()
        try:
            await self._read
        finally:
            self._read = None

    @property
    def over(self) -> bool:
        """Whether the client has said goodbye, or what cannot be."""
        return self.peer.said_goodbye or self._reason != ""

    @property
    def crowded(self) -> bool:
        """Whether it sends faster than it is read: doors never come near, a plain client may."""
        return self._loop.reading.waiting(self.peer) >= READ_FRAMES_MAX

    def take(self, data: bytes) -> None:
        """One frame; raises PathwaysError if it is malformed. What is malformed inside a long one is told later, by `fail`."""
        peer = self.peer
        self._counters.frames_received += 1
        self._heard = True
        message = client_frame(data)
        if message.HasField("hello"):
            raise bad("a second hello", message.hello.client)
        operations = message.operations
        if self._plain:
            message.sequence, message.received = self._taken + 1, 0
        if not acknowledge(peer, message.sequence, message.received, len(operations)) or message.sequence <= self._taken:
            peer.wake()
            return
        if message.sequence > self._taken + 1:
            raise bad(f"frame {self._taken + 1} is missing before frame", message.sequence)
        if not peer.opened:
            raise bad("operations before the welcome", len(operations))
        self._taken = message.sequence
        if len(operations) <= SLICE_EVENTS:
            decoded, more = self._decoder.decode(peer.number, operations), None
            self._note_goodbye(decoded)
        else:
            decoded, more = [], self._decode(operations, self.stepped_before)
        if decoded and type(decoded[0]) is events.CallbackReturned and type(decoded[-1]) is events.CallbackReturned:
            # A device waits for it; it stands in no order with what else the client sends.
            self._loop.post(decoded)
            decoded = []
        at, self.stepped_before = self.stepped_before, 0
        done = partial(self._done, message.sequence)
        stepped = data if decoded or more is not None else b""
        reading = Reading(decoded, more, done, self._failed, frame=stepped, sequence=message.sequence, at=at)
        self._loop.reading.add(peer, reading, ending=peer.said_goodbye)

    def restore(self, received: int, stepped_before: int) -> None:
        """As an earlier life of the controller left it."""
        self._taken, self.stepped_before, self._heard = received, stepped_before, True

    def _decode(self, operations: Sequence[Any], stepped: int) -> Iterator[list[events.Event]]:
        """A frame of many operations slice by slice; nothing of it reaches the core before all of it is decoded.

        `stepped`: so many were, in an earlier life of the controller.
        """
        held: list[events.Event] = []
        try:
            for start in range(0, len(operations), SLICE_EVENTS):
                if self.peer.said_goodbye:
                    raise bad("an operation after the goodbye", operations[start].WhichOneof("operation"))
                decoded = self._decoder.decode(self.peer.number, operations[start : start + SLICE_EVENTS])
                self._note_goodbye(decoded)
                self._decoder.let_go(decoded[: max(stepped - start, 0)])
                held += decoded
                yield decoded
        except PathwaysError:
            self._decoder.let_go(held[stepped:])
            raise

    def _note_goodbye(self, decoded: Sequence[events.Event]) -> None:
        if decoded and isinstance(decoded[-1], events.SessionClosed):
            self.peer.said_goodbye = True

    def _done(self, sequence: int) -> None:
        self.peer.link.accept(sequence)
        if self.peer.said_goodbye and sequence == self._taken:
            self.peer.finish_acknowledged()
        else:
            self.peer.wake()
        if self._read is not None and not self._read.done() and sequence == self._taken:
            self._read.set_result(None)

    def _failed(self, failure: Failure) -> None:
        if self._read is not None and not self._read.done():
            self._read.set_exception(PathwaysError(failure))
            return
        self._reason = failure.message
        self.fail(failure)

    def fail(self, failure: Failure) -> bool:
        """The client is told by the last words of its stream."""
        self._loop.end_session(self.peer, failure)
        return True

    def end(self, reason: str) -> None:
        """The connection is gone; what it said before is still heard."""
        peer = self.peer
        if self._ids is None or peer.said_goodbye or peer.ending or not self._heard:
            self.close(reason)
            return
        peer.detach()
        self._loop.post((events.SessionDetached(peer.number, reason),))
        _LOG.info("session waits for its client", extra=fields(session=peer.number, reason=reason))

    def close(self, reason: str) -> None:
        """Nobody can come back to it."""
        peer = self.peer
        if self._ids is not None:
            self._ids.end(self, "its client said goodbye" if peer.said_goodbye else reason)
        closed = [] if peer.said_goodbye else [events.SessionClosed(peer.number, reason)]
        self._loop.reading.add(peer, Reading(list(closed), before=lambda: self._loop.leave_session(peer)), ending=True)
        _LOG.info(
            "session closed",
            extra=fields(session=peer.number, reason=self._reason or ("goodbye" if peer.said_goodbye else reason)),
        )


def restarted_without(error: ValueError) -> Failure:
    """What was said on a link before a restart and what is known of it do not fit."""
    sentence = f"the controller was restarted and lost a part of the session ({error}); connect again, its values are gone"
    return Failure(Reason.UNAVAILABLE, sentence, retryable=True)


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
        terms: LinkTerms,
    ) -> None:
        self._loop = loop
        self._decoder = decoder
        self._counters = counters
        self._next_number = next_number
        self._version = version
        self._book = book
        self._terms = terms
        self._ids: SessionIds[SessionStream] = SessionIds(terms.term)
        loop.carry_out(effects.LeaseEnded, self._on_lease_ended)

    async def connect(self, _requests: Any, context: Any) -> None:
        """One session from hello to its end."""
        first = await read_first(context, "client")
        severed = asyncio.Event()
        admitted = self.admit(first, sent=authorization(context.invocation_metadata()), sever=severed.set)
        if isinstance(admitted, bytes):
            await context.write(admitted)
            return
        reason = "the connection broke"
        try:
            reason = await run_stream(context, admitted.peer, admitted.read(context), severed, admitted.fail)
        except PathwaysError as error:
            reason = error.failure.message
            raise
        finally:
            admitted.end(reason)

    def admit(
        self, first: bytes, attach: Callable[[Peer], None] | None = None, sent: str = "", sever: Sever | None = None
    ) -> Attached | bytes:
        """The session behind a first frame opens or goes on; or the frame that refuses it.

        `sent`: the authorization that came with it; whose token that is, is the session's tenant. `sever`: ends the connection.
        Raises PathwaysError for a malformed frame.
        """
        message = client_frame(first)
        if not message.HasField("hello") or message.sequence:
            raise bad("the first frame must hold a hello alone and have sequence 0", message.sequence)
        hello = message.hello
        tenant = self._tenant_of(hello, sent)
        if isinstance(tenant, Failure):
            _LOG.info("session refused", extra=fields(reason=tenant.reason.value, sentence=tenant.message))
            return self.refused(tenant)
        if hello.session_id:
            return self._go_on(message, tenant, attach, sever)
        number = SessionNumber(self._next_number())
        peer = SessionPeer(number, secrets.token_hex(16), frame, self._counters, hello.plain, tenant)
        if attach is not None:
            attach(peer)
        opened = events.SessionOpened(number, tuple(hello.islands), hello.client, tenant)
        values = fields(session=number, tenant=tenant, client=hello.client, islands=",".join(hello.islands))
        _LOG.info("session opened", extra=values)
        peer.lease_ns = self._terms.lease_ns if hello.resumable and not hello.plain else 0
        self._loop.enter_session(peer)
        self._loop.post((opened,))
        return Attached(self.stream_of(peer), sever)

    def stream_of(self, peer: SessionPeer) -> SessionStream:
        """What takes the frames of a session; it can be gone on with if it has a lease."""
        ids = self._ids if peer.lease_ns else None
        stream = SessionStream(self._loop, self._decoder, self._counters, peer, peer.plain, peer.tenant, ids)
        if ids is not None:
            peer.term, peer.on_ended = self._terms.term, stream.close
            peer.orphan_ns = self._terms.orphan_ns
            ids.add(stream)
        return stream

    def forget(self, stream: SessionStream) -> None:
        """It ended in an earlier life of the controller."""
        self._ids.end(stream, "it had ended before the controller was started again")

    def _go_on(
        self, message: sessions_pb2.ClientFrame, tenant: TenantName, attach: Callable[[Peer], None] | None, sever: Sever | None
    ) -> Attached | bytes:
        """The client is back, maybe before its earlier connection was seen to break."""
        hello = message.hello
        stream = self._ids.find(hello)
        if not isinstance(stream, Failure) and stream.tenant != tenant:
            stream = Failure(Reason.UNAUTHENTICATED, f"the session is of another tenant than {tenant}: use that tenant's token")
        elif not isinstance(stream, Failure) and hello.connection <= stream.connection:
            stream = Failure(Reason.UNAVAILABLE, "a later connection of the session was heard before this one")
        if isinstance(stream, Failure):
            _LOG.info("session not resumed", extra=fields(sentence=stream.message))
            return self.refused(stream)
        peer = stream.peer
        if peer.restored:
            try:
                peer.rebase(message.received, hello.received_operations)
            except ValueError as error:
                self._loop.end_session(peer, restarted_without(error))
                return self.refused(restarted_without(error))
        if not 0 <= message.received <= peer.link.sent:
            raise bad("an acknowledgement of what was not sent", message.received)
        stream.connection = hello.connection
        attached = Attached(stream, sever)
        (attach or Peer.attach_writer)(peer)
        peer.resume(handshake.session_resumed_frame(peer, self._version), message.received)
        self._loop.post((events.SessionResumed(peer.number),))
        _LOG.info("session resumed", extra=fields(session=peer.number, connection=hello.connection))
        return attached

    def _on_lease_ended(self, effect: effects.LeaseEnded) -> None:
        peer = self._loop.sessions.get(effect.session)
        if peer is not None:
            self._loop.end_session(peer, effect.failure)

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
        versions = versions_of(hello)
        if len(hello.islands) > LIST_ITEMS_MAX:
            raise bad("hello.islands is too long", len(hello.islands))
        for island in hello.islands:
            checked_words(island, "hello.islands")
        if not hello.session_id and len(self._loop.sessions) >= SESSIONS_MAX:
            sentence = f"the controller has {SESSIONS_MAX} sessions already; end one of them or try again later"
            return Failure(Reason.RESOURCE_EXHAUSTED, sentence, retryable=True)
        return client_refusal(versions, self._loop.hosts.values())
