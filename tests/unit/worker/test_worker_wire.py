"""The hand-read framing agrees with protobuf's own, and broken bytes are refused with a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pathways_common.model.failure import PathwaysError
from pathways_proto.v1 import workers_pb2
from pathways_worker.shell.wire import COMMAND, EVENT, executor_commands, read_controller_frame, read_report, worker_frame

COMMANDS = [
    workers_pb2.HostCommand(prepare=workers_pb2.Prepare(execution_id=1, arguments=list(range(300)), sequence=4)),
    workers_pb2.HostCommand(free=workers_pb2.Free(ids=[1, 2])),
    workers_pb2.HostCommand(drain=workers_pb2.Drain()),
    workers_pb2.HostCommand(expect_upload=workers_pb2.ExpectUpload(transfer_id=2, ticket="t" * 200)),
    workers_pb2.HostCommand(load=workers_pb2.Load(executable_id=7, program=b"\x00" * 70000)),
]
NUMBERS = st.integers(0, 2**64 - 1)


@settings(max_examples=50, deadline=None)
@given(NUMBERS, NUMBERS, NUMBERS, st.booleans(), st.lists(st.integers(0, len(COMMANDS) - 1), max_size=6))
def test_frames_are_read_and_written_as_protobuf_does(
    sequence: int, received: int, term: int, urgent: bool, picks: list[int]
) -> None:
    commands = [COMMANDS[pick] for pick in picks]
    message = workers_pb2.ControllerFrame(sequence=sequence, received=received, term=term, urgent=urgent, commands=commands)
    frame = read_controller_frame(message.SerializeToString())
    assert (frame.sequence, frame.received, frame.term, frame.urgent) == (sequence, received, term, urgent)
    assert [item.kind for item in frame.commands or ()] == [COMMAND[command.WhichOneof("command")] for command in commands]
    forwarded = workers_pb2.ExecutorCommands.FromString(executor_commands(sequence, frame.commands or ()))
    assert forwarded == workers_pb2.ExecutorCommands(frame=sequence, commands=commands)


def test_reports_and_worker_frames_agree_with_protobuf() -> None:
    events = [
        workers_pb2.HostEvent(shard_fetched=workers_pb2.ShardFetched(fetch_id=3, data=b"x" * 70000)),
        workers_pb2.HostEvent(memory=workers_pb2.Memory(live_bytes=-1)),
        workers_pb2.HostEvent(landed=workers_pb2.Landed()),
    ]
    times = [workers_pb2.GangTime(sequence=at, started_ns=2**60, ended_ns=2**60 + at) for at in (4, 5)]
    message = workers_pb2.ExecutorReport(
        acknowledged_frame=2**63, finished_through=5, launched_through=9, events=events, busy_ns=2**40, times=times
    )
    report = read_report(message.SerializeToString())
    assert (report.acknowledged_frame, report.finished_through, report.launched_through) == (2**63, 5, 9)
    assert report.busy_ns == 2**40
    assert [item.kind for item in report.events or ()] == [EVENT["shard_fetched"], EVENT["memory"], EVENT["landed"]]
    data = worker_frame(1, 2, 3, 4, 5, 6, [item.data for item in report.events or ()], report.times or ())
    wanted = workers_pb2.WorkerFrame(
        sequence=1, acknowledged=2, incarnation=3, finished_through=4, launched_through=5, busy_ns=6, events=events, times=times
    )
    assert workers_pb2.WorkerFrame.FromString(data) == wanted


def test_an_absent_number_is_zero_and_an_unknown_field_is_skipped() -> None:
    frame = read_controller_frame(workers_pb2.ControllerFrame().SerializeToString())
    assert (frame.sequence, frame.received, frame.commands) == (0, 0, [])
    unknown = bytes([0xF8, 0x07, 0x96, 0x01]) + bytes([0xFA, 0x07, 0x02, 1, 2]) + bytes([0xFD, 0x07, 1, 2, 3, 4])
    assert read_controller_frame(unknown + workers_pb2.ControllerFrame(sequence=9).SerializeToString()).sequence == 9


@pytest.mark.parametrize("data", [b"\x22\x05ab", b"\x22\x00", b"\x09\x01", b"\xff" * 12, b"\x23"])
def test_broken_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(PathwaysError, match="malformed message"):
        read_controller_frame(data)
