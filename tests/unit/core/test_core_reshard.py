"""Reshards: what is sent where. The plan itself is tested with the planner."""

from __future__ import annotations

from dataclasses import replace

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import FetchId, HostName, SessionNumber, global_id
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import F32, Driver, gid, only, replies, sent


def cut(*tiles: int) -> bytes:
    """A serialized xla.OpSharding: type OTHER, these tiles, positions in order."""
    count = 1
    for size in tiles:
        count *= size
    order = bytes(range(count))
    return b"\x08\x03\x1a" + bytes([len(tiles), *tiles]) + b"\x22" + bytes([count]) + order


def rows(*devices: int) -> ArraySpec:
    """An array of 8 elements in as many parts as devices."""
    return ArraySpec(F32, (8,), cut(len(devices)), (8 // len(devices),), devices)


def everywhere(*devices: int) -> ArraySpec:
    return ArraySpec(F32, (8,), b"", (8,), devices)


def put(driver: Driver, buffer: int, spec: ArraySpec) -> None:
    whole = b"0123456789abcdef0123456789abcdef"
    count = len(spec.devices)
    pieces = [events.Piece((shard,), spec.shard_bytes, whole[: spec.shard_bytes], 0) for shard in range(count)]
    driver.step(events.ArrayMade(SessionNumber(1), gid(buffer), spec, tuple(pieces)))


def reshard(driver: Driver, result: int, source: int, old: ArraySpec, new: ArraySpec, donate: bool = False) -> list[out.Effect]:
    number = SessionNumber(1)
    event = events.ReshardRequested(number, (global_id(number, result),), (global_id(number, source),), (old,), (new,), donate)
    return driver.step(event)


def two_islands(devices: int = 1) -> Driver:
    driver = Driver({"a": ["a0", "a1"], "b": ["b0", "b1"]}, devices=devices)
    driver.open(1, ("*",))
    return driver


def test_halves_become_a_whole_from_a_local_box_and_a_pulled_one() -> None:
    driver = two_islands()
    put(driver, 10, rows(0, 1))
    effects = reshard(driver, 11, 10, rows(0, 1), everywhere(0))
    source, fetch = only(sent(effects, out.FetchShard))
    assert (source, fetch.pull, fetch.start, fetch.limit) == ("a1", True, (), ())
    host, placed = only(sent(effects, out.PlaceArray))
    pull = only(sent(effects, out.PullShard))[1]
    assert (host, pull.source, pull.size_bytes) == ("a0", "a1", 16)
    assert placed.pieces == (
        out.LocalPiece(
            0,
            boxes=(
                out.LocalBox((0,), (4,), local=out.LocalShard(gid(10), 0), local_start=(0,)),
                out.LocalBox((4,), (4,), transfer_id=pull.transfer_id),
            ),
        ),
    )
    assert sent(driver.fetch(11, size=32), out.FetchShard) == []
    driver.landed("a0", pull.transfer_id)
    assert only(sent(driver.landed("a0", placed.transfer_id), out.FetchShard))[0] == "a0"


def test_a_whole_becomes_halves_elsewhere_and_only_the_halves_travel() -> None:
    driver = two_islands()
    put(driver, 10, everywhere(0))
    effects = reshard(driver, 11, 10, everywhere(0), rows(3, 2))
    fetches = [(host, fetch.start, fetch.limit) for host, fetch in sent(effects, out.FetchShard)]
    assert fetches == [("a0", (0,), (4,)), ("a0", (4,), (8,))]
    assert [(host, pull.size_bytes) for host, pull in sent(effects, out.PullShard)] == [("b1", 16), ("b0", 16)]
    assert all(piece.boxes == () for _, placed in sent(effects, out.PlaceArray) for piece in placed.pieces)


def test_devices_of_one_host_share_what_is_pulled() -> None:
    driver = two_islands(devices=2)
    put(driver, 10, rows(0, 1))
    effects = reshard(driver, 11, 10, rows(0, 1), everywhere(4, 5))
    assert len(sent(effects, out.FetchShard)) == len(sent(effects, out.PullShard)) == 2
    host, placed = only(sent(effects, out.PlaceArray))
    assert host == "b0"
    assert placed.pieces[0].boxes == placed.pieces[1].boxes


def test_a_copy_on_the_same_host_is_taken_from_there() -> None:
    driver = two_islands()
    put(driver, 10, everywhere(0, 1))
    effects = reshard(driver, 11, 10, everywhere(0, 1), everywhere(1, 0))
    assert sent(effects, out.PullShard) == []
    placed = dict(sent(effects, out.PlaceArray))
    assert placed["a0"].pieces == (out.LocalPiece(0, local=out.LocalShard(gid(10), 0)),)
    assert placed["a1"].pieces == (out.LocalPiece(0, local=out.LocalShard(gid(10), 0)),)


def test_hosts_that_hold_nothing_read_from_different_copies() -> None:
    driver = two_islands()
    put(driver, 10, everywhere(0, 1))
    effects = reshard(driver, 11, 10, everywhere(0, 1), everywhere(2, 3))
    assert [(host, pull.source) for host, pull in sent(effects, out.PullShard)] == [("b0", "a0"), ("b1", "a1")]


def test_local_boxes_are_waited_for_because_their_source_may_be_computing() -> None:
    driver = two_islands(devices=2)
    put(driver, 10, rows(0, 1))
    effects = reshard(driver, 11, 10, rows(0, 1), everywhere(0))
    placed = only(sent(effects, out.PlaceArray))[1]
    assert sent(effects, out.PullShard) == []
    assert placed.transfer_id != 0
    assert sent(driver.fetch(11, size=32), out.FetchShard) == []
    assert len(sent(driver.landed("a0", placed.transfer_id), out.FetchShard)) == 1


def test_a_source_that_takes_minutes_to_compute_is_waited_for() -> None:
    driver = two_islands()
    put(driver, 10, rows(0, 1))
    effects = reshard(driver, 11, 10, rows(0, 1), everywhere(2))
    pulls = sent(effects, out.PullShard)
    assert all(pull.timeout_ns > 1_000_000_000 * 600 for _, pull in pulls)
    driver.pass_time(600)
    for host, pull in pulls:
        driver.landed(host, pull.transfer_id)
    assert len(sent(driver.fetch(11, size=32), out.FetchShard)) == 1


def test_a_donated_source_is_freed_behind_what_reads_it() -> None:
    driver = two_islands()
    put(driver, 10, everywhere(0))
    effects = reshard(driver, 11, 10, everywhere(0), everywhere(2), donate=True)
    to_source = [e.command for e in effects if isinstance(e, out.SendToHost) and e.host == "a0"]
    assert [type(command) for command in to_source] == [out.FetchShard, out.Free]
    failure = only(replies(driver.fetch(10), out.FetchFailed)).failure
    assert failure.reason is Reason.DELETED


def test_a_donated_source_that_is_not_there_yet_is_still_read() -> None:
    driver = two_islands()
    grant = only(replies(driver.upload(10, 1, (0,)), out.UploadGrant))
    spec = ArraySpec(F32, (2,), b"", (2,), (0,))
    assert sent(reshard(driver, 11, 10, spec, replace(spec, devices=(2,)), donate=True), out.FetchShard) == []
    effects = driver.landed(*grant.targets[0])
    assert only(sent(effects, out.FetchShard))[0] == "a0"
    assert len(sent(effects, out.Free)) == 1


def test_a_failed_source_poisons_the_result_with_its_cause() -> None:
    driver = two_islands()
    put(driver, 10, rows(0, 1))
    fetch = only(sent(reshard(driver, 11, 10, rows(0, 1), everywhere(0)), out.FetchShard))[1]
    cause = Failure(Reason.EXECUTION_ERROR, "division by zero", host="a1")
    effects = driver.step(events.ShardFetched(HostName("a1"), FetchId(fetch.fetch_id), b"", cause))
    assert len(only(sent(effects, out.CancelTransfer))[1].transfer_ids) == 2
    assert only(replies(driver.fetch(11), out.FetchFailed)).failure is cause


def test_what_does_not_fit_says_so_in_the_result() -> None:
    driver = two_islands()
    put(driver, 10, rows(0, 1))
    bad = [
        (rows(0, 1), replace(everywhere(0), dtype=4), "changes neither"),
        (rows(0, 1), replace(everywhere(0), shard_shape=(4,)), "its sharding makes it [8]"),
        (rows(0, 1), replace(everywhere(0), sharding=b"\xff"), "xla.OpSharding"),
        (everywhere(0), everywhere(1), "has 2 shards and the copy names 1"),
        (rows(0, 1), rows(0, 2), "one array lives on one island"),
        (rows(0, 1), everywhere(), "names no devices"),
    ]
    for number, (old, new, words) in enumerate(bad, 20):
        reshard(driver, number, 10, old, new)
        failure = only(replies(driver.fetch(number), out.FetchFailed)).failure
        assert words in failure.message
    assert len(sent(driver.fetch(10, size=16), out.FetchShard)) == 1


def test_commands_grow_with_the_shards_and_not_with_their_square() -> None:
    counts = {}
    for hosts in (4, 16):
        names = {island: [f"{island}{index}" for index in range(hosts)] for island in ("a", "b")}
        driver = Driver(names)
        driver.open(1, ("*",))
        near, far = rows(*range(hosts)), rows(*range(hosts, 2 * hosts))
        near, far = (replace(spec, shape=(64,), shard_shape=(64 // hosts,)) for spec in (near, far))
        pieces = (events.Piece(tuple(range(hosts)), near.shard_bytes, b"x" * near.shard_bytes, 0),)
        driver.step(events.ArrayMade(SessionNumber(1), gid(10), near, pieces))
        counts[hosts] = len([e for e in reshard(driver, 11, 10, near, far) if isinstance(e, out.SendToHost)])
    assert counts == {4: 12, 16: 48}
