"""The log of launches: bounded in every direction, a session's own launches only, in the order in which they were made."""

from __future__ import annotations

from typing import Any

import pytest
from pathways_common.model.ids import SESSION_SHIFT
from pathways_proto.v1 import workers_pb2
from pathways_worker.executor import launch_log
from pathways_worker.executor.clock import wall_ns
from pathways_worker.executor.launch_log import LaunchLog
from pathways_worker.executor.window import Entry


def entry(session: int, number: int, executable: int = 1) -> Entry:
    """Launch `number` of the session is the island's gang of that number."""
    made = Entry(session << SESSION_SHIFT | number, number, (), executable_id=session << SESSION_SHIFT | executable)
    made.places = (0,)
    made.began_ns, made.handed_ns = 10 * number, 10 * number + 1
    return made


def added(log: LaunchLog, *entries: Entry) -> None:
    for each in entries:
        log.add(each, each.began_ns + 2, each.began_ns + 5)


def collected(log: LaunchLog, session: int, *in_flight: Entry, after: int = 0, rows_max: int = 0) -> Any:
    ask = workers_pb2.CollectTrace(trace_id=4, session_number=session, after_sequence=after, rows_max=rows_max)
    return log.collect(ask, 3, in_flight)()


def sequences(answer: Any) -> list[int]:
    return [row.sequence for row in answer.rows]


def test_a_session_is_told_its_own_launches_and_their_names() -> None:
    log = LaunchLog()
    log.loaded(7 << SESSION_SHIFT | 1, "jit_mine")
    log.loaded(8 << SESSION_SHIFT | 1, "jit_theirs")
    added(log, entry(7, 1), entry(8, 2), entry(7, 3))
    answer = collected(log, 7)
    assert (answer.trace_id, answer.epoch, answer.forgotten) == (4, 3, False)
    assert sequences(answer) == [1, 3]
    assert [(each.executable_id, each.name) for each in answer.executables] == [(7 << SESSION_SHIFT | 1, "jit_mine")]
    row = answer.rows[1]
    assert (row.execution_id, row.executable_id, row.granted_ns) == (7 << SESSION_SHIFT | 3, 7 << SESSION_SHIFT | 1, 0)
    times = (row.launched_ns, row.enqueued_ns, row.started_ns, row.finished_ns)
    assert times == (wall_ns(30), wall_ns(31), wall_ns(32), wall_ns(35))
    assert not collected(log, 9).rows


def test_launches_in_flight_are_told_as_not_over_and_those_that_never_were_are_not() -> None:
    log = LaunchLog()
    added(log, entry(7, 1))
    never = entry(7, 3)
    never.places = ()
    answer = collected(log, 7, entry(7, 2), never, entry(8, 4))
    assert [(row.sequence, bool(row.launched_ns), bool(row.finished_ns)) for row in answer.rows] == [
        (1, True, True),
        (2, True, False),
    ]


def test_only_what_is_behind_a_sequence_is_told_and_no_more_than_is_asked_for() -> None:
    log = LaunchLog()
    added(log, *(entry(7, number) for number in range(1, 9)))
    behind = collected(log, 7, entry(7, 9), after=6)
    assert (sequences(behind), behind.forgotten) == ([7, 8, 9], False)
    exactly = collected(log, 7, after=6, rows_max=2)
    assert (sequences(exactly), exactly.forgotten) == ([7, 8], False)
    bounded = collected(log, 7, after=2, rows_max=3)
    assert (sequences(bounded), bounded.forgotten) == ([6, 7, 8], True)


def test_the_last_launches_are_kept_and_that_others_were_forgotten_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_log, "LAUNCHES_MAX", 4)
    log = LaunchLog()
    added(log, *(entry(7, number) for number in range(1, 11)))
    everything = collected(log, 7)
    assert (sequences(everything), everything.forgotten) == ([7, 8, 9, 10], True)
    assert not collected(log, 7, after=7).forgotten, "nothing behind that was forgotten"


def test_of_too_many_sessions_the_one_that_launched_longest_ago_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_log, "SESSIONS_MAX", 3)
    log = LaunchLog()
    added(log, entry(1, 1), entry(2, 2), entry(3, 3), entry(1, 4), entry(4, 5))
    assert [sequences(collected(log, session)) for session in (1, 2, 3, 4)] == [[1, 4], [], [3], [5]]
    added(log, entry(2, 6), entry(3, 7))  # begins anew, and lets go of what session 1 had
    for session in (1, 2):
        assert collected(log, session).forgotten, "what went with its ring is said to be missing"
    assert not collected(log, 2, after=5).forgotten, "nothing behind that was lost"


def test_names_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_log, "NAMES_MAX", 2)
    log = LaunchLog()
    for number in (1, 2, 3):
        log.loaded(7 << SESSION_SHIFT | number, f"jit_{number}")
        added(log, entry(7, number, executable=number))
    assert [each.name for each in collected(log, 7).executables] == ["", "jit_2", "jit_3"]
    log.loaded(7 << SESSION_SHIFT | 3, "x" * 1_000_000)
    assert [each.name for each in collected(log, 7, after=2).executables] == ["x" * 200]


def test_what_comes_behind_the_question_is_not_in_its_answer() -> None:
    log = LaunchLog()
    added(log, entry(7, 1))
    answer = log.collect(workers_pb2.CollectTrace(trace_id=4, session_number=7), 3, ())
    added(log, entry(7, 2))
    assert sequences(answer()) == [1]
