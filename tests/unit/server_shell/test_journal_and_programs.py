"""Numbers never repeat over lives of the controller, one life at a time; program bytes stay while anybody may need them."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest
from pathways_common.model.failure import PathwaysError
from pathways_server.shell.journal import Journal
from pathways_server.shell.programs import Programs
from pathways_server.shell.tickets import Tickets


def test_terms_rise_and_numbers_never_repeat(tmp_path: Path) -> None:
    seen: list[int] = []
    for life in (1, 2, 3):
        journal = Journal(tmp_path)
        assert journal.term == life
        seen += [journal.next_session() for _ in range(100)]
        journal.close()
    assert seen[0] == 1
    assert seen == sorted(set(seen))


def test_counters_are_independent_and_durable_before_use(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert (journal.next_session(), journal.next_incarnation(), journal.next_session()) == (1, 1, 2)
    with sqlite3.connect(tmp_path / "journal.sqlite") as database:
        rows = dict(database.execute("select name, value from meta").fetchall())
    assert rows == {"term": 1, "session": 64, "incarnation": 64}
    journal.close()


def test_a_second_controller_on_the_directory_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(PathwaysError, match="another controller runs on the state directory"):
        Journal(tmp_path)
    journal.close()
    Journal(tmp_path).close()


def test_a_journal_that_is_no_database_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "journal.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(PathwaysError, match="choose another --state-dir"):
        Journal(tmp_path)


def test_the_files_of_the_journal_are_for_their_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        journal = Journal(tmp_path)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        journal.close()
    finally:
        os.umask(before)
    assert "journal.sqlite-wal" in modes
    assert set(modes.values()) == {0o600}


def test_a_program_is_kept_once_and_named_by_both_parts() -> None:
    programs = Programs()
    name = programs.hold(b"ab", b"c")
    assert programs.hold(b"ab", b"c") == name
    assert programs.hold(b"a", b"bc") != name
    assert len(programs) == 2
    assert programs.bytes_of(name) == (b"ab", b"c")


def test_a_drop_does_not_take_bytes_that_a_later_request_holds() -> None:
    programs = Programs()
    name = programs.hold(b"p", b"")
    programs.hand_over(name)
    programs.hold(b"p", b"")
    programs.drop(name)
    assert programs.bytes_of(name) == (b"p", b"")
    programs.hand_over(name)
    programs.drop(name)
    assert len(programs) == 0


def test_a_withdrawn_request_leaves_nothing_unless_the_core_has_the_program() -> None:
    programs = Programs()
    name = programs.hold(b"p", b"")
    programs.withdraw(name)
    assert len(programs) == 0
    programs.hand_over(programs.hold(b"p", b""))
    programs.withdraw(programs.hold(b"p", b""))
    assert programs.bytes_of(name) == (b"p", b"")


def test_tickets_are_the_same_for_both_ends_and_differ_by_kind_number_and_life() -> None:
    tickets = Tickets(b"key")
    assert tickets.transfer(1) == Tickets(b"key").transfer(1)
    assert len({tickets.transfer(1), tickets.transfer(2), tickets.fetch(1), Tickets(b"other").transfer(1)}) == 4
    assert len(tickets.fetch(1)) == 32
