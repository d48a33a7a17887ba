"""Handles, counts, releases, options, errors and uploads of the door, with a stream that only records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_door.errors import status_of
from pathways_door.handles import DELETED, ArrayTable, Value, form_of, merged, shards_of
from pathways_door.options import CALLBACKS_KEY, OPTIONS_TYPE, read_options
from pathways_door.pending import Pending
from pathways_door.sharding import Placement
from pathways_door.uploads import Uploads
from pathways_proto.ifrt import compile_options_pb2, values_pb2, xla_data_pb2
from pathways_proto.v1 import sessions_pb2

FORM = form_of(11, (8,), Placement((0, 1, 2, 3), b"", "device"))


class Recorder:
    """Stands for the session stream."""

    def __init__(self) -> None:
        self.pushed: list[sessions_pb2.ClientOperation] = []
        self.released: list[int] = []
        self.last = 100

    def new_ids(self, count: int = 1) -> int:
        self.last += count
        return self.last - count + 1

    def push(self, operation: sessions_pb2.ClientOperation, urgent: bool = False) -> None:
        self.pushed.append(operation)

    def release(self, value_id: int, size_bytes: int) -> None:
        self.released.append(value_id)


def _table() -> tuple[ArrayTable, Recorder]:
    recorder = Recorder()
    return ArrayTable(recorder), recorder  # type: ignore[arg-type]


def test_a_value_is_released_with_its_last_record() -> None:
    table, stream = _table()
    value = Value(1, 4, 32)
    table.add(1, FORM, ((value, 0, 4),))
    table.add(2, FORM, ((value, 2, 1),))
    table.destruct(1)
    assert stream.released == []
    table.destruct(2)
    table.destruct(2)
    assert stream.released == [1]
    assert len(table) == 0


def test_a_whole_value_needs_no_view_and_a_part_gets_one_once() -> None:
    table, stream = _table()
    value = Value(1, 4, 32)
    whole = table.add(1, FORM, ((value, 0, 4),))
    assert table.view_of(whole) == 1
    part = table.add(2, FORM, ((value, 1, 2),))
    view = table.view_of(part)
    assert table.view_of(part) == view
    assert len(stream.pushed) == 1
    sent = stream.pushed[0].make_view
    assert (sent.view_id, [(r.view_id, r.start, r.count) for r in sent.ranges]) == (view, [(1, 1, 2)])
    table.destruct(1)
    assert stream.released == [1]
    table.destruct(2)
    assert stream.released == [1, view]


def test_the_first_of_shards_on_several_islands_is_a_view_that_names_the_others() -> None:
    table, stream = _table()
    on_a, on_b = Value(1, 2, 16), Value(2, 1, 8)
    table.add(1, FORM, ((on_a, 0, 2), (on_b, 0, 1)))
    table.first_of_copies(2, FORM, [(on_a, 0, 1), (on_b, 0, 1)])
    sent = stream.pushed[0].make_view
    assert [(r.view_id, r.start, r.count) for r in sent.ranges] == [(1, 0, 1)]
    assert [(r.view_id, r.start, r.count) for r in sent.copies] == [(2, 0, 1)]
    assert table.view_of(table.get(2)) == sent.view_id
    table.destruct(2)
    assert stream.released == [sent.view_id]


def test_a_view_on_several_values_is_mixed_and_a_part_of_one_is_not() -> None:
    table, _ = _table()
    on_a, on_b = Value(1, 2, 16), Value(2, 2, 16)
    for handle, ranges, mixed in ((1, ((on_a, 0, 2), (on_b, 0, 2)), True), (2, ((on_a, 1, 1),), False)):
        record = table.add(handle, FORM, ranges)
        table.view_of(record)
        assert record.ranges[0][0].is_mixed is mixed


def test_taking_apart_and_putting_together_gives_the_whole_again() -> None:
    table, _ = _table()
    value = Value(1, 4, 32)
    record = table.add(1, FORM, ((value, 0, 4),))
    assert merged(shards_of(record)) == ((value, 0, 4),)
    turned = merged(reversed(shards_of(record)))
    assert turned == ((value, 3, 1), (value, 2, 1), (value, 1, 1), (value, 0, 1))


def test_deleting_a_value_shows_in_every_record_of_it() -> None:
    table, _ = _table()
    value = Value(1, 4, 32)
    record = table.add(1, FORM, ((value, 1, 1),))
    assert record.problem() is None
    value.deleted = True
    assert record.problem() is DELETED
    unknown = table.get(77).problem()
    assert unknown is not None
    assert "77" in unknown.message


@pytest.mark.parametrize("seen_before", [False, True])
def test_what_was_spread_over_devices_to_be_donated_ends_with_the_donation(seen_before: bool) -> None:
    table, stream = _table()
    source, copies, whole = Value(1, 1, 32), Value(2, 3, 96), Value(3, 4, 128)
    at_source = table.add(1, FORM, ((source, 0, 1),))
    at_whole = table.add(2, FORM, ((whole, 0, 4),))
    spread = table.add(3, FORM, ((source, 0, 1), (copies, 0, 3)))
    part = table.add(4, FORM, ((whole, 1, 2),))
    if seen_before:
        table.view_of(spread)
    table.view_of(spread)
    table.view_of(part)
    table.donated([*spread.values(), *part.values()])
    assert at_source.problem() is DELETED
    assert spread.problem() is DELETED
    # A part of an array is copied: the array stays.
    assert at_whole.problem() is None
    # Nobody else names the copies, which were released; the source would stay in memory without this.
    assert [list(operation.delete.views) for operation in stream.pushed if operation.HasField("delete")] == [[1]]


def test_options_give_devices_replica_major_and_lose_them() -> None:
    options = compile_options_pb2.CompileOptionsProto()
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 2, 3
    computations = [xla_data_pb2.DeviceAssignmentProto.ComputationDevice(replica_device_ids=[p, 10 + p]) for p in range(3)]
    build.device_assignment.CopyFrom(
        xla_data_pb2.DeviceAssignmentProto(replica_count=2, computation_count=3, computation_devices=computations)
    )
    options.env_option_overrides[CALLBACKS_KEY].string_field = "5,9"
    options.env_option_overrides["xla_something"].bool_field = True
    unknown = b"\x28\x07"  # profile_version = 7, which our subset does not know
    data = b"\x0a" + bytes([len(options.SerializeToString()) + 2]) + options.SerializeToString() + unknown
    read = read_options(values_pb2.Serialized(type_name=OPTIONS_TYPE, data=data))
    assert read.devices == (0, 1, 2, 10, 11, 12)
    assert read.callback_ids == (5, 9)
    left = compile_options_pb2.CompileOptionsProto.FromString(read.options)
    assert not left.executable_build_options.HasField("device_assignment")
    assert list(left.env_option_overrides) == ["xla_something"]
    assert unknown in read.options


def test_equal_options_are_equal_bytes_whatever_the_order_of_their_maps_and_the_devices() -> None:
    def received(device: int, entries: tuple[bytes, ...]) -> bytes:
        """As a runtime writes them: entries of xla_gpu_analytical_latency_estimator_options (357) among other debug options."""
        debug = b"\xf8\x01\x03" + b"".join(b"\xaa\x16" + bytes([len(entry)]) + entry for entry in entries) + b"\xb8\x16\x01"
        ids = bytes([0x0A, 1, device])
        assignment = b"\x08\x01\x10\x01\x1a" + bytes([len(ids)]) + ids
        build = b"\x1a" + bytes([len(debug)]) + debug + b"\x20\x01\x28\x01\x4a" + bytes([len(assignment)]) + assignment
        options = b"\x1a" + bytes([len(build)]) + build
        return read_options(values_pb2.Serialized(type_name=OPTIONS_TYPE, data=b"\x0a" + bytes([len(options)]) + options)).options

    one, other = b"\x0a\x01a\x12\x02-1", b"\x0a\x01b\x12\x02-1"
    assert received(0, (one, other)) == received(1, (other, one))
    assert received(0, (one, other)) != received(0, (one,))
    debug = compile_options_pb2.CompileOptionsProto.FromString(received(0, (one, other))).executable_build_options.debug_options
    assert dict(debug.xla_gpu_analytical_latency_estimator_options) == {"a": "-1", "b": "-1"}


def test_options_of_other_kinds_are_refused() -> None:
    with pytest.raises(PathwaysError, match="IfrtIR"):
        read_options(values_pb2.Serialized(type_name="xla::ifrt::IfrtIRCompileOptions"))


def test_failures_end_with_the_line_our_client_reads() -> None:
    status = status_of(Failure(Reason.SLICE_LOST, "host a1 is gone", host="a1", id="7f"))
    assert status.code == 15
    assert status.message == "host a1 is gone\n[pathways reason=SLICE_LOST host=a1 id=7f]"


def test_status_words_in_a_users_text_are_broken_and_only_there() -> None:
    text = "DATA_LOSS INTERNAL NOT_FOUND DEADLINE_EXCEEDED"
    user = status_of(Failure(Reason.USER_ERROR, text))
    assert not any(word in user.message for word in text.split())
    assert user.message.replace("\u200b", "").startswith(text)
    assert status_of(Failure(Reason.COMPILE_ERROR, text)).message.startswith(text)


def test_every_wait_is_answered_once() -> None:
    pending = Pending()
    seen: list[Any] = []
    pending.expect("ready", 1, lambda message, failure: seen.append((message, failure)))
    pending.expect("ready", 2, lambda message, failure: seen.append((message, failure)))
    assert pending.answer("ready", 1, "yes", None)
    assert not pending.answer("ready", 1, "again", None)
    lost = Failure(Reason.UNAVAILABLE, "gone")
    pending.fail_all(lost)
    assert seen == [("yes", None), (None, lost)]
    assert len(pending) == 0


class _Bulk:
    def __init__(self) -> None:
        self.pushed: list[tuple[str, bytes]] = []

    async def push(self, target: sessions_pb2.DataTicket, data: bytes) -> None:
        self.pushed.append((target.ticket, bytes(data)))


def _uploads() -> tuple[Uploads, _Bulk, list[Any]]:
    bulk = _Bulk()
    tasks: list[Any] = []
    uploads = Uploads(bulk, 8, lambda name, work: tasks.append(asyncio.ensure_future(work)))  # type: ignore[arg-type]
    return uploads, bulk, tasks


def test_small_bytes_that_come_before_their_frame_leaves_ride_inline() -> None:
    async def scenario() -> None:
        uploads, _, _ = _uploads()
        piece = sessions_pb2.Piece(size_bytes=4)
        number = uploads.begin(piece)
        settled = asyncio.Event()
        assert uploads.unsettled(settled.set)
        uploads.arrived(number, b"abcd")
        assert settled.is_set()
        assert not uploads.unsettled(settled.clear)
        assert (piece.inline, piece.upload_id, len(uploads)) == (b"abcd", 0, 0)

    asyncio.run(scenario())


def test_bytes_that_come_after_their_frame_left_go_by_ticket_whatever_their_size() -> None:
    async def scenario() -> None:
        uploads, bulk, tasks = _uploads()
        piece = sessions_pb2.Piece(size_bytes=4)
        number = uploads.begin(piece)
        settled = asyncio.Event()
        assert uploads.unsettled(settled.set)
        await asyncio.wait_for(settled.wait(), 10)
        assert not uploads.unsettled(settled.clear)
        uploads.seal()
        target = sessions_pb2.DataTicket(address="a:1", ticket="t")
        uploads.granted(sessions_pb2.UploadGrant(upload_id=number, targets=[target]))
        uploads.arrived(number, b"abcd")
        assert (piece.inline, piece.upload_id) == (b"", number)
        await asyncio.gather(*tasks)
        assert bulk.pushed == [("t", b"abcd")]
        assert len(uploads) == 0

    asyncio.run(scenario())


def test_bytes_of_a_withdrawn_upload_are_dropped() -> None:
    async def scenario() -> None:
        uploads, bulk, tasks = _uploads()
        number = uploads.begin(sessions_pb2.Piece(size_bytes=400))
        uploads.withdrawn(sessions_pb2.UploadWithdrawn(upload_id=number))
        uploads.arrived(number, b"x" * 400)
        assert (tasks, bulk.pushed, len(uploads)) == ([], [], 0)

    asyncio.run(scenario())


def _deleted(stream: Recorder) -> list[int]:
    return [view for operation in stream.pushed if operation.HasField("delete") for view in operation.delete.views]


def test_deleting_a_part_ends_nothing_that_others_have_of_it() -> None:
    table, stream = _table()
    whole = table.add(1, FORM, ((Value(1, 4, 32), 0, 4),))
    half = table.add(2, FORM, ((whole.ranges[0][0], 0, 2),))
    table.view_of(half)  # it was an argument
    quarter = table.add(3, FORM, ((half.ranges[0][0], 1, 1),))
    table.view_of(quarter)
    table.delete(quarter)
    table.delete(half)
    assert _deleted(stream) == []
    assert (half.problem(), quarter.problem(), whole.problem()) == (DELETED, DELETED, None)
    table.delete(whole)
    assert _deleted(stream) == [1]


def test_deleting_a_view_ends_what_it_holds_all_of() -> None:
    table, stream = _table()
    first, second = Value(1, 2, 16), Value(2, 4, 32)
    table.add(1, FORM, ((first, 0, 2),))
    table.add(2, FORM, ((second, 0, 4),))
    both = table.add(3, FORM, ((first, 0, 2), (second, 0, 2)))
    table.view_of(both)
    table.delete(both)
    assert _deleted(stream) == [1]
    assert (first.deleted, second.deleted) == (True, False)


def test_the_first_of_copies_is_a_part() -> None:
    table, stream = _table()
    value = Value(1, 4, 32)
    table.add(1, FORM, ((value, 0, 4),))
    table.first_of_copies(2, FORM, [(value, 0, 1), (value, 2, 1)])
    first = table.find(2)
    assert first is not None
    table.delete(first)
    assert _deleted(stream) == []


def test_deleting_what_was_donated_before_ends_nothing_of_what_it_was_made_into() -> None:
    table, stream = _table()
    value = Value(1, 4, 32)
    donated = table.add(1, FORM, ((value, 0, 4),))
    made = table.add(2, FORM, ((value, 0, 4),))
    donated.deleted = True  # as a remap or a reshard leaves it
    table.delete(donated)
    assert _deleted(stream) == []
    assert made.problem() is None
