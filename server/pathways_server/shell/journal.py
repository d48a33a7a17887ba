"""What must never repeat is written down before it is used: the term, session numbers and incarnations; and what was promised to
stay: programs under a name.

A life of the controller takes the next term. Counters are reserved in blocks; what a life did not use of its block is
skipped for good. One controller at a time owns a state directory, by a lock that ends with the process.

`Journal.write` is the one way in which anything is written, by all parts of the shell: whole and durable when it returns, or
not at all. It calls `reached` between its steps, where tests end the process.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from pathways_common.model.bounds import COUNTER_BLOCK
from pathways_common.model.failure import Reason, fail
from pathways_common.model.registered import Origin


class ProgramRow(NamedTuple):
    """A registered version: its graph as a record, and the name and devices of what each computation is compiled from."""

    tenant: str
    name: str
    version: int
    graph: bytes
    origins: tuple[Origin, ...]


class Point(Enum):
    """The moments of a write in which a process may end. `STATEMENT` comes after each statement."""

    BEGIN = "nothing is written yet"
    STATEMENT = "a statement is written and not durable"
    COMMIT = "all is written and not durable"
    COMMITTED = "all is durable and nobody has heard of it"


class Statement(NamedTuple):
    """SQL with question marks, and what takes their places."""

    text: str
    values: tuple[str | int | bytes, ...] = ()


# What SQLite keeps of its log once it has been copied; above this it is cut after the next write.
_LOG_BYTES_MAX = 4 << 20

_TABLES = (
    "create table if not exists meta (name text primary key, value integer not null) strict",
    "create table if not exists programs (tenant text not null, name text not null, version integer not null,"
    " graph blob not null, primary key (tenant, name, version)) strict",
    "create table if not exists origins (tenant text not null, name text not null, version integer not null,"
    " position integer not null, program text not null, devices text not null, primary key (tenant, name, version, position))"
    " strict",
    "create table if not exists program_bytes (program text primary key, bytes blob not null, options blob not null) strict",
)


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
                self._database.execute(f"pragma journal_size_limit = {_LOG_BYTES_MAX}").fetchall()
            self.add_tables(_TABLES)
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
        sum_of = "on conflict (name) do update set value = value + excluded.value returning value"
        ((value,),) = self.write(Statement(f"insert into meta values (?, ?) {sum_of}", (name, amount)))
        return int(value)

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

    # ---- registered programs ----------------------------------------------------------------------------------------

    def keep_program(self, row: ProgramRow, contents: Mapping[str, tuple[bytes, bytes]]) -> None:
        """Writes a version and the bytes (program, options) behind it; durable when it returns."""
        key = (row.tenant, row.name, row.version)
        if row in self.kept_programs():  # a life that was killed right behind this is followed by one that is asked again
            return
        origins = [
            Statement("insert into origins values (?, ?, ?, ?, ?, ?)", (*key, position, program, " ".join(map(str, devices))))
            for position, (program, devices) in enumerate(row.origins)
        ]
        new = "insert or ignore into program_bytes values (?, ?, ?)"
        self.write(
            Statement("insert into programs values (?, ?, ?, ?)", (*key, row.graph)),
            *origins,
            *(Statement(new, (program, *pair)) for program, pair in contents.items()),
        )

    def forget_program(self, tenant: str, name: str, version: int) -> None:
        """Takes a version out, and the bytes that no other one needs."""
        key = (tenant, name, version)
        where = "where tenant = ? and name = ? and version = ?"
        self.write(
            Statement(f"delete from programs {where}", key),
            Statement(f"delete from origins {where}", key),
            Statement("delete from program_bytes where program not in (select program from origins)"),
        )

    def kept_programs(self) -> list[ProgramRow]:
        """Every version, by name."""
        found = []
        for tenant, name, version, graph in self._database.execute("select * from programs order by tenant, name, version"):
            where = "where tenant = ? and name = ? and version = ? order by position"
            rows = self._database.execute(f"select program, devices from origins {where}", (tenant, name, version))
            origins = tuple(Origin(program, tuple(map(int, devices.split()))) for program, devices in rows)
            found.append(ProgramRow(tenant, name, version, graph, origins))
        return found

    def program_bytes(self, program: str) -> tuple[bytes, bytes]:
        """Program and options; KeyError if they are not kept."""
        row = self._database.execute("select bytes, options from program_bytes where program = ?", (program,)).fetchone()
        if row is None:
            raise KeyError(program)
        return bytes(row[0]), bytes(row[1])

    def add_tables(self, tables: Iterable[str]) -> None:
        """Makes the tables of a part of the shell, unless they are there."""
        self.write(*map(Statement, tables))

    def rows(self, query: str, *values: str | int | bytes) -> list[tuple[Any, ...]]:
        """What a query finds."""
        return self._database.execute(query, values).fetchall()

    def write(self, *statements: Statement) -> list[tuple[Any, ...]]:
        """Durable when it returns, or never written; returns the rows that the last statement gives."""
        found: list[tuple[Any, ...]] = []
        self.reached(Point.BEGIN)
        self._database.execute("begin immediate")
        try:
            for statement in statements:
                found = self._database.execute(statement.text, statement.values).fetchall()
                self.reached(Point.STATEMENT)
            self.reached(Point.COMMIT)
            self._database.execute("commit")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("rollback")
            raise
        self.reached(Point.COMMITTED)
        return found

    def reached(self, point: Point) -> None:
        """Does nothing; tests put the end of the process here."""

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
