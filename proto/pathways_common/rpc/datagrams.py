"""Datagrams in order with descriptors, between processes of one machine: how shared memory changes hands.

The sockets are abstract: their names are random, nothing of them stays in a file system, and they are found from the same network
namespace only.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import socket
from collections.abc import Callable, Sequence

# Requests and answers; a failure is the largest of them.
_DATAGRAM_BYTES = 1 << 16
_WAITING_MAX = 128
# Who connects waits so long while this process has no room for another connection.
_PAUSE_S = 1.0
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Datagrams:
    """One end of a connection, for one event loop. One task receives at a time, and one sends."""

    def __init__(self, end: socket.socket) -> None:
        end.setblocking(False)
        self._end = end

    async def send(self, data: bytes, descriptors: Sequence[int] = ()) -> None:
        """Raises OSError if the other end is gone."""
        while True:
            try:
                socket.send_fds(self._end, [data], list(descriptors))
                return
            except BlockingIOError:
                await self._until(writable=True)

    async def receive(self) -> tuple[bytes, list[int]] | None:
        """The next datagram and its descriptors, which are the caller's to close; None when the other end is gone."""
        while True:
            try:
                data, descriptors, _, _ = socket.recv_fds(self._end, _DATAGRAM_BYTES, 4, socket.MSG_CMSG_CLOEXEC)
            except BlockingIOError:
                await self._until(writable=False)
                continue
            except OSError:
                return None
            return (data, descriptors) if data or descriptors else None

    async def _until(self, writable: bool) -> None:
        loop, moment = asyncio.get_running_loop(), asyncio.Event()
        add, remove = (loop.add_writer, loop.remove_writer) if writable else (loop.add_reader, loop.remove_reader)
        add(self._end.fileno(), moment.set)
        try:
            await moment.wait()
        finally:
            remove(self._end.fileno())

    def close(self) -> None:
        """Ends the connection."""
        self._end.close()


async def receive_unless(peer: Datagrams, ended: asyncio.Event) -> bytes | None:
    """The next datagram, whose descriptors are closed; None when the other end is gone, or the event is set."""
    ending, receiving = asyncio.ensure_future(ended.wait()), asyncio.ensure_future(peer.receive())
    # Here, whoever is cancelled while they come.
    receiving.add_done_callback(_close_received)
    try:
        await asyncio.wait((ending, receiving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.cancel()
        receiving.cancel()
        await asyncio.wait((ending, receiving))
    received = None if receiving.cancelled() else receiving.result()
    return None if received is None else received[0]


def _close_received(receiving: asyncio.Task[tuple[bytes, list[int]] | None]) -> None:
    if not receiving.cancelled() and receiving.exception() is None and (received := receiving.result()) is not None:
        close_all(received[1])


def close_all(descriptors: Sequence[int]) -> None:
    """Lets go of what came with a datagram."""
    for descriptor in descriptors:
        os.close(descriptor)


class Listener:
    """Listens under a random name until it is closed; `on_connection` is called for each connection, on the event loop."""

    def __init__(self, on_connection: Callable[[Datagrams], object]) -> None:
        self.name = f"pathways-{secrets.token_hex(16)}"
        self._on_connection = on_connection
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        self._socket.bind(f"\0{self.name}")
        self._socket.listen(_WAITING_MAX)
        self._listen()

    def _listen(self) -> None:
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            end = self._socket.accept()[0]
        except OSError as error:
            if error.errno in _NO_ROOM:  # else it went away
                # It would be ready again at once, without an end.
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._socket.fileno())
                loop.call_later(_PAUSE_S, self._listen)
            return
        self._on_connection(Datagrams(end))

    def close(self) -> None:
        """Takes no more connections; those that are there stay."""
        if self._socket.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
