"""Which ids on this host rest on the shards of which buffers. A view shares memory: it is put aside with a buffer and comes back.

A view of a view rests on the buffers behind it. Only the dispatcher changes this table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Part(NamedTuple):
    """One local shard of a buffer that a view covers."""

    buffer_id: int
    local_index: int


class Views:
    """The views of one executor. `parts[view_id]` are its shards, in order."""

    def __init__(self) -> None:
        self.parts: dict[int, tuple[Part, ...]] = {}
        # Of a buffer: the views on it, in the order in which they were made.
        self._on: dict[int, dict[int, None]] = {}

    def add(self, view_id: int, shards: Iterable[tuple[int, int]]) -> None:
        """A view of these (id, local index) pairs; each id is a buffer or a view."""
        parts = tuple(self._root(identifier, index) for identifier, index in shards)
        self.parts[view_id] = parts
        for part in parts:
            self._on.setdefault(part.buffer_id, {})[view_id] = None

    def _root(self, identifier: int, index: int) -> Part:
        parts = self.parts.get(identifier)
        return Part(identifier, index) if parts is None or index >= len(parts) else parts[index]

    def forget(self, view_id: int) -> None:
        """The id is gone; it need not be a view."""
        for part in self.parts.pop(view_id, ()):
            views = self._on.get(part.buffer_id)
            if views is not None:
                views.pop(view_id, None)
                if not views:
                    del self._on[part.buffer_id]

    def on(self, buffer_id: int) -> Sequence[int]:
        """The views that rest on a buffer."""
        return tuple(self._on.get(buffer_id, ()))
