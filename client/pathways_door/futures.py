"""One-shot futures the client asks about once.

Deletions (done when sent), compilations (done when answered), status of executions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Future:
    """`status_handle` names the array record to be awaited, which goes with the answer; 0: done. Deletions are not `counted`."""

    counted: bool = True
    status_handle: int = 0


class Futures:
    """The futures of one IFRT session by handle."""

    def __init__(self, new_handle: Callable[[], int]) -> None:
        self._new_handle = new_handle
        self._futures: dict[int, Future] = {}

    def __len__(self) -> int:
        return len(self._futures)

    def add(self, future: Future, handle: int = 0) -> int:
        """Registers a future under the client's handle or a new one, which is returned."""
        number = handle or self._new_handle()
        self._futures[number] = future
        return number

    def add_deletion(self) -> int:
        """A future for an array delete; its check is answered outside the counting path."""
        return self.add(Future(counted=False))

    def pop(self, handle: int) -> Future | None:
        """The future of a handle, which is forgotten."""
        return self._futures.pop(handle, None)
