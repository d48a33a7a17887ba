"""What an executor says it holds: exactly what commands left there, in as many messages as it takes; late bytes are dropped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from pathways_proto.v1 import workers_pb2
from pathways_worker import holdings
from pathways_worker.executor.objects import Objects
from pathways_worker.holdings import Held, answers

from tests.unit.executor.driving import Executor, lower, ready_executor

Command = workers_pb2.HostCommand
VALUE, FAILED, PENDING = workers_pb2.HELD_KIND_VALUE, workers_pb2.HELD_KIND_FAILED, workers_pb2.HELD_KIND_PENDING
EXECUTABLE, TRANSFER = workers_pb2.HELD_KIND_EXECUTABLE, workers_pb2.HELD_KIND_TRANSFER
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ready_executor() as executor:
        yield executor


def asked(executor: Executor, number: int) -> dict[int, dict[int, int]]:
    """Bytes by kind and id; 0 where they are not counted."""
    executor.handled(Command(report_holdings=workers_pb2.ReportHoldings(request_id=number)))
    told = executor.event("holdings", request_id=number)
    assert (told.daemon, told.epoch, told.launched_through, told.more) == (False, 1, executor.launched, False)
    return {each.kind: dict(zip(each.ids, each.size_bytes or [0] * len(each.ids), strict=True)) for each in told.objects}


def test_an_executor_tells_what_it_holds_and_nothing_once_it_was_freed(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x + 1, MATRIX)).executable_id
    given = executor.place(MATRIX)
    (result,) = executor.execute(loaded, [given])
    absent = executor.new_id()
    (failed,) = executor.execute(loaded, [absent])
    late = executor.place_command([MATRIX])
    late.place_array.pieces[0].transfer_id = 9
    executor.send(late)
    held = asked(executor, 1)
    assert held == {
        VALUE: {given: MATRIX.nbytes, result: MATRIX.nbytes},
        FAILED: {failed: 0},
        PENDING: {late.place_array.buffer_id: 0},
        EXECUTABLE: {loaded: 0},
    }
    everything = [given, result, failed, late.place_array.buffer_id]
    executor.send(Command(free=workers_pb2.Free(ids=everything)))
    executor.send(Command(unload=workers_pb2.Unload(executable_ids=[loaded])))
    assert asked(executor, 2) == {}


def test_bytes_without_a_place_are_told_and_those_of_a_withdrawn_transfer_are_dropped(executor: Executor) -> None:
    executor.handled(Command(cancel_transfer=workers_pb2.CancelTransfer(transfer_ids=[22])))
    executor.send_data(22, b"late")
    executor.send_data(21, b"soon")
    number = 10
    while TRANSFER not in (held := asked(executor, number)):
        number += 1
    assert held == {TRANSFER: {21: 0}}
    executor.handled(Command(cancel_transfer=workers_pb2.CancelTransfer(transfer_ids=[21])))
    assert asked(executor, number + 1) == {}


def test_withdrawn_transfers_are_remembered_within_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pathways_worker.executor.objects.WITHDRAWN_MAX", 8)
    objects = Objects(None, lambda _: None)  # type: ignore[arg-type]
    for number in range(100):
        objects.cancel_transfers([number])
        assert len(objects._withdrawn) <= 8
    objects.land(99, b"late")
    assert [held.ids for held in objects.held()] == [[], [], [], []]


class Late(dict[int, Any]):
    """A table during whose first look-up something else happens, as on another thread."""

    happens: Callable[[], None] | None = None

    def pop(self, key: int, default: Any = None) -> Any:  # type: ignore[override]
        found = super().pop(key, default)
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return found


class Machine:
    def assemble(self, pieces: list[Any]) -> Any:
        return pieces


def broken() -> Any:
    raise ValueError("no array")


@pytest.mark.parametrize("make", [object, broken])
@pytest.mark.parametrize("table", ["arrays", "failed"])
def test_bytes_that_come_while_their_buffer_is_freed_are_not_kept(table: str, make: Callable[[], Any]) -> None:
    objects = Objects(Machine(), lambda _: None)  # type: ignore[arg-type]
    pending = objects.begin(5, 1)
    late = Late()
    setattr(objects, table, late)
    late.happens = lambda: objects.fill(5, pending, 0, make)
    objects.drop([5])
    assert (dict(objects.arrays), dict(objects.failed), objects.wait(5, 0)) == ({}, {}, True)


@pytest.mark.parametrize("table", ["arrays", "failed"])
def test_a_transfer_that_fails_while_its_buffer_is_freed_leaves_nothing(table: str) -> None:
    objects = Objects(Machine(), lambda _: None)  # type: ignore[arg-type]
    objects.begin(5, 1)
    objects.expect(5, 9, [])
    late = Late()
    setattr(objects, table, late)
    late.happens = lambda: objects.land(9, None, workers_pb2.TransferFailed().failure)
    objects.drop([5])
    assert (dict(objects.arrays), dict(objects.failed), objects.wait(5, 0)) == ({}, {}, True)


def test_a_failure_that_comes_after_its_buffer_was_freed_leaves_nothing() -> None:
    objects = Objects(Machine(), lambda _: None)  # type: ignore[arg-type]
    pending = objects.begin(5, 1)

    def freed_meanwhile() -> Any:
        objects.drop([5])
        raise ValueError("no array")

    objects.fill(5, pending, 0, freed_meanwhile)
    assert objects.failed == {}


def test_a_large_answer_comes_in_parts_and_a_too_large_one_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "MESSAGE_IDS_MAX", 4)
    monkeypatch.setattr(holdings, "ANSWER_IDS_MAX", 10)
    kinds = [Held(VALUE, list(range(6)), list(range(6))), Held(FAILED, []), Held(PENDING, list(range(6, 13)), (), [7] * 7)]
    parts = answers(kinds, 5, True, 3)
    assert [part.more for part in parts] == [True, True, False]
    assert [sum(len(each.ids) for each in part.objects) for part in parts] == [4, 4, 2]
    told = [each for part in parts for each in part.objects]
    assert [number for each in told for number in each.ids] == list(range(10))
    assert [number for each in told if each.kind == VALUE for number in each.size_bytes] == list(range(6))
    assert [number for each in told if each.kind == PENDING for number in each.sessions] == [7] * 4
    assert (parts[-1].left_out, parts[0].left_out) == (3, 0)
    assert {(part.request_id, part.daemon, part.epoch) for part in parts} == {(5, True, 3)}
    assert [part.more for part in answers([], 1, False, 0)] == [False]
