"""One HTTP/2 connection with its socket, in an event loop.

Everything that one loop turn has to say leaves in one send: what a read brings about goes out at the end of that read, all else
at the end of the turn. A peer that is silent is pinged, and one that stays silent is gone.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

from pathways_common.http2.connection import Connection, Event
from pathways_common.model.bounds import KEEPALIVE_NS, KEEPALIVE_TIMEOUT_NS
from pathways_common.rpc.keepalive import keepalive_ns

_LOG = logging.getLogger(__name__)
# As gRPC's own end has them (rpc/channels.py): a ping after the one, and so long for its answer.
_PING_NS = keepalive_ns()
_ANSWER_NS = _PING_NS * KEEPALIVE_TIMEOUT_NS // KEEPALIVE_NS
# Data given to the socket at once, and what it may hold before it takes no more.
_SEND_BYTES = 1 << 18
# Answers to pings and settings for a peer that does not read them.
_CONTROL_BYTES_MAX = 1 << 20


class Wire(asyncio.Protocol):
    """`on_event` gets what the peer says, `on_lost` why it will say no more."""

    def __init__(self, server: bool, on_event: Callable[[Event], None], on_lost: Callable[[str], None]) -> None:
        self.connection = Connection(server)
        self._on_event = on_event
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._paused = False
        self._busy = False
        self._scheduled = False
        self._why = "the connection was lost"
        self._heard = True
        self._pinged = False
        self._timer: asyncio.TimerHandle | None = None
        # Called before what is to be sent is collected, once each.
        self._dirty: list[Callable[[], None]] = []
        # Called when something has left, once each.
        self._when_sent: list[Callable[[], None]] = []

    # ---- asyncio's callbacks ----------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Says hello."""
        self._transport = transport
        transport.set_write_buffer_limits(high=_SEND_BYTES)
        connected = transport.get_extra_info("socket")
        if connected is not None and connected.family != socket.AF_UNIX:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._timer = self._loop.call_later(_PING_NS / 1e9, self._keep_alive)
        self.flush()

    def data_received(self, data: bytes) -> None:
        """Handles all of it, then sends all that came of it."""
        self._heard = True
        self._busy = True
        try:
            for event in self.connection.receive(data):
                self._on_event(event)
        except Exception:
            self._give_up()
            return
        finally:
            self._busy = False
        self.flush()
        if self.connection.failed is not None:
            self.close(self.connection.failed.text)

    def eof_received(self) -> None:
        """The peer will say no more, so nothing of it can be finished."""
        self._why = "the connection was closed"

    def connection_lost(self, error: Exception | None) -> None:
        """Tells the owner."""
        if self._timer is not None:
            self._timer.cancel()
        self._transport = None
        self._dirty.clear()
        self._on_lost(f"{self._why}: {error}" if error is not None else self._why)

    def pause_writing(self) -> None:
        """The socket takes no more for now."""
        self._paused = True

    def resume_writing(self) -> None:
        """It does again."""
        self._paused = False
        self.flush()

    # ---- sending ----------------------------------------------------------------------------------------------------

    def dirty(self, collect: Callable[[], None]) -> None:
        """`collect` will be called before this turn's send."""
        self._dirty.append(collect)
        self.wake()

    def when_sent(self, told: Callable[[], None]) -> None:
        """`told` will be called when something has left."""
        self._when_sent.append(told)

    def wake(self) -> None:
        """There is something to send; it leaves in this loop turn."""
        if not self._busy and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush_scheduled)

    def _flush_scheduled(self) -> None:
        self._scheduled = False
        self.flush()

    def flush(self) -> None:
        """Sends what can be sent now."""
        if self._dirty:
            self._collect()
        if self._transport is None or self._transport.is_closing():
            return
        connection = self.connection
        sent = False
        while not self._paused and (out := connection.take(_SEND_BYTES)):
            self._transport.write(b"".join(out))
            sent = True
        if self._paused and connection.control_bytes > _CONTROL_BYTES_MAX:
            self.abort("the peer does not read what it asked for")
        elif sent and self._when_sent:
            waiting, self._when_sent = self._when_sent, []
            for told in waiting:
                told()

    def _collect(self) -> None:
        self._busy = True
        try:
            while self._dirty:
                collects, self._dirty = self._dirty, []
                for collect in collects:
                    collect()
        except Exception:
            self._give_up()
        finally:
            self._busy = False

    # ---- the end ----------------------------------------------------------------------------------------------------

    def close(self, why: str) -> None:
        """Ends the connection behind what was given to the socket."""
        self._why = why
        if self._transport is not None:
            self._transport.close()

    def abort(self, why: str) -> None:
        """Ends the connection now."""
        self._why = why
        if self._transport is not None:
            self._transport.abort()

    def _give_up(self) -> None:
        """An error of ours: whoever is at the other end learns that it is over instead of waiting."""
        _LOG.exception("a connection failed")
        self.abort("an error on this side")

    def _keep_alive(self) -> None:
        wait_ns = _PING_NS
        if self._heard:
            self._heard = self._pinged = False
        elif not self._pinged:
            self._pinged = True
            self.connection.ping()
            self.flush()
            wait_ns = _ANSWER_NS
        else:
            self.abort(f"the peer was silent for {(_PING_NS + _ANSWER_NS) / 1e9:g} s")
            return
        self._timer = self._loop.call_later(wait_ns / 1e9, self._keep_alive)
