"""The daemon's end of the pair on which an executor is handed shared memory of clients. Orders leave in order."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from contextlib import suppress

from pathways_proto.v1 import segments_pb2


class SegmentPair:
    """`theirs` is what the child inherits; `handed_over` when it has."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)
        # Descriptors in here are copies of ours, until they are sent.
        self._waiting: deque[tuple[bytes, int]] = deque()

    def handed_over(self) -> None:
        """The child has its own descriptor now, or will not come to be."""
        self.theirs.close()

    def send(self, order: segments_pb2.SegmentUse, descriptor: int = -1) -> None:
        """Sends an order, with a descriptor that stays the caller's; what a dead process misses, nobody misses."""
        if self._ours.fileno() < 0:
            return
        payload = order.SerializeToString()
        if self._waiting or not self._sent(payload, descriptor):
            if not self._waiting:
                asyncio.get_running_loop().add_writer(self._ours.fileno(), self._go_on)
            self._waiting.append((payload, os.dup(descriptor) if descriptor >= 0 else -1))

    def _sent(self, payload: bytes, descriptor: int) -> bool:
        try:
            socket.send_fds(self._ours, [payload], [descriptor] if descriptor >= 0 else [])
        except BlockingIOError:
            return False
        except OSError:
            pass  # it is gone
        return True

    def _go_on(self) -> None:
        while self._waiting and self._sent(*self._waiting[0]):
            _close(self._waiting.popleft()[1])
        if not self._waiting:
            asyncio.get_running_loop().remove_writer(self._ours.fileno())

    def close(self) -> None:
        """The process is gone."""
        if self._ours.fileno() < 0:
            return
        if self._waiting:
            asyncio.get_running_loop().remove_writer(self._ours.fileno())
        while self._waiting:
            _close(self._waiting.popleft()[1])
        self._ours.close()
        self.theirs.close()


def _close(descriptor: int) -> None:
    with suppress(OSError):
        if descriptor >= 0:
            os.close(descriptor)
