"""Virtual slices between a session stream that only records and a client over real gRPC; fences; devices of the pool."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_door.callbacks import SECRET_KEY
from pathways_door.devices import init_response, primary_count
from pathways_door.fences import Fences
from pathways_door.pending import Pending
from pathways_door.plugin_texts import FenceText, read_text
from pathways_door.slices import WAITING_KEY, SliceHub
from pathways_proto.ifrt import values_pb2
from pathways_proto.v1 import door_pb2, sessions_pb2

_SECRET = ((SECRET_KEY, "sesame"),)
WAIT_S = 60


class Recorder:
    """Stands for the session stream."""

    def __init__(self) -> None:
        self.listeners: dict[str, Any] = {}
        self.pending = Pending()
        self.fences = Fences()
        self.pushed: asyncio.Queue[sessions_pb2.ClientOperation] = asyncio.Queue()

    def ask(self, kind: str, number: int, operation: sessions_pb2.ClientOperation, continuation: Any) -> None:
        self.pending.expect(kind, number, continuation)
        self.pushed.put_nowait(operation)

    def push(self, operation: sessions_pb2.ClientOperation, urgent: bool = False) -> None:
        self.pushed.put_nowait(operation)

    async def next(self) -> sessions_pb2.ClientOperation:
        return await asyncio.wait_for(self.pushed.get(), WAIT_S)


class Calls:
    """What the client library calls."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.add = channel.unary_unary(
            "/pathways.v1.Slices/Add",
            request_serializer=sessions_pb2.AddSlice.SerializeToString,
            response_deserializer=sessions_pb2.SliceAdded.FromString,
        )
        # grpc.aio hands out the metadata of a unary call with its answer; of a stream, which is the same on the wire, at once.
        self.add_early = channel.unary_stream(
            "/pathways.v1.Slices/Add",
            request_serializer=sessions_pb2.AddSlice.SerializeToString,
            response_deserializer=sessions_pb2.SliceAdded.FromString,
        )
        self.suspend = channel.unary_unary(
            "/pathways.v1.Slices/Suspend",
            request_serializer=door_pb2.ChangeSliceRequest.SerializeToString,
            response_deserializer=sessions_pb2.SliceSuspended.FromString,
        )
        self.resume = channel.unary_unary(
            "/pathways.v1.Slices/Resume",
            request_serializer=door_pb2.ChangeSliceRequest.SerializeToString,
            response_deserializer=sessions_pb2.SliceResumed.FromString,
        )
        self.release = channel.unary_unary(
            "/pathways.v1.Slices/Release",
            request_serializer=door_pb2.ReleaseSliceRequest.SerializeToString,
            response_deserializer=door_pb2.ReleaseSliceResponse.FromString,
        )


def _run(scenario: Callable[[Recorder, Calls], Awaitable[None]]) -> None:
    async def main() -> None:
        hub = SliceHub("sesame")
        stream = Recorder()
        hub.attach(stream)  # type: ignore[arg-type]
        server = grpc.aio.server()
        server.add_generic_rpc_handlers((hub.handler(),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await scenario(stream, Calls(channel))
        await server.stop(0)

    asyncio.run(main())


def test_add_gets_the_controllers_answer_under_the_doors_number() -> None:
    async def scenario(stream: Recorder, calls: Calls) -> None:
        for number in (1, 2):
            call = calls.add(sessions_pb2.AddSlice(device_count=2, slice_id=77), metadata=_SECRET)
            asked = (await stream.next()).add_slice
            assert (asked.slice_id, asked.device_count) == (number, 2)
            answer = sessions_pb2.SliceAdded(slice_id=number, devices=[4, 5], island="a", hosts=["a0", "a1"])
            stream.pending.answer("slice_added", number, answer, None)
            assert await call == answer

    _run(scenario)


def test_refusal_of_the_controller_travels_unchanged() -> None:
    async def scenario(stream: Recorder, calls: Calls) -> None:
        call = calls.add(sessions_pb2.AddSlice(device_count=9), metadata=_SECRET)
        await stream.next()
        failure = Failure(Reason.RESOURCE_EXHAUSTED, "not now: held by session 3", retryable=True)
        stream.pending.answer("slice_added", 1, None, failure)
        answered = (await call).failure
        assert (answered.reason, answered.message, answered.retryable) == ("RESOURCE_EXHAUSTED", failure.message, True)

    _run(scenario)


@pytest.mark.parametrize("at_once", [False, True])
def test_waiting_sentence_reaches_the_client_before_the_answer(at_once: bool) -> None:
    async def scenario(stream: Recorder, calls: Calls) -> None:
        call = calls.add_early(sessions_pb2.AddSlice(device_count=2, wait=True, timeout_ns=10**10), metadata=_SECRET)
        await stream.next()
        stream.listeners["slice_waiting"](sessions_pb2.SliceWaiting(slice_id=1, text="waits for a0 (héld by 3)"))
        if not at_once:
            assert dict(await call.initial_metadata())[WAITING_KEY].decode() == "waits for a0 (héld by 3)"
            stream.listeners["slice_waiting"](sessions_pb2.SliceWaiting(slice_id=1, text="waits for a1"))
        stream.pending.answer("slice_added", 1, sessions_pb2.SliceAdded(slice_id=1, island="a"), None)
        answered = await asyncio.wait_for(call.read(), WAIT_S)
        assert answered == sessions_pb2.SliceAdded(slice_id=1, island="a")
        assert WAITING_KEY in dict(await call.initial_metadata())

    _run(scenario)


def test_client_that_gives_up_leaves_no_slice_behind() -> None:
    async def scenario(stream: Recorder, calls: Calls) -> None:
        call = calls.add(sessions_pb2.AddSlice(device_count=2, wait=True, timeout_ns=10**10), metadata=_SECRET)
        await stream.next()
        call.cancel()
        assert (await stream.next()).release_slice.slice_id == 1
        assert stream.pending.answer("slice_added", 1, sessions_pb2.SliceAdded(slice_id=1), None)

    _run(scenario)


@pytest.mark.parametrize("fence_first", [False, True])
def test_release_is_sent_behind_its_fence(fence_first: bool) -> None:
    async def scenario(stream: Recorder, calls: Calls) -> None:
        if fence_first:
            stream.fences.passed(5)
        call = calls.release(door_pb2.ReleaseSliceRequest(slice_id=3, fence=5), metadata=_SECRET)
        if not fence_first:
            await asyncio.sleep(0.1)
            assert stream.pushed.empty()
            stream.fences.passed(4)
            assert stream.pushed.empty()
            stream.fences.passed(5)
            assert not stream.pushed.empty()  # in that very moment
        await asyncio.wait_for(call, WAIT_S)
        assert (await stream.next()).release_slice.slice_id == 3

    _run(scenario)


@pytest.mark.parametrize(("method", "member"), [("suspend", "slice_suspended"), ("resume", "slice_resumed")])
def test_suspending_and_resuming_go_behind_their_fence_and_hand_the_answer_over(method: str, member: str) -> None:
    answers = {"suspend": sessions_pb2.SliceSuspended, "resume": sessions_pb2.SliceResumed}

    async def scenario(stream: Recorder, calls: Calls) -> None:
        asked = getattr(calls, method)(door_pb2.ChangeSliceRequest(slice_id=3, fence=5), metadata=_SECRET)
        await asyncio.sleep(0.1)
        assert stream.pushed.empty()
        stream.fences.passed(5)
        operation = await stream.next()
        assert operation.WhichOneof("operation") == f"{method}_slice"
        assert getattr(operation, f"{method}_slice").slice_id == 3
        said = answers[method](slice_id=3)
        stream.pending.answer(member, 3, said, None)
        assert await asyncio.wait_for(asked, WAIT_S) == said
        asked = getattr(calls, method)(door_pb2.ChangeSliceRequest(slice_id=4), metadata=_SECRET)
        await stream.next()
        stream.pending.answer(member, 4, None, Failure(Reason.RESOURCE_EXHAUSTED, "no room"))
        answer = await asyncio.wait_for(asked, WAIT_S)
        assert (answer.slice_id, answer.failure.reason, answer.failure.message) == (4, "RESOURCE_EXHAUSTED", "no room")

    _run(scenario)


def test_calls_without_the_doors_secret_are_refused() -> None:
    async def scenario(_stream: Recorder, calls: Calls) -> None:
        for call in (calls.add(sessions_pb2.AddSlice()), calls.release(door_pb2.ReleaseSliceRequest())):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    _run(scenario)


def test_fence_programs_are_known_by_their_text_alone() -> None:
    def program(text: bytes) -> values_pb2.Serialized:
        return values_pb2.Serialized(data=b"__serialized_plugin_program " + text)

    assert read_text(program(b"pathways-fence 12"), 4) == FenceText(12)
    for text in (b"pathways-fence 0", b"pathways-fence 1 2", b"something else", b""):
        with pytest.raises(PathwaysError, match="knows only `pathways-fence N`") as caught:
            read_text(program(text), 4)
        assert caught.value.failure.reason is Reason.UNSUPPORTED


def test_pool_devices_are_addressable_and_not_primary() -> None:
    welcome = sessions_pb2.Welcome(platform="cpu")
    for index in range(4):
        welcome.devices.add(device_id=index, slice_index=index // 2, host="" if index > 1 else f"a{index}", pool=index > 1)
    answer = init_response(welcome, 1)
    assert primary_count(welcome) == 2
    assert list(answer.primary_device_ids) == [0, 1]
    assert list(answer.addressable_device_ids) == [0, 1, 2, 3]
    assert [device.attributes.attributes["slice_index"].int64_value for device in answer.all_devices] == [0, 0, 1, 1]
    assert [device.attributes.attributes["host_name"].string_value for device in answer.all_devices] == [b"a0", b"a1", b"", b""]
    assert len(answer.memories) == 4
