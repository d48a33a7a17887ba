"""Uploads, fetches, waits, copies, callbacks: who is told what, and how each ends."""

from __future__ import annotations

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import CallId, Epoch, FetchId, HostName, Sequence, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, gid, only, replies, sent, spec


def ready(**options: object) -> Driver:
    driver = Driver(**options)  # type: ignore[arg-type]
    driver.open()
    driver.compile(1)
    driver.put(10)
    return driver


def test_small_pieces_ride_inline_to_the_hosts_that_hold_them() -> None:
    driver = Driver(devices=2)
    driver.open()
    pieces = (events.Piece((0, 3), 8, b"left....", 0), events.Piece((1, 2), 8, b"right...", 0))
    effects = driver.step(events.ArrayMade(SessionNumber(1), gid(10), spec(3, 1, 0, 2), pieces))
    placed = dict(sent(effects, out.PlaceArray))
    assert placed["a0"].pieces == (out.LocalPiece(1, inline=b"right..."), out.LocalPiece(0, inline=b"right..."))
    assert placed["a1"].pieces == (out.LocalPiece(1, inline=b"left...."), out.LocalPiece(0, inline=b"left...."))
    assert placed["a0"].spec.devices == (3, 1, 0, 2)


def test_a_large_piece_goes_to_each_host_once_however_many_of_its_devices_have_it() -> None:
    driver = Driver(devices=2)
    driver.open()
    effects = driver.upload(10, upload=7, devices=(0, 1, 2, 3), size=80)
    grant = only(replies(effects, out.UploadGrant))
    assert grant.upload_id == 7
    assert [host for host, _ in grant.targets] == ["a0", "a1"]
    assert len({transfer for _, transfer in grant.targets}) == 2
    assert [(host, expect.size_bytes) for host, expect in sent(effects, out.ExpectUpload)] == [("a0", 80), ("a1", 80)]
    placed = dict(sent(effects, out.PlaceArray))
    for host, transfer in grant.targets:
        assert placed[host].pieces == (out.LocalPiece(0, transfer_id=transfer), out.LocalPiece(1, transfer_id=transfer))
    driver.landed(*grant.targets[0])
    assert driver.core.state.sessions[SessionNumber(1)].uploads, "the other host waits for it still"
    driver.landed(*grant.targets[1])
    assert not driver.core.state.sessions[SessionNumber(1)].uploads


def test_a_shard_larger_than_its_device_poisons_the_array_and_withdraws_the_upload() -> None:
    driver = Driver(memory=79)
    driver.open()
    effects = driver.upload(10, upload=7, size=80)
    withdrawn = only(replies(effects, out.UploadWithdrawn))
    assert (withdrawn.upload_id, withdrawn.failure.reason) == (7, Reason.RESOURCE_EXHAUSTED)
    assert "80 bytes" in withdrawn.failure.message
    assert "has 79" in withdrawn.failure.message
    assert only(replies(driver.fetch(10), out.FetchFailed)).failure is withdrawn.failure


def test_an_upload_that_stays_silent_is_withdrawn() -> None:
    driver = ready()
    targets = only(replies(driver.upload(11, upload=1), out.UploadGrant)).targets
    driver.fetch(11)
    driver.landed(*targets[0])
    effects = driver.pass_time(61)
    assert only(replies(effects, out.UploadWithdrawn)).failure.reason is Reason.TIMED_OUT
    assert only(replies(effects, out.FetchFailed)).failure.reason is Reason.TIMED_OUT


@pytest.mark.parametrize("pieces", [((0,),), ((0, 1), (1,)), ((0, 2),)])
def test_every_shard_is_fed_once(pieces: tuple[tuple[int, ...], ...]) -> None:
    driver = ready()
    made = tuple(events.Piece(shards, 8, b"12345678", 0) for shards in pieces)
    assert sent(driver.step(events.ArrayMade(SessionNumber(1), gid(11), spec(0, 1), made)), out.PlaceArray) == []
    assert only(replies(driver.fetch(11), out.FetchFailed)).failure.reason is Reason.INVALID_ARGUMENT


def test_a_small_read_comes_back_through_the_controller() -> None:
    driver = ready()
    host, command = only(sent(driver.fetch(10, fetch=4, shard=1), out.FetchShard))
    assert (host, command.shard, command.pull) == ("a1", out.LocalShard(gid(10), 0), False)
    effects = driver.step(events.ShardFetched(HostName("a1"), command.fetch_id, b"12345678", None))
    assert only(replies(effects, out.Fetched)) == out.Fetched(4, b"12345678")


def test_a_large_read_gets_a_ticket_at_once() -> None:
    driver = ready()
    effects = driver.fetch(10, fetch=4, shard=1, size=65537)
    command = only(sent(effects, out.FetchShard))[1]
    assert command.pull
    assert only(replies(effects, out.FetchTicket)) == out.FetchTicket(4, HostName("a1"), command.fetch_id, 65537)


def test_a_large_read_whose_end_nobody_reports_stops_being_a_reader() -> None:
    driver = ready()
    driver.fetch(10, size=65537)
    driver.pass_time(0.1)
    for _ in range(33):  # only time in which the controller listened counts, and only if the executor is alive
        for host, probe in sent(driver.pass_time(0.3), out.Probe):
            sequence = Sequence(0)
            driver.step(events.HostPulsed(HostName(host), probe.number, Epoch(1), sequence, 0, sequence, 0, True, False))
    assert len(driver.core.state.readers) == 1
    driver.pass_time(0.2)
    assert driver.core.state.readers == {}


def test_a_broken_pull_waits_for_the_loss_behind_it() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]})
    driver.open(1, ("*",))
    driver.put(10, devices=(0,))
    driver.put(12, devices=(0,))
    reset = Failure(Reason.UNAVAILABLE, "connection reset", host="b0")
    first = only(sent(driver.copy(11, 10, (1,)), out.PullShard))[1]
    second = only(sent(driver.copy(13, 12, (1,)), out.PullShard))[1]
    driver.step(events.TransferLanded(HostName("b0"), first.transfer_id, reset))
    driver.pass_time(0.2)
    assert only(replies(driver.fetch(11), out.FetchFailed)).failure is reset
    driver.step(events.TransferLanded(HostName("b0"), second.transfer_id, reset))
    driver.kill_executor("a0")
    assert only(replies(driver.fetch(13), out.FetchFailed)).failure.reason is Reason.BUFFER_LOST


def test_a_read_of_a_value_on_its_way_is_sent_when_it_is_there() -> None:
    driver = ready()
    targets = only(replies(driver.upload(11, upload=1), out.UploadGrant)).targets
    assert sent(driver.fetch(11), out.FetchShard) == []
    driver.landed(*targets[0])
    assert len(sent(driver.landed(*targets[1]), out.FetchShard)) == 1


def test_a_wait_asks_every_host_and_ends_with_the_last() -> None:
    driver = ready()
    waits = sent(driver.wait(10, wait=9), out.AwaitReady)
    assert [(host, command.ids) for host, command in waits] == [("a0", (gid(10),)), ("a1", (gid(10),))]
    number = waits[0][1].wait_id
    assert replies(driver.step(events.BecameReady(HostName("a0"), number, None)), out.Ready) == []
    assert replies(driver.step(events.BecameReady(HostName("a0"), number, None)), out.Ready) == []
    assert only(replies(driver.step(events.BecameReady(HostName("a1"), number, None)), out.Ready)) == out.Ready(9, None)


def test_a_wait_for_nothing_and_one_for_a_deleted_value_end_at_once() -> None:
    driver = ready()
    assert only(replies(driver.wait(), out.Ready)).failure is None
    driver.delete(10)
    failure = only(replies(driver.wait(10), out.Ready)).failure
    assert failure is not None
    assert failure.reason is Reason.DELETED


def test_a_copy_on_the_same_host_moves_nothing_over_the_network() -> None:
    driver = ready(devices=2)
    effects = driver.copy(11, 10, (0, 1), memory_kind="pinned_host")
    host, placed = only(sent(effects, out.PlaceArray))
    assert (host, placed.spec.memory_kind) == ("a0", "pinned_host")
    assert [piece.local for piece in placed.pieces] == [out.LocalShard(gid(10), 0), out.LocalShard(gid(10), 1)]
    assert len(sent(driver.fetch(11), out.FetchShard)) == 1


def test_a_copy_between_islands_is_pulled_by_the_destination() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]})
    driver.open(1, ("*",))
    driver.put(10, devices=(0,))
    effects = driver.copy(11, 10, (1,))
    source, fetch = only(sent(effects, out.FetchShard))
    destination, pull = only(sent(effects, out.PullShard))
    assert (source, fetch.pull, destination, pull.source, pull.fetch_id) == ("a0", True, "b0", "a0", fetch.fetch_id)
    assert only(sent(effects, out.PlaceArray))[1].pieces == (out.LocalPiece(0, transfer_id=pull.transfer_id),)
    assert sent(driver.fetch(11), out.FetchShard) == []
    assert only(sent(driver.landed("b0", pull.transfer_id), out.FetchShard))[0] == "b0"


def test_a_failed_source_poisons_the_copy_with_its_cause() -> None:
    driver = Driver({"a": ["a0"], "b": ["b0"]})
    driver.open(1, ("*",))
    driver.put(10, devices=(0,))
    fetch = only(sent(driver.copy(11, 10, (1,)), out.FetchShard))[1]
    cause = Failure(Reason.EXECUTION_ERROR, "division by zero", host="a0")
    effects = driver.step(events.ShardFetched(HostName("a0"), FetchId(fetch.fetch_id), b"", cause))
    assert len(sent(effects, out.CancelTransfer)) == 1
    assert only(replies(driver.fetch(11), out.FetchFailed)).failure is cause


def test_a_callback_goes_to_its_client_and_back() -> None:
    driver = ready()
    effects = driver.step(events.CallbackCalled(HostName("a1"), 3, SessionNumber(1), 77, b"operands", 10**9))
    request = only(replies(effects, out.CallbackRequest))
    assert (request.callback_id, request.operands, request.timeout_ns) == (77, b"operands", 10**9)
    effects = driver.step(events.CallbackReturned(SessionNumber(1), request.call_id, b"results", None))
    assert effects == [out.SendToHost(HostName("a1"), out.CallbackReply(3, b"results", None), urgent=True)]
    assert isinstance(driver.step(events.CallbackReturned(SessionNumber(1), request.call_id, b"", None))[0], out.Log)


def test_a_callback_of_a_client_that_is_gone_is_answered_at_once() -> None:
    driver = ready()
    driver.close()
    effects = driver.step(events.CallbackCalled(HostName("a1"), 3, SessionNumber(1), 77, b"", 10**9))
    reply = only(sent(effects, out.CallbackReply))[1]
    assert (reply.call_id, reply.failure.reason if reply.failure else None) == (3, Reason.CANCELLED)


def test_a_callback_past_its_deadline_is_answered_and_withdrawn() -> None:
    driver = ready()
    driver.step(events.CallbackCalled(HostName("a1"), 3, SessionNumber(1), 77, b"", 10**9))
    effects = driver.pass_time(1)
    assert only(replies(effects, out.CallbackCancelled)).call_id > CallId(0)
    reply = only(sent(effects, out.CallbackReply))[1]
    assert reply.failure is not None
    assert reply.failure.reason is Reason.TIMED_OUT
