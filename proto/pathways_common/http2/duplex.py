"""One end of a stream of messages, client's or server's: messages read one by one, or given to a conversation as they come.

What the peer sends ahead of whoever takes the messages is bounded by the stream's window.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from pathways_common.http2 import frames
from pathways_common.http2.connection import DataReceived
from pathways_common.http2.messages import MessageBuffer, MessageError, prefix_of, prefixed
from pathways_common.http2.wire import Wire
from pathways_common.rpc.conversation import Conversation
from pathways_common.rpc.moment import Moment

_LOG = logging.getLogger(__name__)
# Who writes more than this ahead of the peer waits.
_AHEAD_BYTES_MAX = 1 << 20
# A message under way is let in by pieces of at most this, whatever the stream's window is.
_LARGE_BYTES = 1 << 22
# What nobody waits for leaves with what somebody does, or after this: every send costs both ends a system call and a wake-up.
_MOMENT_NS = 3 * 10**6
# Or when there is so much of it: a peer that gets a lot at once has a lot to do at once.
_UNAWAITED_MAX = 64
INTERNAL = 13


class Duplex:
    """`finished`: nothing is sent any more. `_fail` is called when the peer sent what is no message."""

    def __init__(self) -> None:
        self.finished = False
        self._wire: Wire | None = None
        self._stream_id = 0
        self._incoming = MessageBuffer()
        self._messages: deque[bytes] = deque()
        self._owed_bytes = 0
        self._ended = False
        self._talk: Conversation | None = None
        self._halted = False
        self._dirty = False
        self._moment = Moment(self.answered, _MOMENT_NS)
        self._unawaited = 0
        self._readable = asyncio.Event()
        self._writable = asyncio.Event()

    def _fail(self, code: int, text: str) -> None:
        raise NotImplementedError

    # ---- from the connection ----------------------------------------------------------------------------------------

    def feed(self, event: DataReceived) -> None:
        """Data of the peer."""
        if self.finished:
            return
        self._owed_bytes += event.size_bytes
        try:
            messages = self._incoming.feed(event.data)
            if event.ended and self._incoming.partial:
                raise MessageError(INTERNAL, "the stream ended in the middle of a message")
        except MessageError as error:
            self._fail(error.code, error.text)
            return
        self._ended = self._ended or event.ended
        self._messages.extend(messages)
        if self._talk is not None:
            self._deliver(self._talk)
        if self._messages or self._ended:
            self._readable.set()
        if not self._messages:
            self._give_back()

    def _give_back(self) -> None:
        """Everything is taken in: the peer may send more."""
        if self._ended or self._wire is None:
            return
        if self._owed_bytes:
            self._wire.connection.consumed(self._stream_id, self._owed_bytes)
            self._owed_bytes = 0
        missing = self._incoming.missing_bytes
        if missing > frames.WINDOW_AT_FIRST:
            self._wire.connection.expect(self._stream_id, min(missing, _LARGE_BYTES))
        self._wire.wake()

    # ---- one by one -------------------------------------------------------------------------------------------------

    async def next_message(self) -> bytes | None:
        """The next message; None behind the last one."""
        while not self._messages:
            if self._ended:
                return None
            self._readable.clear()
            await self._readable.wait()
        message = self._messages.popleft()
        if not self._messages:
            self._give_back()
        return message

    def _send(self, *messages: bytes) -> None:
        if self.finished or self._wire is None:
            return
        connection = self._wire.connection
        if len(messages) == 1:
            connection.data(self._stream_id, prefix_of(messages[0]))
            connection.data(self._stream_id, messages[0])
        else:
            connection.data(self._stream_id, b"".join(map(prefixed, messages)))
        self._wire.wake()

    def _room_to_write(self) -> bool:
        return self._wire is None or self._wire.connection.pending_bytes(self._stream_id) <= _AHEAD_BYTES_MAX

    async def _until_writable(self) -> None:
        while self._wire is not None and not self._room_to_write():
            self._writable.clear()
            self._wire.when_sent(self._writable.set)
            await self._writable.wait()

    # ---- conversations ----------------------------------------------------------------------------------------------

    async def converse(self, talk: Conversation) -> None:
        """Gives every message to `talk` as it comes and sends what it has to say; returns when the peer has ended its side."""
        self._talk = talk
        self._deliver(talk)
        while self._halted or self._messages or not self._ended:
            if self._halted:
                await talk.room()
                await self._until_writable()
                self._halted = False
                self._deliver(talk)
                if not self._messages:
                    self._give_back()
            else:
                self._readable.clear()
                await self._readable.wait()
        self._collect()

    def answered(self, awaited: bool = True) -> None:
        """The conversation has something to say. It leaves in this loop turn, or if nobody waits for it within a moment."""
        if self._dirty or self._wire is None:
            return
        self._unawaited += 1
        if awaited or self._unawaited > _UNAWAITED_MAX:
            self._dirty = True
            self._wire.dirty(self._collect)
        else:
            self._moment.begin()

    def widen(self, window_bytes: int) -> None:
        """Lets the peer run further ahead than gRPC's first window."""
        if self._wire is not None:
            self._wire.connection.widen(self._stream_id, window_bytes)
            self._wire.wake()

    def _deliver(self, talk: Conversation) -> None:
        messages = self._messages
        while messages and not self._halted:
            try:
                talk.handle(messages.popleft())
            except Exception:
                _LOG.exception("a message could not be taken")
                messages.clear()
                self._fail(INTERNAL, "a message could not be taken; the log of the other end says why")
                return
            if talk.crowded or not self._room_to_write():
                self._halted = True
                self._readable.set()

    def _collect(self) -> None:
        self._dirty = False
        self._unawaited = 0
        self._moment.end()
        if self._talk is not None and not self.finished and (said := self._talk.take()):
            self._send(*said)
