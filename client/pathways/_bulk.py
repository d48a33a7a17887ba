"""The fast way between this process and the cluster, of one connection: shared memory, and calls on the socket of the door."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pathways_common.model.failure import PathwaysError

from pathways._bulk_call import BulkCall
from pathways._segments import Segment, Segments

if TYPE_CHECKING:
    import numpy as np

# Puts whose bytes are on their way; others then take JAX's way, which holds no segments.
_PUTS_MAX = 64
# The bytes of those: what is named late has a deadline too. One put may be larger, alone.
_PUT_BYTES_MAX = 4 << 30
# So long others wait for room; then they take JAX's way as well.
_ROOM_S = 60.0


class Bulk:
    """May be used from any thread. `read_count` and `put_count`: arrays that went this way."""

    def __init__(self, bulk_socket: str, secret: str) -> None:
        self._socket = bulk_socket
        self._secret = secret
        self._segments = Segments()
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._puts = 0
        self._put_bytes = 0
        self.read_count = 0
        self.put_count = 0

    def close(self) -> None:
        """Gives memory back that is not in use."""
        self._segments.close()

    def call(self) -> BulkCall:
        """A new call. Raises errors.UnavailableError if the door has ended."""
        return BulkCall(self._socket, self._secret)

    def take(self, size_bytes: int) -> Segment | None:
        """Memory, if there is any."""
        try:
            return self._segments.take(size_bytes)
        except OSError:
            return None

    def give_back(self, segment: Segment) -> None:
        """Nobody writes or reads it any more."""
        self._segments.give_back(segment)

    def array(self, segment: Segment, size_bytes: int) -> np.ndarray[Any, Any]:
        """The first bytes of a segment, which was read into; it comes back when the last view of them is gone."""
        with self._lock:
            self.read_count += 1
        return self._segments.array(segment, size_bytes)

    # ---- puts -------------------------------------------------------------------------------------------------------

    def begin_put(self, size_bytes: int) -> bool:
        """Whether there may be another, perhaps when others have ended; if so, `await_put` or `end_put` follows."""
        with self._room:
            if not self._room.wait_for(lambda: self._is_room_for(size_bytes), _ROOM_S) or self._puts >= _PUTS_MAX:
                return False
            self._puts += 1
            self._put_bytes += size_bytes
            return True

    def _is_room_for(self, size_bytes: int) -> bool:
        return not self._puts or self._puts >= _PUTS_MAX or self._put_bytes + size_bytes <= _PUT_BYTES_MAX

    def end_put(self, size_bytes: int) -> None:
        """Nothing is on its way any more."""
        with self._room:
            self._puts -= 1
            self._put_bytes -= size_bytes
            self._room.notify_all()

    def await_put(self, call: BulkCall, segments: Sequence[Segment], size_bytes: int) -> None:
        """Sees to the end of a call, on a thread: the segments come back when their bytes have been taken."""
        with self._lock:
            self.put_count += len(segments)
        threading.Thread(target=self._await, args=(call, list(segments), size_bytes), name="pathways-put", daemon=True).start()

    def _await(self, call: BulkCall, segments: list[Segment], size_bytes: int) -> None:
        left = dict(enumerate(segments))
        try:
            with call:
                for answer in call.answers():
                    segment = left.pop(answer.position)
                    if answer.HasField("failure"):
                        segment.close()
                    else:
                        self.give_back(segment)
        except PathwaysError:
            pass  # who reads the arrays is told
        finally:
            for segment in left.values():
                segment.close()
            self.end_put(size_bytes)
