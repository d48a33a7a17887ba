"""Sessions over real connections of both kinds with a scripted core: hello, batches, refusals, malformed input, the end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import local_id
from pathways_common.rpc.auth import bearer
from pathways_proto.v1 import cluster_pb2, cluster_pb2_grpc, sessions_pb2, types_pb2
from pathways_server.core import effects, events

from tests.unit.server_shell.scripted_core import TIMEOUT_S, Controller, controller, open_session, read_items, status_of

Operation = sessions_pb2.ClientOperation
both = pytest.mark.parametrize("transport", ["grpc", "framed"])


def fence(number: int) -> Any:
    return Operation(fence=sessions_pb2.Fence(fence_id=number))


def answer_fences(running: Controller) -> None:
    running.core.answers[events.FenceRequested] = lambda event: [
        effects.SendToSession(event.session, effects.FenceReached(event.fence_id))
    ]


@both
def test_a_wrong_token_is_refused_in_one_sentence_before_the_session_exists(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            code, details = await status_of(running.session_call("wrong"))
            assert code is grpc.StatusCode.UNAUTHENTICATED
            assert details.startswith("the token is wrong: set PATHWAYS_TOKEN")
            stub = cluster_pb2_grpc.ClustersStub(running.channel)
            with pytest.raises(grpc.aio.AioRpcError, match="no token was sent"):
                await stub.GetStatus(cluster_pb2.GetStatusRequest(), timeout=TIMEOUT_S)
            answer = await stub.GetVersion(cluster_pb2.GetVersionRequest(), timeout=TIMEOUT_S)
            assert answer.protocol_version == "pathways.v1"
            assert running.core.seen == []

    asyncio.run(scenario())


@both
def test_hello_is_answered_with_a_random_session_and_the_devices(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            first, second = running.session_call(), running.session_call()
            one, two = await open_session(first, islands=["a"]), await open_session(second)
            assert len(one.session_id) == 32
            assert one.session_id != two.session_id
            assert two.session_number == one.session_number + 1
            assert one.devices == [
                types_pb2.Device(island="a", host="a0", platform="cpu", device_kind="cpu", memory_kinds=["device"])
            ]
            assert (one.platform, one.inline_bytes_max) == ("cpu", 65536)
            opened = running.core.of(events.SessionOpened)
            assert opened[0] == events.SessionOpened(one.session_number, ("a",), "test")

    asyncio.run(scenario())


@both
def test_operations_reach_the_core_in_order_and_are_acknowledged(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            answer_fences(running)
            call = running.session_call()
            welcome = await open_session(call)
            for sequence in (1, 2, 3):
                operations = [fence(10 * sequence + index) for index in range(5)]
                await call.write(sessions_pb2.ClientFrame(sequence=sequence, operations=operations))
            await running.core.wait_for(events.FenceRequested, 15)
            wanted = [10 * sequence + index for sequence in (1, 2, 3) for index in range(5)]
            assert [event.fence_id for event in running.core.of(events.FenceRequested)] == wanted
            answers: list[Any] = []
            received = 0
            while len(answers) < 15:
                frame = await asyncio.wait_for(call.read(), TIMEOUT_S)
                answers += frame.operations
                received = max(received, frame.received)
                await call.write(sessions_pb2.ClientFrame(received=frame.sequence))
            assert [answer.fence_reached.fence_id for answer in answers] == wanted
            assert received == 3
            execution = sessions_pb2.Execute(execution_id=7, executable_id=8, arguments=[9])
            await call.write(sessions_pb2.ClientFrame(sequence=4, operations=[Operation(execute=execution)]))
            (execute,) = await running.core.wait_for(events.ExecuteRequested)
            number = welcome.session_number
            assert execute.execution_id == number << 40 | 7
            assert execute.arguments == (number << 40 | 9,)

    asyncio.run(scenario())


@both
def test_replies_accumulate_while_the_client_does_not_acknowledge(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            answer_fences(running)
            call = running.session_call()
            await open_session(call)
            for sequence in range(1, 101):
                await call.write(sessions_pb2.ClientFrame(sequence=sequence, operations=[fence(sequence)]))
                await running.core.wait_for(events.FenceRequested, sequence)
            frames = []
            while sum(frame.sequence > 0 for frame in frames) < 2:
                frames.append(await asyncio.wait_for(call.read(), TIMEOUT_S))
            first_two = sum(len(frame.operations) for frame in frames)
            assert first_two < 100
            await call.write(sessions_pb2.ClientFrame(received=2))
            rest, _ = await read_items(call, "operations", 100 - first_two)
            assert rest[-1].fence_reached.fence_id == 100

    asyncio.run(scenario())


@both
def test_an_acknowledgement_alone_is_not_acknowledged(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            call = running.session_call()
            await open_session(call)
            sent = running.app._counters.frames_sent
            for _ in range(5):
                await call.write(sessions_pb2.ClientFrame())
            await call.write(sessions_pb2.ClientFrame(sequence=1, operations=[fence(1)]))
            frame = await asyncio.wait_for(call.read(), TIMEOUT_S)
            assert (frame.sequence, frame.received, frame.durable) == (0, 1, 1)
            assert running.app._counters.frames_sent == sent + 1

    asyncio.run(scenario())


@both
def test_a_refusal_of_the_core_ends_the_stream_after_its_sentence(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            failure = Failure(Reason.INVALID_ARGUMENT, "there is no island z; islands are a, b")
            running.core.answers[events.SessionOpened] = lambda event: [
                effects.SendToSession(event.session, effects.RefuseSession(failure))
            ]
            call = running.session_call()
            await call.write(sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(islands=["z"])))
            frame = await asyncio.wait_for(call.read(), TIMEOUT_S)
            assert frame.refused.failure.message == failure.message
            assert await asyncio.wait_for(call.read(), TIMEOUT_S) is grpc.aio.EOF
            await running.core.wait_for(events.SessionClosed)

    asyncio.run(scenario())


@both
def test_another_version_is_refused_without_telling_the_core(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            call = running.session_call()
            await call.write(sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(pathways_version="9.9.9")))
            frame = await asyncio.wait_for(call.read(), TIMEOUT_S)
            assert frame.refused.failure.reason == "VERSION_MISMATCH"
            assert "the client has pathways 9.9.9" in frame.refused.failure.message
            assert running.core.seen == []

    asyncio.run(scenario())


MALFORMED = {
    "id zero": sessions_pb2.ClientFrame(sequence=1, operations=[Operation(execute=sessions_pb2.Execute(executable_id=1))]),
    "id too large": sessions_pb2.ClientFrame(sequence=1, operations=[Operation(delete=sessions_pb2.Delete(views=[1 << 40]))]),
    "negative device": sessions_pb2.ClientFrame(
        sequence=1, operations=[Operation(compile=sessions_pb2.Compile(executable_id=1, program=b"p", devices=[-1]))]
    ),
    "negative shape": sessions_pb2.ClientFrame(
        sequence=1,
        operations=[Operation(make_array=sessions_pb2.MakeArray(buffer_id=1, spec=types_pb2.ArraySpec(shape=[-4])))],
    ),
    "empty operation": sessions_pb2.ClientFrame(sequence=1, operations=[Operation()]),
    "gap": sessions_pb2.ClientFrame(sequence=2, operations=[fence(1)]),
    "unsequenced operations": sessions_pb2.ClientFrame(operations=[fence(1)]),
    "acknowledgement of nothing": sessions_pb2.ClientFrame(received=99),
    "second hello": sessions_pb2.ClientFrame(hello=sessions_pb2.Hello()),
    "too many operations": sessions_pb2.ClientFrame(sequence=1, operations=[fence(1)] * 65537),
    "large inline": sessions_pb2.ClientFrame(
        sequence=1,
        operations=[Operation(make_array=sessions_pb2.MakeArray(buffer_id=1, pieces=[sessions_pb2.Piece(inline=bytes(65537))]))],
    ),
    "not a frame": b"\xff\xff\xff",
}


def raw_call(running: Controller) -> Any:
    """A session call that takes messages and bytes."""
    if running.transport == "framed":
        return running.session_call()
    connect = running.channel.stream_stream(
        "/pathways.v1.Sessions/Connect",
        request_serializer=lambda frame: frame if isinstance(frame, bytes) else frame.SerializeToString(),
        response_deserializer=sessions_pb2.ServerFrame.FromString,
    )
    return connect(metadata=bearer(running.token), timeout=60)


@both
def test_malformed_input_ends_only_its_own_session(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            answer_fences(running)
            healthy = running.session_call()
            await open_session(healthy)
            for count, (name, frame) in enumerate(MALFORMED.items(), start=1):
                call = raw_call(running)
                await open_session(call)
                await call.write(frame)
                answer = await asyncio.wait_for(call.read(), TIMEOUT_S)
                lost = answer.operations[0].session_lost.failure
                assert lost.reason == "INVALID_ARGUMENT", name
                assert lost.message.startswith("malformed message: "), name
                code, details = await status_of(call)
                assert (code, details) == (grpc.StatusCode.INVALID_ARGUMENT, lost.message), name
                await running.core.wait_for(events.SessionClosed, count)
                await healthy.write(sessions_pb2.ClientFrame(sequence=count, received=count - 1, operations=[fence(count)]))
                items, _ = await read_items(healthy, "operations", 1)
                assert items[0].fence_reached.fence_id == count
            assert len(running.app.loop.sessions) == 1
            assert not running.running.done()

    asyncio.run(scenario())


@both
def test_a_stream_that_does_not_begin_with_hello_is_refused(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            call = running.session_call()
            await call.write(sessions_pb2.ClientFrame(sequence=1, operations=[fence(1)]))
            code, details = await status_of(call)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "must hold a hello" in details
            assert running.core.seen == []

    asyncio.run(scenario())


@both
@pytest.mark.parametrize("how", ["goodbye", "half close", "cancel"])
def test_every_way_to_leave_closes_the_session_once(tmp_path: Path, how: str, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            call = running.session_call()
            await open_session(call)
            if how == "goodbye":
                goodbye = Operation(goodbye=sessions_pb2.Goodbye(reason="done"))
                await call.write(sessions_pb2.ClientFrame(sequence=1, operations=[goodbye]))
                code, _ = await status_of(call)
                assert code is grpc.StatusCode.OK
            elif how == "half close":
                await call.done_writing()
            else:
                call.cancel()
            await running.core.wait_for(events.SessionClosed)
            other = running.session_call()
            await open_session(other)
            assert len(running.core.of(events.SessionClosed)) == 1
            assert len(running.app.loop.sessions) == 1

    asyncio.run(scenario())


@both
def test_stop_tells_every_session_that_it_is_lost(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            call = running.session_call()
            await open_session(call)
            running.app.stop("test")
            items, _ = await read_items(call, "operations", 1)
            assert items[0].session_lost.failure.reason == "UNAVAILABLE"
            assert await asyncio.wait_for(call.read(), TIMEOUT_S) is grpc.aio.EOF
            await asyncio.wait_for(running.running, TIMEOUT_S)

    asyncio.run(scenario())


@both
def test_nothing_of_a_long_frame_with_something_malformed_at_its_end_reaches_the_core(tmp_path: Path, transport: str) -> None:
    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            call = running.session_call()
            await open_session(call)
            operations = [*(fence(number) for number in range(1, 100)), Operation()]
            await call.write(sessions_pb2.ClientFrame(sequence=1, operations=operations))
            code, details = await status_of(call)
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert "an operation is empty or newer than this server" in details
            await running.core.wait_for(events.SessionClosed)
            assert running.core.of(events.FenceRequested) == []

    asyncio.run(scenario())


@both
def test_a_callback_result_overtakes_what_its_session_sent_before(tmp_path: Path, transport: str) -> None:
    """A device waits for it, and a greedy client's own backlog must not keep it waiting."""

    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            call = running.session_call()
            await open_session(call)
            await call.write(sessions_pb2.ClientFrame(sequence=1, operations=[fence(number) for number in range(1, 4001)]))
            result = sessions_pb2.CallbackResult(call_id=7, results=types_pb2.CallbackArrays())
            await call.write(sessions_pb2.ClientFrame(sequence=2, operations=[Operation(callback_result=result)]))
            await running.core.wait_for(events.FenceRequested, 4000)
            kinds = [type(event) for event in running.core.seen]
            if transport == "framed":  # a gRPC stream is read frame by frame
                assert kinds.index(events.CallbackReturned) < len(kinds) - 1
            await running.core.wait_for(events.CallbackReturned)

    asyncio.run(scenario())


@both
def test_a_frame_is_acknowledged_when_all_of_it_was_handled(tmp_path: Path, transport: str) -> None:
    """What is answered in between acknowledges nothing that waits: a door's backlog stays with the door."""

    async def scenario() -> None:
        async with controller(tmp_path, transport) as running:
            answer_fences(running)
            call = running.session_call()
            await open_session(call)
            await call.write(sessions_pb2.ClientFrame(sequence=1, operations=[fence(number) for number in range(1, 2001)]))
            answered, acknowledged, before_the_end = 0, 0, 0
            while not (answered == 2000 and acknowledged == 1):
                frame = await asyncio.wait_for(call.read(), TIMEOUT_S)
                answered += len(frame.operations)
                acknowledged = frame.received
                before_the_end += acknowledged == 0
                # Answers may still be on their way when everything was handled.
                assert acknowledged == 0 or len(running.core.of(events.FenceRequested)) == 2000
                await call.write(sessions_pb2.ClientFrame(received=frame.sequence))
            assert before_the_end

    asyncio.run(scenario())


def test_a_plain_client_that_floods_a_link_is_held_by_its_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It neither numbers nor acknowledges, so only the network can hold it; all of it is heard in the end, and in order."""
    count = 2_500
    most = 0

    async def scenario() -> None:
        nonlocal most
        async with controller(tmp_path, "framed") as running:
            reading = running.app.loop.reading
            add = reading.add

            def counted(peer: Any, *more: Any, **named: Any) -> None:
                nonlocal most
                add(peer, *more, **named)
                most = max(most, reading.waiting(peer))

            monkeypatch.setattr(reading, "add", counted)
            call = running.session_call()
            await open_session(call, plain=True)
            for number in range(count):
                release = sessions_pb2.Release(views=range(1000 * number + 1, 1000 * number + 500))
                await call.write(sessions_pb2.ClientFrame(operations=[Operation(release=release)]))
            releases = await running.core.wait_for(events.Released, count)
            firsts = [local_id(event.views[0]) for event in releases]
            assert firsts == [1000 * number + 1 for number in range(count)]

    asyncio.run(scenario())
    # What one read of the socket brings comes on top of the bound.
    assert 64 <= most < 600
