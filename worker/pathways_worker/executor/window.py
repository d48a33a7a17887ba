"""At most WINDOW launches are un-awaited: dozens in flight deadlock XLA's thread pool on CPU.

Every launch gets one entry, in launch order. An entry settles when its execution has ended: its token is awaited, which
tells errors exactly and also works when all its results were donated meanwhile. Settling reports what failed, once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pathways_worker.executor import runtime
from pathways_worker.executor.failures import FailureMessage, execution_failure
from pathways_worker.executor.progress import FINISHED, Progress
from pathways_worker.executor.traces import Row

WINDOW = 8


class Entry:
    """One launch; `results` are the ids of its outputs. `failure` is set when it settled with one."""

    __slots__ = ("execution_id", "failure", "free", "outputs", "results", "row", "sequence", "settled", "token")

    def __init__(
        self,
        execution_id: int,
        sequence: int,
        results: Sequence[int],
        outputs: Sequence[runtime.Array] = (),
        token: runtime.Token = None,
        row: Row | None = None,
    ) -> None:
        self.execution_id = execution_id
        self.sequence = sequence
        self.results = results
        self.outputs = outputs
        self.token = token
        self.row = row
        self.settled = False
        self.failure: FailureMessage | None = None
        # Gives back the temporary bytes that it holds on a device with a limit.
        self.free: Callable[[], None] | None = None

    def ready(self) -> bool | None:
        """Whether it has ended; None if no result is left to ask."""
        for output in self.outputs:
            if not output.is_deleted():
                return bool(output.is_ready())
        return None


OnFailed: TypeAlias = Callable[[Entry], None]


class Window:
    """The launches in flight. `on_failed(entry)` is called when one turns out to have failed."""

    def __init__(self, on_failed: OnFailed, progress: Progress | None = None, size: int = WINDOW) -> None:
        self._entries: deque[Entry] = deque()
        self._on_failed = on_failed
        self._size = size
        self._numbers = (progress or Progress()).numbers
        # When the end of the last launch was seen.
        self._ended_ns = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Entry) -> None:
        """Takes a launch in; waits for the oldest when there are too many.

        What has ended is let go at once: if the next launch takes the process down, the last one that ended is known.
        """
        entries = self._entries
        entries.append(entry)
        if len(entries) > self._size:
            self._pop()
        while entries and (entries[0].settled or entries[0].ready()):
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
        if entry.free is not None:
            entry.free()
            entry.free = None
        ended_ns = time.time_ns()
        if entry.row is not None:
            entry.row.started_ns = max(entry.row.enqueued_ns, self._ended_ns)
            entry.row.finished_ns = ended_ns
            entry.row = None
        self._ended_ns = ended_ns

    @property
    def finished_through(self) -> int:
        """The highest sequence before which nothing is in flight."""
        return self._numbers[FINISHED]

    def sweep(self) -> int:
        """Settles, without waiting, what has ended; returns `finished_through`."""
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

    def settle_oldest(self) -> bool:
        """Waits for the oldest launch in flight to end; False if there is none."""
        if self._entries:
            self._pop()
            return True
        return False

    def drain(self) -> None:
        """Waits for everything in flight."""
        while self._entries:
            self._pop()

    def _pop(self) -> None:
        entry = self._entries.popleft()
        self.settle(entry)
        self._numbers[FINISHED] = entry.sequence
