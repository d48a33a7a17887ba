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
from pathways_common.rpc.version import mismatch
from pathways_proto.v1 import sessions_pb2

from pathways_server.core import events
from pathways_server.rpc import handshake
from pathways_server.rpc.decode import OperationDecoder, client_frame
from pathways_server.rpc.form import bad, checked_words
from pathways_server.rpc.streams import accept, read_first, run_stream
from pathways_server.rpc.wire import frame
from pathways_server.shell.counters import Counters
from pathways_server.shell.loop import Loop
from pathways_server.shell.peer import SessionPeer

_LOG = logging.getLogger(__name__)
# Global ids are 64 bits, 40 of them the session's own.
_SESSION_NUMBER_MAX = (1 << 24) - 1


class SessionsService:
    """Serves Connect with undecoded frames: bytes in, bytes out."""

    def __init__(
        self, loop: Loop, decoder: OperationDecoder, counters: Counters, next_number: Callable[[], int], version: str
    ) -> None:
        self._loop = loop
        self._decoder = decoder
        self._counters = counters
        self._next_number = next_number
        self._version = version

    async def connect(self, _requests: Any, context: Any) -> None:
        """One session from hello to its end."""
        first = client_frame(await read_first(context, "client"))
        if not first.HasField("hello") or first.sequence:
            raise bad("the first frame must hold a hello alone and have sequence 0", first.sequence)
        hello = first.hello
        refusal = self._refusal(hello)
        if refusal is not None:
            _LOG.info("session refused", extra=fields(reason=refusal.reason.value, sentence=refusal.message))
            await context.write(handshake.session_refused_frame(refusal))
            return
        number = SessionNumber(self._next_number())
        peer = SessionPeer(number, secrets.token_hex(16), frame, self._counters, hello.plain)
        opened = events.SessionOpened(number, tuple(hello.islands), hello.client)
        _LOG.info("session opened", extra=fields(session=number, client=hello.client, islands=",".join(hello.islands)))
        self._loop.sessions[number] = peer
        self._loop.post((opened,))
        reason = "the connection broke"
        try:
            reason = await run_stream(
                context, peer, self._read(context, peer, hello.plain), lambda failure: self._loop.end_session(peer, failure)
            )
        except PathwaysError as error:
            reason = error.failure.message
            raise
        finally:
            closed = () if peer.said_goodbye else (events.SessionClosed(number, reason),)
            self._loop.post(closed, before=lambda: self._loop.leave_session(peer))
            _LOG.info("session closed", extra=fields(session=number, reason=reason))

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

    async def _read(self, context: Any, peer: SessionPeer, plain: bool) -> None:
        """Reads frames until the stream or the session ends. Those of a plain client are numbered here."""
        number, post, counters = peer.number, self._loop.post, self._counters
        while True:
            data = await context.read()
            if data is grpc.aio.EOF:
                return
            counters.frames_received += 1
            message = client_frame(data)
            if message.HasField("hello"):
                raise bad("a second hello", message.hello.client)
            operations = message.operations
            if plain:
                message.sequence, message.received = peer.link.received + 1, 0
            if accept(peer, message.sequence, message.received, len(operations)):
                if not peer.opened:
                    raise bad("operations before the welcome", len(operations))
                decoded = self._decoder.decode(number, operations)
                post(decoded, peer)
                if decoded and isinstance(decoded[-1], events.SessionClosed):
                    peer.said_goodbye = True
                    return
            else:
                peer.wake()
