"""One call of `pw.fetch` or `pw.put` on the socket of the door: memory goes there as descriptors, arrays are answered."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator

from pathways_common.process.segments import connect
from pathways_proto.v1 import door_pb2

from pathways import errors

# The cluster's own deadlines come first, with better words.
_GREETING_S = 30.0
_ANSWER_S = 2 * 3600.0
_DATAGRAM_BYTES = 1 << 16
_numbers = itertools.count(1)


class BulkCall:
    """Use it as a context manager; its end tells the door that nobody waits any more."""

    def __init__(self, bulk_socket: str, secret: str) -> None:
        self.number = next(_numbers)
        self._waiting = 0
        end = connect(bulk_socket)
        if end is None:
            raise _gone()
        self._end = end
        self._end.settimeout(_GREETING_S)
        self._send(door_pb2.BulkCall(secret=secret, number=self.number).SerializeToString())
        if not self._receive().opened:
            raise _gone()
        self._end.settimeout(_ANSWER_S)

    def __enter__(self) -> BulkCall:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Nobody waits any more."""
        self._end.close()

    def bring(self, position: int, descriptor: int, size_bytes: int) -> None:
        """Gives an array its segment."""
        self._waiting += 1
        self._send(door_pb2.BulkSegment(position=position, size_bytes=size_bytes).SerializeToString(), descriptor)

    def filled(self, position: int, filled_bytes: int) -> None:
        """Of a put: so much of the segment may be taken."""
        self._send(door_pb2.BulkSegment(position=position, filled_bytes=filled_bytes).SerializeToString())

    def answers(self) -> Iterator[door_pb2.BulkAnswer]:
        """One for each read, in whatever order."""
        while self._waiting:
            self._waiting -= 1
            yield self._receive()

    def _send(self, data: bytes, *descriptors: int) -> None:
        try:
            socket.send_fds(self._end, [data], list(descriptors))
        except OSError as error:
            raise _gone() from error

    def _receive(self) -> door_pb2.BulkAnswer:
        try:
            data = self._end.recv(_DATAGRAM_BYTES)
        except TimeoutError:
            raise errors.TimedOutError("the door of this process did not answer a bulk call; look at `pathways status`") from None
        except OSError as error:
            raise _gone() from error
        if not data:
            raise _gone()
        return door_pb2.BulkAnswer.FromString(data)


def _gone() -> errors.PathwaysError:
    return errors.UnavailableError(errors.door_that_ended() or "the door of this process does not answer; connect again")
