"""What the door waits for from the controller, by kind and number.

Each entry is answered exactly once: by its answer, or when the stream is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pathways_common.model.failure import Failure

# Called with the answering message, or with the failure that stands for it.
Continuation = Callable[[Any, Failure | None], None]


class Pending:
    """One table per kind of answer (the name of the ServerOperation's member, or a word of ours)."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], Continuation] = {}
        self._numbers: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def number(self, kind: str) -> int:
        """The next number of a kind, from 1."""
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return self._numbers[kind]

    def expect(self, kind: str, number: int, continuation: Continuation) -> None:
        """Registers who is called with the answer."""
        self._entries[kind, number] = continuation

    def answer(self, kind: str, number: int, message: Any, failure: Failure | None) -> bool:
        """Hands an answer over; False (and nothing happens) if nobody waits for it."""
        continuation = self._entries.pop((kind, number), None)
        if continuation is None:
            return False
        continuation(message, failure)
        return True

    def forget(self, kind: str, number: int) -> None:
        """Nobody waits for it any more."""
        self._entries.pop((kind, number), None)

    def fail_all(self, failure: Failure) -> None:
        """Ends every wait with this failure."""
        entries = list(self._entries.values())
        self._entries.clear()
        for continuation in entries:
            continuation(None, failure)
