"""The decisions of the spill store: room, disk, refusals, and what survives whom."""

from __future__ import annotations

import itertools
import time

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId
from pathways_worker.core import spilled as core
from pathways_worker.core.spilled import (
    Admit,
    Arrived,
    Ask,
    Closed,
    Confirm,
    CopyNumber,
    Discard,
    Dropped,
    Effect,
    ExecutorChanged,
    ExecutorRefused,
    Offered,
    Phase,
    Refuse,
    RefuseRestore,
    Release,
    Restored,
    RestoreExpected,
    RestoreWanted,
    Ship,
    Spilled,
    SpillNumber,
    SpillWanted,
    Take,
    Write,
    Written,
)

ONE, TWO, THREE, FOUR = (GlobalId(number) for number in (1, 2, 3, 4))
COPIES = [CopyNumber(number) for number in range(9)]
FIRST, SECOND = SpillNumber(7), SpillNumber(8)
BROKEN = Failure(Reason.RESOURCE_EXHAUSTED, "the disk is full")


def offer(store: Spilled, buffer: GlobalId, size_bytes: int) -> list[Effect]:
    assert store.step(SpillWanted(buffer, FIRST, True)) == [Ask(buffer, FIRST)]
    return store.step(Offered(buffer, size_bytes))


def keep(store: Spilled, buffer: GlobalId, size_bytes: int) -> CopyNumber:
    """Spills a buffer for which there is room; its copy."""
    effects = offer(store, buffer, size_bytes)
    assert isinstance(effects[0], Take)
    assert store.step(Arrived(buffer)) == [Confirm(buffer, FIRST, size_bytes)]
    return effects[0].copy


def refusal(effects: list[Effect]) -> Failure:
    """The failure of the one refusal among these effects."""
    (failure,) = [effect.failure for effect in effects if isinstance(effect, Refuse | RefuseRestore)]
    return failure


def restore(store: Spilled, buffer: GlobalId, copy: CopyNumber) -> list[Effect]:
    assert store.step(RestoreWanted(buffer, SECOND, True)) == [Admit(buffer, SECOND, copy)]
    assert store.step(RestoreExpected(buffer)) == [Ship(buffer, copy)]
    return store.step(Restored(buffer, SECOND, True))


def test_a_buffer_is_taken_only_when_offered_and_confirmed_only_when_it_is_here() -> None:
    store = Spilled(100, 0)
    assert store.step(SpillWanted(ONE, FIRST, True)) == [Ask(ONE, FIRST)]
    assert store.memory_bytes == 0
    assert store.step(Offered(ONE, 100)) == [Take(ONE, COPIES[1], False)]
    assert (store.memory_bytes, store.held) == (100, [])
    assert store.step(Arrived(ONE)) == [Confirm(ONE, FIRST, 100)]
    assert store.held == [(ONE, 100)]
    assert restore(store, ONE, COPIES[1]) == [Discard(COPIES[1])]
    assert (store.memory_bytes, store.held, store.buffer_count) == (0, [], 0)


def test_the_least_recently_used_goes_to_disk_for_the_next() -> None:
    store = Spilled(100, 100)
    keep(store, ONE, 40)
    keep(store, TWO, 40)
    # A restore that failed is a use.
    store.step(RestoreWanted(ONE, SECOND, True))
    assert store.step(Restored(ONE, SECOND, False)) == []
    assert offer(store, THREE, 60) == [Write(COPIES[2])]
    assert (store.memory_bytes, store.disk_bytes) == (80, 40), "room is taken in both until it is written"
    assert store.step(Written(COPIES[2])) == [Release(COPIES[2]), Take(THREE, COPIES[3], False)]
    assert (store.memory_bytes, store.disk_bytes) == (100, 40)
    assert restore(store, TWO, COPIES[2]) == [Discard(COPIES[2])]
    assert store.disk_bytes == 0


def test_what_has_room_nowhere_is_refused_in_one_sentence_with_figures() -> None:
    store = Spilled(100, 50)
    keep(store, ONE, 80)
    failure = refusal(offer(store, TWO, 60))
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert failure.message == (
        "this host cannot spill buffer 0x2: it has 60 bytes, 80 of 100 bytes of memory and 0 of 50 bytes of disk are taken; "
        "raise spill_memory or spill_disk"
    )
    assert store.phase(TWO) is Phase.NONE
    assert (store.memory_bytes, store.disk_bytes) == (80, 0), "nothing was moved in vain"


def test_what_is_too_large_for_memory_goes_straight_to_disk() -> None:
    store = Spilled(100, 300)
    assert offer(store, ONE, 200) == [Take(ONE, COPIES[1], True)]
    assert (store.memory_bytes, store.disk_bytes) == (0, 200)
    assert store.step(Arrived(ONE, BROKEN)) == [Refuse(ONE, FIRST, BROKEN, True), Discard(COPIES[1])]
    assert store.disk_bytes == 0
    without = Spilled(0, 300)
    assert offer(without, ONE, 200) == [Take(ONE, COPIES[1], True)]


def test_those_that_wait_for_the_disk_are_served_in_order_and_not_beyond_the_limit() -> None:
    store = Spilled(100, 100)
    keep(store, ONE, 50)
    keep(store, TWO, 50)
    assert offer(store, THREE, 50) == [Write(COPIES[1])]
    assert offer(store, FOUR, 40) == [Write(COPIES[2])]
    assert store.step(Written(COPIES[1])) == [Release(COPIES[1]), Take(THREE, COPIES[3], False)]
    assert store.step(Written(COPIES[2])) == [Release(COPIES[2]), Take(FOUR, COPIES[4], False)]
    assert (store.memory_bytes, store.disk_bytes) == (90, 100)


def test_a_disk_that_fails_refuses_those_that_wait_and_loses_nothing() -> None:
    store = Spilled(100, 100)
    keep(store, ONE, 80)
    assert offer(store, TWO, 60) == [Write(COPIES[1])]
    assert store.step(Written(COPIES[1], BROKEN)) == [Refuse(TWO, FIRST, BROKEN, True)]
    assert (store.memory_bytes, store.disk_bytes, store.held) == (80, 0, [(ONE, 80)])
    assert restore(store, ONE, COPIES[1]) == [Discard(COPIES[1])]


def test_copies_survive_the_executor_and_what_was_under_way_does_not() -> None:
    store = Spilled(100, 100)
    keep(store, ONE, 30)
    keep(store, TWO, 30)
    store.step(RestoreWanted(TWO, SECOND, True))
    assert offer(store, THREE, 30) == [Take(THREE, COPIES[3], False)]
    assert store.step(ExecutorChanged()) == [Discard(COPIES[3])]
    assert store.held == [(ONE, 30), (TWO, 30)]
    assert store.step(Arrived(THREE)) == [], "late"
    assert restore(store, TWO, COPIES[2]) == [Discard(COPIES[2])]


def test_without_an_executor_both_ways_are_refused_and_the_copy_stays() -> None:
    store = Spilled(100, 100)
    assert refusal(store.step(SpillWanted(ONE, FIRST, False))).reason is Reason.UNAVAILABLE
    keep(store, ONE, 30)
    assert refusal(store.step(RestoreWanted(ONE, SECOND, False))).reason is Reason.UNAVAILABLE
    assert store.held == [(ONE, 30)]


def test_what_is_not_here_cannot_be_restored_and_what_comes_already_not_be_asked_for() -> None:
    store = Spilled(100, 100)
    assert refusal(store.step(RestoreWanted(ONE, SECOND, True))).reason is Reason.BUFFER_LOST
    store.step(SpillWanted(ONE, FIRST, True))
    assert refusal(store.step(SpillWanted(ONE, FIRST, True))).reason is Reason.INVALID_ARGUMENT
    assert refusal(store.step(RestoreWanted(ONE, SECOND, True))).reason is Reason.BUFFER_LOST


def test_a_copy_that_cannot_be_read_ends_and_any_other_failure_leaves_it() -> None:
    store = Spilled(100, 100)
    keep(store, ONE, 30)
    store.step(RestoreWanted(ONE, SECOND, True))
    assert store.step(Restored(ONE, SECOND, False)) == []
    assert store.held == [(ONE, 30)]
    store.step(RestoreWanted(ONE, SECOND, True))
    assert store.step(Restored(ONE, SECOND, False, lost=True)) == [Discard(COPIES[1])]


def test_a_dropped_buffer_goes_wherever_it_is() -> None:
    store = Spilled(100, 100)
    assert store.step(Dropped((ONE,))) == [], "not spilled"
    keep(store, ONE, 60)
    assert store.step(Dropped((ONE, TWO))) == [Discard(COPIES[1])]
    store.step(SpillWanted(TWO, FIRST, True))
    assert store.step(Dropped((TWO,))) == []
    assert refusal(store.step(Offered(TWO, 10))).reason is Reason.DELETED
    assert offer(store, THREE, 60) == [Take(THREE, COPIES[2], False)]
    store.step(Dropped((THREE,)))
    effects = store.step(Arrived(THREE))
    assert (refusal(effects).reason, effects[1:]) == (Reason.DELETED, [Discard(COPIES[2])])
    copy = keep(store, FOUR, 60)
    store.step(RestoreWanted(FOUR, SECOND, True))
    store.step(Dropped((FOUR,)))
    assert store.step(Restored(FOUR, SECOND, False)) == [Discard(copy)]
    assert (store.memory_bytes, store.buffer_count) == (0, 0)


def test_a_copy_dropped_while_it_is_written_goes_when_the_write_has_ended() -> None:
    store = Spilled(100, 100)
    keep(store, ONE, 60)
    assert offer(store, TWO, 60) == [Write(COPIES[1])]
    assert store.step(Dropped((ONE,))) == []
    assert (store.memory_bytes, store.disk_bytes) == (60, 60)
    assert store.step(Written(COPIES[1])) == [Discard(COPIES[1]), Take(TWO, COPIES[2], False)]
    assert (store.memory_bytes, store.disk_bytes) == (60, 0)


def test_a_dropped_buffer_that_waits_for_room_is_put_back() -> None:
    store = Spilled(100, 100)
    keep(store, ONE, 60)
    offer(store, TWO, 60)
    assert refusal(store.step(Dropped((TWO,)))).reason is Reason.DELETED


def test_the_executor_may_keep_what_it_was_asked_for_or_had_begun_to_send() -> None:
    store = Spilled(100, 100)
    store.step(SpillWanted(ONE, FIRST, True))
    assert store.step(ExecutorRefused(ONE, FIRST)) == []
    offer(store, TWO, 60)
    assert store.step(ExecutorRefused(TWO, FIRST)) == [Discard(COPIES[1])]
    assert store.step(ExecutorRefused(TWO, FIRST)) == []
    assert store.buffer_count == 0


def test_with_the_link_everything_ends() -> None:
    store = Spilled(100, 100)
    keep(store, ONE, 60)
    assert offer(store, TWO, 50) == [Write(COPIES[1])]
    assert store.step(Closed()) == []
    assert store.step(Written(COPIES[1])) == [Discard(COPIES[1])]
    keep(store, THREE, 60)
    assert store.step(Closed()) == [Discard(COPIES[2])]
    assert (store.memory_bytes, store.disk_bytes, store.buffer_count) == (0, 0, 0)


@pytest.mark.parametrize(("memory", "disk"), list(itertools.product((0, 50, 100), (0, 50))))
def test_an_empty_buffer_always_has_room(memory: int, disk: int) -> None:
    store = Spilled(memory, disk)
    assert offer(store, ONE, 0) == [Take(ONE, COPIES[1], False)]


def test_what_the_executor_says_of_an_earlier_command_is_ignored_and_answers_repeat_the_number_of_theirs() -> None:
    store = Spilled(100, 0)
    third = SpillNumber(9)
    offer(store, ONE, 100)
    assert store.step(ExecutorRefused(ONE, third)) == []
    assert store.step(Arrived(ONE)) == [Confirm(ONE, FIRST, 100)]
    assert store.step(RestoreWanted(ONE, SECOND, True)) == [Admit(ONE, SECOND, COPIES[1])]
    assert store.step(Restored(ONE, SECOND, False)) == []
    assert store.step(RestoreWanted(ONE, third, True)) == [Admit(ONE, third, COPIES[1])]
    assert store.step(Restored(ONE, SECOND, True)) == [], (
        "its copy ends with the restore that is under way, not with an earlier one"
    )
    assert store.phase(ONE) is Phase.LEAVING
    (refused,) = store.step(SpillWanted(ONE, SpillNumber(10), True))
    assert isinstance(refused, Refuse)
    assert refused.number == 10
    assert store.step(Restored(ONE, third, True)) == [Discard(COPIES[1])]


def test_what_is_kept_of_an_epoch_is_answered_once_whatever_becomes_of_the_executor() -> None:
    store = core.Spilled(100, 0)
    for buffer in (1, 2, 3):
        assert store.step(core.SpillWanted(GlobalId(buffer), core.SpillNumber(buffer), True, owed=True)) != []
    assert store.owed
    store.step(core.Offered(GlobalId(1), 10))
    assert isinstance(store.step(core.Arrived(GlobalId(1)))[0], core.Confirm)
    store.step(core.Offered(GlobalId(2), 10))
    refused = [effect for effect in store.step(core.ExecutorChanged()) if isinstance(effect, core.Refuse)]
    assert [(effect.buffer_id, effect.number, effect.offered) for effect in refused] == [(2, 2, False), (3, 3, False)]
    assert not store.owed
    assert store.held == [(1, 10)]
    assert store.step(core.ExecutorChanged()) == []


def test_the_work_for_one_buffer_does_not_grow_with_the_number_of_buffers() -> None:
    def seconds(count: int) -> float:
        store = core.Spilled(count, 0)
        begin_s = time.process_time()
        for kind in (lambda each: core.SpillWanted(each, FIRST, True, owed=True), lambda each: core.Offered(each, 1), Arrived):
            for number in range(count):
                store.step(kind(GlobalId(number)))
                assert store.owed is (kind is not Arrived or number < count - 1)
        assert len(store.held) == count
        return time.process_time() - begin_s

    # 8 times as many take 8 times as long; 64 times if each looks at all the others.
    assert min(seconds(4000) for _ in range(2)) < 20 * min(seconds(500) for _ in range(3))
