"""Every command and reply of the core becomes the message that protobuf itself would make of it."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId
from pathways_proto.v1 import sessions_pb2, spilling_pb2, types_pb2, workers_pb2
from pathways_server.core import effects
from pathways_server.rpc.encode import Encoder
from pathways_server.rpc.wire import frame, varint
from pathways_server.shell.programs import Programs
from pathways_server.shell.tickets import Tickets

from tests.unit.server_shell.program_messages import PROGRAM_COMMANDS, PROGRAM_REPLIES

TICKETS = Tickets(b"key")
PROGRAMS = Programs()
PROGRAM = PROGRAMS.hold(b"program", b"options")
ENCODER = Encoder(TICKETS, PROGRAMS, lambda host: f"{host}:1", "0.1.0")
FAILURE = Failure(Reason.DELETED, "gone", host="a0", metadata={"host": "a0"})
FAILURE_MESSAGE = types_pb2.Failure(reason="DELETED", message="gone", host="a0", metadata={"host": "a0"})
BIG = 5 << 40 | 123
ARRAYS = types_pb2.CallbackArrays(arrays=[types_pb2.CallbackArray(dtype=11, shape=[1], data=b"1234")])
INSPECTION = types_pb2.Inspection(text="module")
INFO = types_pb2.ExecutableInfo(name="jit_f", digest=b"d")
SHARD = effects.LocalShard(BIG, 1)  # type: ignore[arg-type]
SHARD_MESSAGE = workers_pb2.LocalShard(id=BIG, local_index=1)
W, S = workers_pb2, sessions_pb2

COMMANDS: list[tuple[Any, Any]] = [
    (
        effects.Prepare(BIG, 2, (3, BIG), 4, (1,), 6, 7, 5, 8),  # type: ignore[arg-type]
        W.HostCommand(
            prepare=W.Prepare(
                execution_id=BIG,
                executable_id=2,
                arguments=[3, BIG],
                first_result_id=4,
                non_donatable=[1],
                launch_id=6,
                sequence=7,
                previous=5,
                epoch=8,
            )
        ),
    ),
    (
        effects.Prepare(BIG, 2, (), 4, (), 6, 7, 5, 8, timed=True),  # type: ignore[arg-type]
        W.HostCommand(
            prepare=W.Prepare(
                execution_id=BIG, executable_id=2, first_result_id=4, launch_id=6, sequence=7, previous=5, epoch=8, timed=True
            )
        ),
    ),
    (effects.Grant(1, 2, 3, 4), W.HostCommand(grant=W.Grant(execution_id=1, sequence=2, previous=3, epoch=4))),  # type: ignore[arg-type]
    (effects.Cancel(BIG), W.HostCommand(cancel=W.Cancel(execution_id=BIG))),  # type: ignore[arg-type]
    (effects.Free((1, 2)), W.HostCommand(free=W.Free(ids=[1, 2]))),  # type: ignore[arg-type]
    (effects.Poison((1,), FAILURE), W.HostCommand(poison=W.Poison(ids=[1], failure=FAILURE_MESSAGE))),  # type: ignore[arg-type]
    (
        effects.PlaceArray(
            BIG,  # type: ignore[arg-type]
            ArraySpec(11, (4,), b"s", (2,), (0, 1)),
            (effects.LocalPiece(0, inline=b""), effects.LocalPiece(1, transfer_id=9), effects.LocalPiece(2, local=SHARD)),  # type: ignore[arg-type]
        ),
        W.HostCommand(
            place_array=W.PlaceArray(
                buffer_id=BIG,
                spec=types_pb2.ArraySpec(dtype=11, shape=[4], sharding=b"s", shard_shape=[2], devices=[0, 1]),
                pieces=[
                    W.LocalPiece(local_device=0, inline=b""),
                    W.LocalPiece(local_device=1, transfer_id=9),
                    W.LocalPiece(local_device=2, local=SHARD_MESSAGE),
                ],
            )
        ),
    ),
    (
        effects.PlaceArray(
            BIG,  # type: ignore[arg-type]
            ArraySpec(11, (4,), b"s", (4,), (0,)),
            (
                effects.LocalPiece(
                    1,
                    boxes=(
                        effects.LocalBox((0,), (1,), transfer_id=9),  # type: ignore[arg-type]
                        effects.LocalBox((1,), (3,), local=SHARD, local_start=(2,)),
                    ),
                ),
                effects.LocalPiece(2),
            ),
            8,  # type: ignore[arg-type]
        ),
        W.HostCommand(
            place_array=W.PlaceArray(
                buffer_id=BIG,
                spec=types_pb2.ArraySpec(dtype=11, shape=[4], sharding=b"s", shard_shape=[4], devices=[0]),
                pieces=[
                    W.LocalPiece(
                        local_device=1,
                        boxes=[
                            W.LocalBox(start=[0], shape=[1], transfer_id=9),
                            W.LocalBox(start=[1], shape=[3], local=SHARD_MESSAGE, local_start=[2]),
                        ],
                    ),
                    W.LocalPiece(local_device=2),
                ],
                transfer_id=8,
            )
        ),
    ),
    (effects.PlaceView(1, (SHARD,)), W.HostCommand(place_view=W.PlaceView(view_id=1, shards=[SHARD_MESSAGE]))),  # type: ignore[arg-type]
    (
        effects.FetchShard(3, SHARD, False, 9),  # type: ignore[arg-type]
        W.HostCommand(fetch_shard=W.FetchShard(fetch_id=3, shard=SHARD_MESSAGE, timeout_ns=9)),
    ),
    (
        effects.FetchShard(3, SHARD, False, 9, (1, 0), (2, 4)),  # type: ignore[arg-type]
        W.HostCommand(fetch_shard=W.FetchShard(fetch_id=3, shard=SHARD_MESSAGE, timeout_ns=9, start=[1, 0], limit=[2, 4])),
    ),
    (
        effects.FetchShard(3, SHARD, False, 9, held=True),  # type: ignore[arg-type]
        W.HostCommand(fetch_shard=W.FetchShard(fetch_id=3, shard=SHARD_MESSAGE, timeout_ns=9, held=True)),
    ),
    (effects.AwaitReady(1, (2,)), W.HostCommand(await_ready=W.AwaitReady(wait_id=1, ids=[2]))),  # type: ignore[arg-type]
    (
        effects.Load(1, PROGRAM, (0, 1), (7,), 2),  # type: ignore[arg-type]
        W.HostCommand(
            load=W.Load(executable_id=1, program=b"program", options=b"options", devices=[0, 1], callback_ids=[7], epoch=2)
        ),
    ),
    (
        effects.Load(1, PROGRAM, (0, 1), (), 2, "p/0x2", effects.ImageSource("a1", 3, 6, b"d", 7)),  # type: ignore[arg-type]
        W.HostCommand(
            load=W.Load(
                executable_id=1,
                program=b"program",
                options=b"options",
                devices=[0, 1],
                epoch=2,
                image_key="p/0x2",
                source=W.ImageSource(host="a1", address="a1:1", ticket=TICKETS.fetch(3), size_bytes=6, digest=b"d", timeout_ns=7),
            )
        ),
    ),
    (
        effects.OfferImage("p/0x2", 3, 7),  # type: ignore[arg-type]
        W.HostCommand(offer_image=W.OfferImage(image_key="p/0x2", fetch_id=3, ticket=TICKETS.fetch(3), timeout_ns=7)),
    ),
    (effects.Unload((1,)), W.HostCommand(unload=W.Unload(executable_ids=[1]))),  # type: ignore[arg-type]
    (effects.InspectExecutable(1, 2, 1), W.HostCommand(inspect=W.InspectExecutable(inspect_id=1, executable_id=2, kind=1))),  # type: ignore[arg-type]
    (effects.StartCoordinator(1, 2), W.HostCommand(start_coordinator=W.StartCoordinator(epoch=1, rank_count=2))),  # type: ignore[arg-type]
    (
        effects.EpochBegin(1, 0, 2, "h:1", 4),  # type: ignore[arg-type]
        W.HostCommand(epoch_begin=W.EpochBegin(epoch=1, rank_count=2, coordinator_address="h:1", device_count=4)),
    ),
    (effects.Probe(BIG), W.HostCommand(probe=W.Probe(number=BIG))),
    (effects.EpochEnd(1), W.HostCommand(epoch_end=W.EpochEnd(epoch=1))),  # type: ignore[arg-type]
    (
        effects.EpochEnd(1, (effects.Keep(2, BIG, 4),), 5),  # type: ignore[arg-type]
        W.HostCommand(epoch_end=W.EpochEnd(epoch=1, keep=[W.Keep(buffer_id=2, stored_id=BIG, spill_number=4)], timeout_ns=5)),
    ),
    (
        effects.ExpectUpload(5, 6, 7),  # type: ignore[arg-type]
        W.HostCommand(expect_upload=W.ExpectUpload(transfer_id=5, ticket=TICKETS.transfer(5), size_bytes=6, timeout_ns=7)),
    ),
    (
        effects.PullShard(5, "a1", 3, 6, 7),  # type: ignore[arg-type]
        W.HostCommand(pull_shard=W.PullShard(transfer_id=5, address="a1:1", ticket=TICKETS.fetch(3), size_bytes=6, timeout_ns=7)),
    ),
    (effects.ReportHoldings(BIG), W.HostCommand(report_holdings=W.ReportHoldings(request_id=BIG))),
    (effects.CancelTransfer((), 7), W.HostCommand(cancel_transfer=W.CancelTransfer(session_number=7))),
    (effects.CancelTransfer((1,)), W.HostCommand(cancel_transfer=W.CancelTransfer(transfer_ids=[1]))),  # type: ignore[arg-type]
    (
        effects.CallbackReply(1, ARRAYS.SerializeToString(), None),
        W.HostCommand(callback_reply=W.CallbackReply(call_id=1, results=ARRAYS)),
    ),
    (effects.CallbackAbort(1), W.HostCommand(callback_abort=W.CallbackAbort(session_number=1))),  # type: ignore[arg-type]
    (effects.SpillArray(GlobalId(7), 9), W.HostCommand(spill_array=spilling_pb2.SpillArray(buffer_id=7, spill_number=9))),
    (effects.RestoreArray(GlobalId(7), 9), W.HostCommand(restore_array=spilling_pb2.RestoreArray(buffer_id=7, spill_number=9))),
    (effects.DropSpilled((GlobalId(7),)), W.HostCommand(drop_spilled=spilling_pb2.DropSpilled(ids=[7]))),
    (effects.Shutdown("why"), W.HostCommand(shutdown=W.Shutdown(reason="why"))),
    (effects.Shutdown("why", refused=True), W.HostCommand(shutdown=W.Shutdown(reason="why", refused=True))),
    (effects.OpenCell("ads"), W.HostCommand(open_cell=W.OpenCell(tenant="ads"))),
    (effects.CloseCell("ads"), W.HostCommand(close_cell=W.CloseCell(tenant="ads"))),
    *PROGRAM_COMMANDS,
]

REPLIES: list[tuple[Any, Any]] = [
    (
        effects.Compiled(1, ExecutableFacts(b"d", 0, (), frozenset(), False, 0, INFO.SerializeToString()), None),
        S.ServerOperation(compiled=S.Compiled(executable_id=1, info=INFO)),
    ),
    (
        effects.UploadGrant(1, (("a0", 5),)),  # type: ignore[arg-type]
        S.ServerOperation(
            upload_grant=S.UploadGrant(upload_id=1, targets=[S.DataTicket(address="a0:1", ticket=TICKETS.transfer(5), host="a0")])
        ),
    ),
    (
        effects.UploadWithdrawn(1, FAILURE),
        S.ServerOperation(upload_withdrawn=S.UploadWithdrawn(upload_id=1, failure=FAILURE_MESSAGE)),
    ),
    (effects.Fetched(1, b"x" * 300), S.ServerOperation(fetched=S.Fetched(fetch_id=1, data=b"x" * 300))),
    (
        effects.FetchTicket(1, "a0", 3, 9),  # type: ignore[arg-type]
        S.ServerOperation(
            fetch_ticket=S.FetchTicket(
                fetch_id=1, source=S.DataTicket(address="a0:1", ticket=TICKETS.fetch(3), host="a0"), size_bytes=9
            )
        ),
    ),
    (effects.FetchFailed(1, FAILURE), S.ServerOperation(fetch_failed=S.FetchFailed(fetch_id=1, failure=FAILURE_MESSAGE))),
    (effects.Ready(1, None), S.ServerOperation(ready=S.Ready(wait_id=1))),
    (
        effects.Inspected(1, INSPECTION.SerializeToString(), None),
        S.ServerOperation(inspected=S.Inspected(inspect_id=1, inspection=INSPECTION)),
    ),
    (effects.FenceReached(1), S.ServerOperation(fence_reached=S.FenceReached(fence_id=1))),
    (
        effects.CallbackRequest(1, 2, ARRAYS.SerializeToString(), 3),  # type: ignore[arg-type]
        S.ServerOperation(callback_request=S.CallbackRequest(call_id=1, callback_id=2, operands=ARRAYS, timeout_ns=3)),
    ),
    (effects.CallbackCancelled(1), S.ServerOperation(callback_cancelled=S.CallbackCancelled(call_id=1))),  # type: ignore[arg-type]
    (effects.Poisoned((1, 2), FAILURE), S.ServerOperation(poisoned=S.Poisoned(buffer_ids=[1, 2], failure=FAILURE_MESSAGE))),
    (effects.Notice("a0", "text"), S.ServerOperation(notice=S.Notice(host="a0", text="text"))),
    (
        effects.SliceAdded(3, (4, 5), "b", ("b0", "b1"), None, "cpu"),
        S.ServerOperation(slice_added=S.SliceAdded(slice_id=3, devices=[4, 5], island="b", hosts=["b0", "b1"], kind="cpu")),
    ),
    (effects.SliceWaiting(3, "text"), S.ServerOperation(slice_waiting=S.SliceWaiting(slice_id=3, text="text"))),
    (effects.SliceSuspended(3, None), S.ServerOperation(slice_suspended=S.SliceSuspended(slice_id=3))),
    (
        effects.SliceResumed(3, "b", ("b0", "b1"), None),
        S.ServerOperation(slice_resumed=S.SliceResumed(slice_id=3, island="b", hosts=["b0", "b1"])),
    ),
    *PROGRAM_REPLIES,
]


@pytest.mark.parametrize(("command", "message"), COMMANDS, ids=lambda value: type(value).__name__)
def test_a_command_arrives_as_its_message(command: Any, message: Any) -> None:
    items = (ENCODER.command(command),)
    got = W.ControllerFrame.FromString(frame(3, 2, 9, items, urgent=True))
    assert got == W.ControllerFrame(sequence=3, received=2, term=9, commands=[message], urgent=True)


@pytest.mark.parametrize(("reply", "message"), REPLIES, ids=lambda value: type(value).__name__)
def test_a_reply_arrives_as_its_message(reply: Any, message: Any) -> None:
    got = S.ServerFrame.FromString(frame(1, 4, 4, (ENCODER.reply(reply), ENCODER.reply(reply))))
    assert got == S.ServerFrame(sequence=1, received=4, durable=4, operations=[message, message])


def test_no_command_and_no_reply_of_the_core_is_left_out() -> None:
    assert {type(command) for command, _ in COMMANDS} == set(get_args(effects.HostCommand))
    special = {effects.WelcomeSession, effects.RefuseSession}
    assert {type(reply) for reply, _ in REPLIES} | special == set(get_args(effects.SessionReply))


def test_failures_replace_what_they_stand_for() -> None:
    got = S.ServerFrame.FromString(frame(1, 0, 0, (ENCODER.reply(effects.Compiled(1, None, FAILURE)),)))
    assert got.operations[0].compiled == S.Compiled(executable_id=1, failure=FAILURE_MESSAGE)
    got = W.ControllerFrame.FromString(frame(1, 0, 0, (ENCODER.command(effects.CallbackReply(1, b"", FAILURE)),)))
    assert got.commands[0].callback_reply == W.CallbackReply(call_id=1, failure=FAILURE_MESSAGE)


def test_a_prepare_for_several_hosts_is_encoded_once() -> None:
    one = effects.Prepare(1, 2, (), 4, (), 0, 7, 6, 1)  # type: ignore[arg-type]
    same = effects.Prepare(1, 2, (), 4, (), 0, 7, 6, 1)  # type: ignore[arg-type]
    other = effects.Prepare(1, 2, (), 4, (), 0, 7, 5, 1)  # type: ignore[arg-type]
    encoded = ENCODER.command(one)
    assert ENCODER.command(same) is encoded
    assert ENCODER.command(other) != encoded


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (1 << 21, b"\x80\x80\x80\x01")]
)
def test_varints_are_as_protobuf_documents_them(value: int, encoded: bytes) -> None:
    assert varint(value) == encoded
