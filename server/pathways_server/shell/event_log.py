"""What the core was told since a snapshot of it, in order, so that a controller that was killed is made again as it was.

Records gather during a turn and are written at its end, before anything that the turn decided leaves the process: what was not
written was never acknowledged and never acted upon. `_write` is the only place that writes. A file begins with a snapshot; a new
one takes its place when it has grown to a multiple of that, so the log is bounded and short to read. It is not synced: a process
that is killed loses nothing, and after a fall of the machine it is not read.
"""

from __future__ import annotations

import logging
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from pathways_common.model.bounds import LOG_BYTES_MIN, LOG_PER_SNAPSHOT
from pathways_common.process.logs import fields

_LOG = logging.getLogger(__name__)
# Length and checksum of what one flush wrote.
_GROUP = struct.Struct("<II")
# Kind, time, whom it is about, a number, length of the payload.
_RECORD = struct.Struct("<BQQQI")
_MAGIC = b"pathways log 1\n"


class Kind(IntEnum):
    """What a record says; in brackets: whom it is about, and its number."""

    SNAPSHOT = 1
    EVENTS = 2  # stepped, as an object graph
    TICK = 3
    HOST_FRAME = 4  # what a frame held was stepped [incarnation]
    SESSION_FRAME = 5  # is being stepped [session, operations that were stepped before]
    SLICE = 6  # so many events of it were stepped [session, count]
    ACCEPTED = 7  # a frame that held nothing to step in its order [session, sequence]
    HOST_ENTERED = 8  # as an object graph [incarnation]
    HOST_LEFT = 9  # [incarnation]
    SESSION_ENTERED = 10  # as an object graph [session]
    SESSION_LEFT = 11  # [session]
    ASIDE = 12  # an urgent item that the core has no part in [incarnation]


class Record(NamedTuple):
    """One entry."""

    kind: Kind
    now_ns: int
    whom: int
    number: int
    payload: bytes


class EventLog:
    """The files `events-N.log` of a state directory; None: nothing is kept. `hook` is called before every write, for tests.

    `fingerprint` says which build writes: another one may decide otherwise, and reads nothing of it.
    """

    def __init__(self, directory: Path | None, fingerprint: str, hook: Callable[[], object] = lambda: None) -> None:
        self._directory = directory
        self._fingerprint = fingerprint.encode()
        self._hook = hook
        self._file = -1
        self._parts: list[bytes] = []
        self._written = self._full_at = 0
        self.segment = 0  # of what is written now

    @property
    def kept(self) -> bool:
        """Whether records are written."""
        return self._file >= 0

    @property
    def full(self) -> bool:
        """Whether a snapshot should replace what is written."""
        return self._file >= 0 and self._written > self._full_at

    # ---- writing ----------------------------------------------------------------------------------------------------

    def add(self, kind: Kind, now_ns: int, whom: int = 0, number: int = 0, payload: bytes = b"") -> None:
        """Puts a record behind the others of this turn."""
        if self._file >= 0:
            self._parts += (_RECORD.pack(kind, now_ns, whom, number, len(payload)), payload)

    def flush(self) -> None:
        """Everything that was added is with the operating system when it returns. A log that cannot be written is given up."""
        if not self._parts:
            return
        body = b"".join(self._parts)
        self._parts.clear()
        self._write(body)

    def _write(self, body: bytes) -> None:
        self._hook()
        data = memoryview(_GROUP.pack(len(body), zlib.crc32(body)) + body)
        self._written += len(data)
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        _LOG.error("the log of events cannot be written; a restart will lose all sessions", extra=fields(cause=error))
        self.discard()

    def begin(self, now_ns: int, snapshot: bytes) -> None:
        """A new file with this snapshot takes the place of what was written, which goes when the new one is complete."""
        if self._directory is None:
            return
        self.flush()
        old, self._file, before = self._file, -1, self.paths()
        self.segment = max([_number(path) for path in before], default=0) + 1
        path = self._directory / f"events-{self.segment}.log"
        draft = path.with_suffix(".draft")
        try:
            self._file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._give_up(error)
            return
        finally:
            if old >= 0:
                os.close(old)
        self._written = 0
        self._write(_MAGIC + self._fingerprint)
        self.add(Kind.SNAPSHOT, now_ns, payload=snapshot)
        self.flush()
        if not self.kept:
            return
        self._full_at = self._written + max(LOG_BYTES_MIN, LOG_PER_SNAPSHOT * self._written)
        try:
            draft.rename(path)
        except OSError as error:
            self._give_up(error)
            return
        for each in before:
            each.unlink(missing_ok=True)

    def discard(self) -> None:
        """Nothing is kept any more, and nothing of it is read by a later life."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        self._parts.clear()
        for path in (*self.paths(), *self._drafts()):
            path.unlink(missing_ok=True)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def paths(self) -> list[Path]:
        """Complete files, the newest last."""
        if self._directory is None:
            return []
        return sorted(self._directory.glob("events-*.log"), key=_number)

    def _drafts(self) -> list[Path]:
        return [] if self._directory is None else list(self._directory.glob("events-*.draft"))

    def read(self) -> Iterator[Record]:
        """What an earlier life wrote, up to the last whole write. Raises ValueError if it is of another build."""
        paths = self.paths()
        if not paths:
            return
        groups = _groups(paths[-1].read_bytes())
        if bytes(next(groups, memoryview(b""))) != _MAGIC + self._fingerprint:
            raise ValueError("it was written by another build")
        for body in groups:
            position = 0
            while position < len(body):
                kind, now_ns, whom, number, length = _RECORD.unpack_from(body, position)
                position += _RECORD.size
                yield Record(Kind(kind), now_ns, whom, number, bytes(body[position : position + length]))
                position += length


def _groups(data: bytes) -> Iterator[memoryview]:
    """What was written whole."""
    view = memoryview(data)
    while len(view) >= _GROUP.size:
        length, checksum = _GROUP.unpack_from(view)
        body = view[_GROUP.size : _GROUP.size + length]
        if len(body) < length or zlib.crc32(body) != checksum:
            return
        yield body
        view = view[_GROUP.size + length :]


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
