"""At most WINDOW launches are un-awaited: dozens in flight deadlock XLA's thread pool on CPU.

Every launch gets one entry, in launch order. An entry settles when its execution has ended: its token is awaited, which
tells errors exactly and also works when all its results were donated meanwhile. Settling reports what failed, once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pathways_worker.executor import runtime
from pathways_worker.executor.failures import FailureMessage, execution_failure

WINDOW = 8


class Entry:
    """One launch. `failure` is set when it settled with one."""

    __slots__ = ("execution_id", "failure", "first_result_id", "outputs", "sequence", "settled", "token")

    def __init__(
        self, execution_id: int, sequence: int, first_result_id: int, outputs: Sequence[runtime.Array], token: runtime.Token
    ) -> None:
        self.execution_id = execution_id
        self.sequence = sequence
        self.first_result_id = first_result_id
        self.outputs = outputs
        self.token = token
        self.settled = False
        self.failure: FailureMessage | None = None

    def ready(self) -> bool | None:
        """Whether it has ended; None if no result is left to ask."""
        for output in self.outputs:
            if not output.is_deleted():
                return bool(output.is_ready())
        return None


OnFailed: TypeAlias = Callable[[Entry], None]


class Window:
    """The launches in flight. `on_failed(entry)` is called when one turns out to have failed."""

    def __init__(self, on_failed: OnFailed, size: int = WINDOW) -> None:
        self._entries: deque[Entry] = deque()
        self._on_failed = on_failed
        self._size = size
        self.finished_through = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        """Takes a launch in; waits for the oldest when there are too many."""
        entries = self._entries
        entries.append(entry)
        if len(entries) > self._size:
            self._pop()

    def settle(self, entry: Entry) -> None:
        """Waits for one launch to end, wherever it stands; reports its failure."""
        if entry.settled:
            return
        entry.settled = True
        try:
            entry.token.block_until_ready()
        except Exception as error:
            entry.failure = execution_failure(error)
            self._on_failed(entry)
        # The results live on in the store, or nowhere.
        entry.outputs = ()

    def sweep(self) -> int:
        """Settles, without waiting, what has ended; returns the highest sequence before which nothing is in flight."""
        entries = self._entries
        while entries:
            # What has no result left was consumed by a later launch and has ended before it.
            ended = len(entries)
            for position, entry in enumerate(entries, 1):
                ready = True if entry.settled else entry.ready()
                if ready is not None:
                    ended = position if ready else 0
                    break
            if not ended:
                break
            # If nobody could be asked, only tokens can tell: programs without results, waited for here.
            for _ in range(ended):
                self._pop()
        return self.finished_through

    def drain(self) -> None:
        """Waits for everything in flight."""
        while self._entries:
            self._pop()

    def _pop(self) -> None:
        entry = self._entries.popleft()
        self.settle(entry)
        self.finished_through = max(self.finished_through, entry.sequence)
