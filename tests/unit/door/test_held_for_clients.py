"""What a door keeps for a client is bounded: a client beyond it is refused in one sentence until it gives some back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, cast

import grpc.aio
import pytest
from pathways_common.model.failure import PathwaysError, Reason
from pathways_door import ifrt_session
from pathways_door.hostbuffers import HeldBytes, HostBuffers
from pathways_door.ifrt_service import IfrtService
from pathways_door.ifrt_session import IfrtSession
from pathways_door.uploads import Uploads
from pathways_proto.ifrt import grpc_service_pb2, session_pb2
from pathways_proto.v1 import sessions_pb2

from tests.fuzz.played import PlayedCluster, PlayedUpstream, door_session
from tests.fuzz.recording import KEPT, Recorded

ENTRY = 1024  # beside its bytes
KIB = bytes(1024)


def test_buffers_beyond_the_bound_are_dropped_and_whoever_asks_for_one_is_told() -> None:
    store = HostBuffers(HeldBytes(3 * (ENTRY + 1024)))
    for handle in (1, 2, 3):
        assert store.put(handle, KIB) is None
    failure = store.put(4, KIB)
    assert failure is not None
    assert failure.reason is Reason.RESOURCE_EXHAUSTED
    assert failure.message == (
        "the door keeps at most 6144 bytes of a session that no array has taken yet, and this would be more;"
        " wait for arrays before you send others, or send smaller ones"
    )
    with pytest.raises(PathwaysError, match="no array has taken yet"):
        store.consume(4, lambda _: None)
    taken: list[Any] = []
    assert store.consume(1, taken.append)
    assert store.put(4, KIB) is None
    assert store.consume(4, taken.append)
    assert taken == [KIB, KIB]


def test_room_comes_back_however_a_buffer_goes() -> None:
    store = HostBuffers(HeldBytes(1 << 20))
    store.put(1, KIB)
    store.put(1, KIB * 2)
    assert store.held.now_bytes == ENTRY + 2048
    store.delete(1)
    store.delete(1)
    store.consume(2, lambda _: None)
    assert store.held.now_bytes == ENTRY
    store.put(2, KIB)
    store.drop(3)
    store.put(3, KIB)
    assert store.held.now_bytes == 0


def test_those_who_wait_for_buffers_that_never_come_are_bounded_too() -> None:
    store = HostBuffers(HeldBytes(10 * ENTRY))
    for handle in range(10):
        assert not store.consume(handle, lambda _: None)
    with pytest.raises(PathwaysError, match="no array has taken yet"):
        store.consume(11, lambda _: None)
    for handle in range(20):
        store.drop(handle)
    assert store.held.now_bytes == 10 * ENTRY


def test_handles_of_dropped_buffers_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pathways_door.hostbuffers.HOST_BUFFERS_REFUSED_MAX", 5)
    store = HostBuffers(HeldBytes(1))
    for handle in range(100):
        assert store.put(handle, KIB) is not None
    assert list(store._refused) == [95, 96, 97, 98, 99]


def test_without_a_bound_a_near_client_keeps_what_it_likes() -> None:
    store = HostBuffers()
    for handle in range(100):
        assert store.put(handle, KIB) is None


class Bulk:
    async def push(self, _target: Any, _data: Any) -> None:
        """It arrives."""


def test_bytes_that_wait_for_their_grant_count_until_they_are_pushed_or_withdrawn() -> None:
    async def scenario() -> list[int]:
        tasks: list[asyncio.Task[None]] = []
        held = HeldBytes()
        spawn = lambda _name, work: tasks.append(asyncio.ensure_future(work))  # noqa: E731
        uploads = Uploads(cast("Any", Bulk()), 8, spawn, held)
        numbers = [uploads.begin(sessions_pb2.Piece(size_bytes=1024)) for _ in range(2)]
        seen = []
        for number in numbers:
            uploads.arrived(number, KIB)
            seen.append(held.now_bytes)
        uploads.granted(sessions_pb2.UploadGrant(upload_id=numbers[0], targets=[sessions_pb2.DataTicket()]))
        seen.append(held.now_bytes)
        await asyncio.gather(*tasks)
        seen.append(held.now_bytes)
        uploads.withdrawn(sessions_pb2.UploadWithdrawn(upload_id=numbers[1]))
        return [*seen, held.now_bytes]

    assert asyncio.run(scenario()) == [1024, 2048, 2048, 1024, 0]


# ---- the call that brings a buffer --------------------------------------------------------------------------------------


class Call:
    """Brings chunks. `seen`: what was held when each was asked for."""

    def __init__(self, session: int, handle: int, announced: int, chunks: Iterable[bytes], held: HeldBytes) -> None:
        metadata = grpc_service_pb2.GrpcHostBufferStoreMetadata(session_id=session, handle=handle, buffer_size=announced)
        self._metadata = metadata.SerializeToString()
        self._chunks = iter(chunks)
        self._held = held
        self.seen: list[int] = []
        self.aborted = ""

    def invocation_metadata(self) -> list[tuple[str, bytes]]:
        return [("ifrt-proxy-grpc-host-buffer-store-metadata-bin", self._metadata)]

    async def read(self) -> Any:
        self.seen.append(self._held.now_bytes)
        chunk = next(self._chunks, None)
        if chunk is None:
            return grpc.aio.EOF
        return grpc_service_pb2.GrpcHostBufferStoreRequest(data=chunk).SerializeToString()

    async def abort(self, _code: Any, details: str) -> None:
        self.aborted = details
        raise grpc.aio.AbortError


class Wide:
    def widen(self, _context: Any) -> None:
        """It is."""


def service_with(session: IfrtSession) -> IfrtService:
    service = IfrtService(cast("Any", None), cast("Any", None), cast("Any", None), None, cast("Any", Wide()))
    service._sessions[7] = session
    return service


def test_a_buffer_without_room_is_read_to_its_end_and_its_array_tells() -> None:
    messages, recorded = requests()
    session = session_of(recorded, host_bytes_max=ENTRY + 4096)

    async def scenario() -> None:
        buffers, service = session.context.buffers, service_with(session)
        large = Call(7, 1, 64 * 1024, [KIB] * 64, buffers.held)
        assert await service._store(None, large) == b""
        assert max(large.seen) == ENTRY + 4096
        assert buffers.held.now_bytes == 0
        assert await service._store(None, Call(7, 2, 4096, [KIB] * 4, buffers.held)) == b""
        assert buffers.read(2) == KIB * 4
        for announced in (4096, 1024):
            wrong = Call(7, 3, announced, [KIB] * 2, buffers.held)
            with pytest.raises(grpc.aio.AbortError):
                await service._store(None, wrong)
            assert "instead of the" in wrong.aborted
        assert buffers.held.now_bytes == ENTRY + 4096
        made = messages["make_array_from_host_buffer_request"]
        made.make_array_from_host_buffer_request.host_buffer_handle = 1
        made.make_array_from_host_buffer_request.array_handle = 99
        session.handle(made.SerializeToString())
        failure = session.context.arrays.get(99).failure
        assert failure is not None
        assert "that no array has taken yet" in failure.message

    asyncio.run(scenario())


# ---- records and requests -----------------------------------------------------------------------------------------------


def requests() -> tuple[dict[str, session_pb2.IfrtRequest], Recorded]:
    """A recorded request of each kind."""
    recorded = Recorded.read(KEPT)
    messages = [session_pb2.IfrtRequest.FromString(raw) for raw in recorded.messages]
    return {str(message.WhichOneof("request")): message for message in messages}, recorded


def session_of(recorded: Recorded, host_bytes_max: int = 0) -> IfrtSession:
    cluster = PlayedCluster(recorded.load)
    upstream = PlayedUpstream(cluster, 1)
    upstream.host_bytes_max = host_bytes_max
    return IfrtSession(1, upstream, cast("Any", Bulk()), lambda _: None)


def say(session: IfrtSession, **member: Any) -> session_pb2.IfrtResponse:
    request = session_pb2.IfrtRequest(**member)
    request.request_metadata.op_id = 5
    session.handle(request.SerializeToString())
    return session_pb2.IfrtResponse.FromString(session.take()[-1])


def test_a_client_with_too_many_records_is_refused_until_it_lets_go_of_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ifrt_session, "SESSION_RECORDS_MAX", 8)
    messages, recorded = requests()
    session = door_session(PlayedCluster(recorded.load), 1)
    made = messages["make_array_from_host_buffer_request"].make_array_from_host_buffer_request

    def make(handle: int) -> session_pb2.IfrtResponse:
        made.array_handle = made.host_buffer_handle = handle
        return say(session, make_array_from_host_buffer_request=made)

    async def scenario() -> None:
        for handle in range(1, 9):
            assert make(handle).WhichOneof("response")
        for _ in range(3):
            status = make(9).response_metadata.status
            assert status.message.startswith("the door keeps 8 arrays and futures of this session, the most it does;"), status
            assert len(session.context.arrays) == 8
        say(session, destruct_array_request={"array_handle": [3]})
        assert make(9).WhichOneof("response")
        assert not make(10).WhichOneof("response")

    asyncio.run(scenario())


def test_a_client_that_waits_for_too_much_is_refused_and_may_still_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ifrt_session, "SESSION_REQUESTS_MAX", 3)
    _, recorded = requests()
    session = session_of(recorded)
    for number in range(3):
        session.upstream.pending.expect("ready", number, lambda _message, _failure: None)
    told = say(session, check_future_request={"future_handle": 4})
    sentence = "3 requests of this session wait for their answers; wait for some before you send more\n"
    assert told.response_metadata.status.message.startswith(sentence)
    assert say(session, destruct_array_request={"array_handle": [3]}).WhichOneof("response")
    session.upstream.pending.answer("ready", 0, None, None)
    told = say(session, check_future_request={"future_handle": 4})
    assert "future 4 is unknown" in told.response_metadata.status.message
