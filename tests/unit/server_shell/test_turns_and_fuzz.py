"""Turns keep the lives of a host apart, and no bytes at all get more than a sentence out of the decoders."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pathways_common.model.failure import PathwaysError, Reason
from pathways_common.model.ids import Epoch, GlobalId, HostName, IslandName, SessionNumber
from pathways_proto.v1 import epochs_pb2, sessions_pb2, spilling_pb2, types_pb2, workers_pb2
from pathways_server.core import effects, events
from pathways_server.rpc.decode import OperationDecoder, client_frame
from pathways_server.rpc.decode_host import host_event, worker_frame
from pathways_server.rpc.encode import Encoder
from pathways_server.rpc.wire import frame
from pathways_server.shell import peer as peer_module
from pathways_server.shell.counters import Counters, turn_histogram
from pathways_server.shell.loop import Loop
from pathways_server.shell.peer import HostPeer, SessionPeer
from pathways_server.shell.programs import Programs
from pathways_server.shell.tickets import Tickets
from prometheus_client import CollectorRegistry

from tests.unit.server_shell.program_messages import PROGRAM
from tests.unit.server_shell.scripted_core import ScriptedCore

HOST, ISLAND, SESSION = HostName("a0"), IslandName("a"), SessionNumber(1)


def make_loop(tmp_path: Path, core: ScriptedCore) -> Loop:
    encoder = Encoder(Tickets(b"key"), Programs(), lambda host: "", "0.1.0")

    def no_defect(error: BaseException) -> None:
        raise error

    return Loop(core, encoder, Programs(), Counters(), turn_histogram(CollectorRegistry()), tmp_path, no_defect)


def host_peer(incarnation: int) -> HostPeer:
    return HostPeer(HOST, ISLAND, incarnation, "h:1", frame, Counters(), 1)


def test_an_effect_for_an_earlier_life_of_a_host_never_reaches_the_later_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        core = ScriptedCore()
        loop = make_loop(tmp_path, core)
        core.answers[events.FenceRequested] = lambda event: [effects.SendToHost(HOST, effects.Cancel(event.fence_id))]
        core.answers[events.HostLost] = lambda event: [effects.SendToHost(HOST, effects.Cancel(event.incarnation))]  # type: ignore[arg-type]
        old, new = host_peer(1), host_peer(2)
        loop.post((events.HostJoined(HOST, ISLAND, 1, 1, "h:1", 1, 0),), before=lambda: loop.enter_host(old))
        loop.post((events.FenceRequested(SESSION, 5),))
        loop.post((events.HostLost(HOST, 1, "gone"),), before=lambda: loop.leave_host(old))
        loop.post((events.FenceRequested(SESSION, 6),))
        loop.post((events.HostJoined(HOST, ISLAND, 2, 1, "h:1", 1, 0),), before=lambda: loop.enter_host(new))
        loop.post((events.FenceRequested(SESSION, 7),))
        await core.wait_for(events.FenceRequested, 3)
        for peer, wanted in ((old, [5]), (new, [7])):
            taken = peer.link.take()
            assert taken is not None
            got = workers_pb2.ControllerFrame.FromString(frame(1, 0, 1, taken.items))
            assert [command.cancel.execution_id for command in got.commands] == wanted

    asyncio.run(scenario())


def test_a_session_that_reads_nothing_is_ended_at_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_module, "BACKLOG_ITEMS_MAX", 10)

    async def scenario() -> None:
        core = ScriptedCore()
        loop = make_loop(tmp_path, core)
        core.answers[events.FenceRequested] = lambda event: [effects.SendToSession(SESSION, effects.FenceReached(event.fence_id))]
        peer = SessionPeer(SESSION, "id", frame, Counters())
        loop.sessions[SESSION] = peer
        loop.post((events.SessionOpened(SESSION, (), ""),))
        loop.post([events.FenceRequested(SESSION, number) for number in range(1, 21)])
        await core.wait_for(events.FenceRequested, 20)
        assert peer.ending
        last = peer.link.take()
        assert last is not None
        assert last.urgent
        got = sessions_pb2.ServerFrame.FromString(frame(1, 0, 0, last.items))
        assert got.operations[0].session_lost.failure.reason == Reason.RESOURCE_EXHAUSTED.value
        assert peer.link.pending == 11

    asyncio.run(scenario())


def mutated(data: bytes, choose: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(choose.randint(1, 6)):
        position = choose.randrange(len(changed))
        action = choose.randrange(3)
        if action == 0:
            changed[position] = choose.randrange(256)
        elif action == 1:
            changed.insert(position, choose.randrange(256))
        elif len(changed) > 1:
            del changed[position]
    return bytes(changed)


def count_refusals(decode: Callable[[bytes], object], original: bytes) -> int:
    """How many of 3,000 mutations were refused; anything but a PathwaysError fails the test."""
    choose = random.Random(7)
    refusals = 0
    for _ in range(3000):
        try:
            decode(mutated(original, choose))
        except PathwaysError as error:
            refusals += error.failure.reason is Reason.INVALID_ARGUMENT
    return refusals


def test_no_client_bytes_crash_the_decoder_and_nothing_of_them_is_kept() -> None:
    operation = sessions_pb2.ClientOperation
    spec = types_pb2.ArraySpec(dtype=11, shape=[4], sharding=b"s", shard_shape=[2], devices=[0, 1], memory_kind="device")
    operations: list[Any] = [
        operation(execute=sessions_pb2.Execute(execution_id=1, executable_id=2, arguments=[3, 4], first_result_id=5)),
        operation(
            make_array=sessions_pb2.MakeArray(buffer_id=6, spec=spec, pieces=[sessions_pb2.Piece(shards=[0], inline=b"ab")])
        ),
        operation(compile=sessions_pb2.Compile(executable_id=7, program=b"p", options=b"o", devices=[0], callback_ids=[1])),
        operation(make_view=sessions_pb2.MakeView(view_id=8, ranges=[sessions_pb2.ShardRange(view_id=6, start=0, count=1)])),
        operation(copy=sessions_pb2.Copy(result_ids=[9], views=[8], specs=[spec])),
        operation(make_error_array=sessions_pb2.MakeErrorArray(buffer_id=10, failure=types_pb2.Failure(reason="DELETED"))),
        operation(callback_result=sessions_pb2.CallbackResult(call_id=1, failure=types_pb2.Failure(message="m"))),
        operation(
            add_slice=sessions_pb2.AddSlice(slice_id=1, device_count=2, mesh_shape=[2, 1], kind="cpu", island="a", wait=True)
        ),
        operation(release_slice=sessions_pb2.ReleaseSlice(slice_id=1)),
        operation(define_program=sessions_pb2.DefineProgram(program_id=11, program=PROGRAM)),
        operation(run_program=sessions_pb2.RunProgram(run_id=12, program_id=11, arguments=[6], first_result_id=13, donated=[0])),
        operation(register_program=sessions_pb2.RegisterProgram(program_id=11, name="team/step")),
        operation(cancel=sessions_pb2.CancelWork(views=[13])),
        operation(goodbye=sessions_pb2.Goodbye(reason="done")),
    ]
    programs = Programs()
    decoder = OperationDecoder(programs, {})

    def decode(data: bytes) -> None:
        for event in decoder.decode(SESSION, client_frame(data).operations):
            if isinstance(event, events.CompileRequested):
                programs.hand_over(event.program)
                programs.drop(event.program)

    original = sessions_pb2.ClientFrame(sequence=1, operations=operations).SerializeToString()
    assert 300 < count_refusals(decode, original) < 3000
    assert len(programs) == 0


def test_requests_for_slices_become_events_and_their_form_is_checked() -> None:
    operation, decoder = sessions_pb2.ClientOperation, OperationDecoder(Programs(), {})
    whole = sessions_pb2.AddSlice(
        slice_id=3, device_count=4, mesh_shape=[2, 2], kind="cpu", island="a", exclusive=True, with_slices=[1],
        apart_from_slices=[2], wait=True, timeout_ns=5,
    )  # fmt: skip
    release = sessions_pb2.ReleaseSlice(slice_id=3)
    assert decoder.decode(SESSION, [operation(add_slice=whole), operation(release_slice=release)]) == [
        events.SliceRequested(SESSION, 3, 4, (2, 2), "cpu", "a", True, (1,), (2,), True, 5),
        events.SliceReleased(SESSION, 3),
    ]
    for wrong in (
        sessions_pb2.AddSlice(), sessions_pb2.AddSlice(slice_id=1, timeout_ns=-1),
        sessions_pb2.AddSlice(slice_id=1, mesh_shape=[1] * 65), sessions_pb2.AddSlice(slice_id=1, kind="\n"),
    ):  # fmt: skip
        with pytest.raises(PathwaysError, match="malformed message: add_slice"):
            decoder.decode(SESSION, [operation(add_slice=wrong)])


def test_answers_about_spilled_arrays_keep_the_number_of_their_command() -> None:
    assert host_event(HOST, "epoch_left", epochs_pb2.EpochLeft(epoch=2)) == events.EpochLeft(HOST, Epoch(2))
    spilled = spilling_pb2.ArraySpilled(buffer_id=1, size_bytes=2, spill_number=3)
    assert host_event(HOST, "array_spilled", spilled) == events.ArraySpilled(HOST, GlobalId(1), 3, 2, None)
    restored = spilling_pb2.ArrayRestored(buffer_id=1, spill_number=3)
    assert host_event(HOST, "array_restored", restored) == events.ArrayRestored(HOST, GlobalId(1), 3, None)


def test_no_worker_bytes_crash_the_decoder() -> None:
    event = workers_pb2.HostEvent
    failure = types_pb2.Failure(reason="INTERNAL", message="m", host="a0")
    info = types_pb2.ExecutableInfo(digest=b"d", outputs=[types_pb2.ArraySpec(dtype=11, shard_shape=[2])], donated_parameters=[0])
    items = [
        event(loaded=workers_pb2.Loaded(executable_id=1, epoch=1, info=info)),
        event(node_failed=workers_pb2.NodeFailed(execution_id=1, sequence=2, failure=failure)),
        event(callback_call=workers_pb2.CallbackCall(call_id=1, session_number=1, callback_id=1, timeout_ns=5)),
        event(epoch_ready=workers_pb2.EpochReady(epoch=1, platform="cpu", memory_kinds=["device"])),
        event(shard_fetched=workers_pb2.ShardFetched(fetch_id=1, data=b"1234")),
        event(trace_collected=workers_pb2.TraceCollected(trace_id=1, rows=[workers_pb2.TraceRow(step=1, started_ns=2)])),
        event(array_spilled=spilling_pb2.ArraySpilled(buffer_id=1, size_bytes=2)),
        event(array_restored=spilling_pb2.ArrayRestored(buffer_id=1, failure=failure)),
    ]

    def decode(data: bytes) -> None:
        for entry in worker_frame(data).events:
            name = entry.WhichOneof("event")
            if name not in (None, "log", "memory"):
                host_event(HOST, name, getattr(entry, name))

    original = workers_pb2.WorkerFrame(sequence=1, events=items).SerializeToString()
    assert 300 < count_refusals(decode, original) < 3000
