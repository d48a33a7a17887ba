"""A shard of which there are copies on other islands: what is read of it, and copied, while its own island is lost."""

from __future__ import annotations

from pathways_common.model.failure import Reason
from pathways_common.model.ids import HostName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.read_records import Fetch

from tests.unit.core.core_driver import Driver, gid, only, replies, sent


def two_islands() -> Driver:
    """An array on each island, and a view on a shard of the first whose copy is a shard of the second."""
    driver = Driver({"a": ["a0", "a1"], "b": ["b0"]})
    driver.open(1, ("*",))
    driver.put(10, (0, 1))
    driver.put(11, (2,))
    view(driver, 20, (10, 1, 1), (11, 0, 1))
    return driver


def view(driver: Driver, identifier: int, of: tuple[int, int, int], *copies: tuple[int, int, int]) -> None:
    named = [tuple((gid(source), start, count) for source, start, count in ranges) for ranges in ((of,), copies)]
    driver.step(events.ViewMade(SessionNumber(1), gid(identifier), *named))


def test_a_shard_is_read_where_it_lies_while_that_is_there() -> None:
    driver = two_islands()
    assert [host for host, _ in sent(driver.fetch(20), out.FetchShard)] == ["a1"]


def test_a_read_after_the_loss_takes_the_copy_of_another_island() -> None:
    driver = two_islands()
    driver.kill_executor("a1")
    asked = only(sent(driver.fetch(20, fetch=7), out.FetchShard))
    assert asked[0] == "b0"
    assert asked[1].shard.id == gid(11)
    answered = driver.step(events.ShardFetched(HostName("b0"), asked[1].fetch_id, b"12345678", None))
    assert [(reply.fetch_id, reply.data) for reply in replies(answered, out.Fetched)] == [(7, b"12345678")]
    # What names the lost array itself is told so.
    assert only(replies(driver.fetch(10), out.FetchFailed)).failure.reason is Reason.BUFFER_LOST


def test_a_read_under_way_when_its_island_is_lost_goes_on_with_the_copy() -> None:
    driver = two_islands()
    first = only(sent(driver.fetch(20, fetch=7), out.FetchShard))
    effects = driver.kill_executor("a1")
    again = only(sent(effects, out.FetchShard))
    assert (again[0], again[1].shard.id) == ("b0", gid(11))
    assert replies(effects, out.FetchFailed) == []
    late = driver.step(events.ShardFetched(HostName("a1"), first[1].fetch_id, b"........", None))
    assert replies(late, out.Fetched) == []
    answered = driver.step(events.ShardFetched(HostName("b0"), again[1].fetch_id, b"12345678", None))
    assert [(reply.fetch_id, reply.data) for reply in replies(answered, out.Fetched)] == [(7, b"12345678")]


def test_a_large_read_that_is_held_is_held_by_its_host_and_a_small_one_is_answered() -> None:
    driver = two_islands()
    assert [message.held for _, message in sent(driver.fetch(20, held=True), out.FetchShard)] == [False]
    (asked,) = sent(driver.fetch(20, fetch=2, size=1 << 20, held=True), out.FetchShard)
    assert (asked[1].pull, asked[1].held) == (True, True)
    assert [message.held for _, message in sent(driver.fetch(20, fetch=3, size=1 << 20), out.FetchShard)] == [False]


def test_a_held_read_that_waits_for_its_value_is_held_where_the_copy_is() -> None:
    driver = two_islands()
    driver.fetch(20, fetch=7, held=True)
    (again,) = sent(driver.kill_executor("a1"), out.FetchShard)
    assert (again[0], again[1].held) == ("b0", False), "it is small"
    kept = next(reader for reader in driver.core.state.readers.values() if getattr(reader, "fetch_id", 0) == 7)
    assert isinstance(kept, Fetch)
    assert kept.held


def test_a_read_under_way_keeps_the_copies_though_the_view_is_released() -> None:
    driver = two_islands()
    driver.fetch(20, fetch=7)
    driver.release(10, 11)
    assert [host for host, _ in sent(driver.release(20), out.Free)] == ["a0", "a1"]
    again = only(sent(driver.kill_executor("a1"), out.FetchShard))
    assert (again[0], again[1].shard.id) == ("b0", gid(11))
    answered = driver.step(events.ShardFetched(HostName("b0"), again[1].fetch_id, b"12345678", None))
    assert [reply.fetch_id for reply in replies(answered, out.Fetched)] == [7]


def test_copies_are_freed_when_the_read_has_its_answer() -> None:
    driver = two_islands()
    asked = only(sent(driver.fetch(20), out.FetchShard))
    driver.release(10, 11, 20)
    freed = sent(driver.step(events.ShardFetched(HostName("a1"), asked[1].fetch_id, b"12345678", None)), out.Free)
    assert [host for host, _ in freed] == ["b0"]


def test_a_read_fails_with_the_first_loss_when_all_copies_are_lost() -> None:
    driver = two_islands()
    driver.kill_executor("a1")
    driver.kill_executor("b0")
    failure = only(replies(driver.fetch(20), out.FetchFailed)).failure
    assert (failure.reason, failure.host) == (Reason.BUFFER_LOST, "a1")


def test_a_copy_of_a_lost_shard_is_made_from_another_island() -> None:
    driver = two_islands()
    driver.kill_executor("a1")
    effects = driver.copy(30, 20, (0,))
    assert [host for host, _ in sent(effects, out.FetchShard)] == ["b0"]
    assert [host for host, _ in sent(effects, out.PullShard)] == ["a0"]


def test_copies_live_as_long_as_the_view_and_end_with_it() -> None:
    driver = two_islands()
    assert sent(driver.release(10, 11), out.Free) == []
    freed = sent(driver.release(20), out.Free)
    assert sorted({host for host, _ in freed}) == ["a0", "a1", "b0"]


def test_a_deleted_array_is_not_replaced_by_its_copy() -> None:
    driver = two_islands()
    driver.delete(10)
    assert only(replies(driver.fetch(20), out.FetchFailed)).failure.reason is Reason.DELETED
    other = two_islands()
    other.delete(11)
    other.kill_executor("a1")
    assert only(replies(other.fetch(20), out.FetchFailed)).failure.reason is Reason.BUFFER_LOST


def test_a_copy_that_would_be_lost_with_the_shard_is_none() -> None:
    driver = two_islands()
    view(driver, 21, (10, 0, 1), (10, 1, 1))
    driver.kill_executor("a1")
    assert only(replies(driver.fetch(21), out.FetchFailed)).failure.reason is Reason.BUFFER_LOST


def test_copies_of_several_shards_at_once_are_refused() -> None:
    driver = two_islands()
    view(driver, 22, (10, 0, 2), (11, 0, 1))
    failure = only(replies(driver.fetch(22), out.FetchFailed)).failure
    assert (failure.reason, failure.message) == (Reason.INVALID_ARGUMENT, "a view with copies has one shard")


def test_copies_that_are_not_there_make_the_view_say_so() -> None:
    driver = two_islands()
    view(driver, 23, (10, 0, 1), (99, 0, 1))
    assert "no array has id 99" in only(replies(driver.fetch(23), out.FetchFailed)).failure.message
