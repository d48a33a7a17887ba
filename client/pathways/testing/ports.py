"""Ports of this machine that stay ours while nobody listens on them, as between two lives of a controller.

A socket that is bound and does not listen holds each: the kernel gives its port to nobody who asks for any, and whoever binds the
port by number with SO_REUSEADDR, as servers do, may listen on it.
"""

from __future__ import annotations

import socket


class HeldPorts:
    """`numbers` are held until `close`."""

    def __init__(self, host: str, count: int) -> None:
        self._holders = [socket.socket() for _ in range(count)]
        for holder in self._holders:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind((host, 0))
        self.numbers: list[int] = [holder.getsockname()[1] for holder in self._holders]

    def close(self) -> None:
        """Lets them go."""
        for holder in self._holders:
            holder.close()
