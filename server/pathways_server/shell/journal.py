"""What must never repeat is written down before it is used: the term, session numbers and incarnations.

A life of the controller takes the next term. Counters are reserved in blocks; what a life did not use of its block is
skipped for good. One controller at a time owns a state directory, by a lock that ends with the process.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing
from pathlib import Path

from pathways_common.model.bounds import COUNTER_BLOCK
from pathways_common.model.failure import Reason, fail


class Journal:
    """journal.sqlite of one state directory; use it from one thread."""

    def __init__(self, directory: Path) -> None:
        self._lock = _lock(directory)
        path = directory / "journal.sqlite"
        try:
            # SQLite gives the files beside it the mode of this one.
            path.touch(mode=0o600)
            self._database = sqlite3.connect(path, isolation_level=None)
            with closing(self._database.execute("pragma journal_mode = wal")):
                self._database.execute("pragma synchronous = full")
            self._database.execute("create table if not exists meta (name text primary key, value integer not null) strict")
            self.term = self._add("term", 1)
        except sqlite3.Error as error:
            raise fail(
                Reason.INVALID_ARGUMENT,
                f"the journal {path} cannot be used ({error}); move it away or choose another --state-dir",
                path=path,
            ) from error
        self._blocks: dict[str, tuple[int, int]] = {}

    def _add(self, name: str, amount: int) -> int:
        """Adds to a value and returns the sum; durable when it returns."""
        row = self._database.execute(
            "insert into meta values (?, ?) on conflict (name) do update set value = value + excluded.value returning value",
            (name, amount),
        ).fetchone()
        return int(row[0])

    def _next(self, name: str) -> int:
        following, end = self._blocks.get(name, (0, 0))
        if following == end:
            end = self._add(name, COUNTER_BLOCK) + 1
            following = end - COUNTER_BLOCK
        self._blocks[name] = (following + 1, end)
        return following

    def next_session(self) -> int:
        """A session number, from 1, never given before."""
        return self._next("session")

    def next_incarnation(self) -> int:
        """A join number of a host, from 1, larger than every earlier one."""
        return self._next("incarnation")

    def close(self) -> None:
        """Closes the file and lets go of the directory."""
        self._database.close()
        os.close(self._lock)


def _lock(directory: Path) -> int:
    descriptor = os.open(directory / "controller.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise fail(
            Reason.UNAVAILABLE,
            f"another controller runs on the state directory {directory}; stop it or choose another --state-dir",
            path=directory,
        ) from error
    return descriptor
