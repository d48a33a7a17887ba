"""One case of the fuzzer: messages of a recorded session, some of them changed, between messages of another tenant's session.

A case is a list of `Step`s, and all that is random in a step comes from its seed. What must hold behind every case is in `judge`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import SessionNumber, global_id
from pathways_door.ifrt_session import IfrtSession
from pathways_proto.ifrt import arrays_pb2, session_pb2
from pathways_proto.v1 import sessions_pb2, types_pb2

from tests.fuzz.mutating import Mutator
from tests.fuzz.played import PlayedCluster, PlayedUpstream, door_session, shard_of
from tests.fuzz.recording import Recorded

# The session that is told hostile things, and the one beside it.
MINE, THEIRS = 1, 2
# Another client's door session, as if its id had been guessed.
_THEIR_DOOR = 77
_SPEC = types_pb2.ArraySpec(dtype=11, shape=[4], shard_shape=[4], devices=[0])
_THEIR_BUFFER, _THEIR_RESULT = 3, 9
_PASSED_S = 4000.0


class Step(NamedTuple):
    """A message, by its position in the recording, and the seed of what is done to it."""

    position: int
    seed: int


class Neighbour:
    """Another tenant's session that does the same again and again, and always gets what is its own."""

    def __init__(self, cluster: PlayedCluster) -> None:
        self._cluster = cluster
        self._fetches = 0
        cluster.open(THEIRS, "theirs")
        piece = sessions_pb2.Piece(shards=[0], inline=bytes(16))
        self._say(make_array=sessions_pb2.MakeArray(buffer_id=_THEIR_BUFFER, spec=_SPEC, pieces=[piece]))

    def _say(self, **operation: Any) -> list[sessions_pb2.ServerOperation]:
        frame = sessions_pb2.ClientFrame(sequence=1, operations=[sessions_pb2.ClientOperation(**operation)])
        self._cluster.take(THEIRS, frame.SerializeToString())
        assert THEIRS not in self._cluster.ended, self._cluster.ended
        return self._cluster.answers(THEIRS)

    def look(self) -> None:
        """Reads its array, and a copy of it that it makes and drops."""
        for buffer, before in ((_THEIR_BUFFER, None), (_THEIR_RESULT, sessions_pb2.Copy)):
            if before is not None:
                self._say(copy=before(result_ids=[_THEIR_RESULT], views=[_THEIR_BUFFER], specs=[_SPEC]))
            self._fetches += 1
            fetch = sessions_pb2.Fetch(fetch_id=self._fetches, view_id=buffer, shard=0, size_bytes=16)
            (answer,) = [each for each in self._say(fetch=fetch) if each.WhichOneof("operation") != "notice"]
            expected = shard_of(global_id(SessionNumber(THEIRS), buffer), 16)
            assert answer.fetched.data == expected, f"another session's array reads as {answer}"
        self._say(release=sessions_pb2.Release(views=[_THEIR_RESULT]))


def _ids(found: set[int]) -> list[int]:
    theirs = [_THEIR_BUFFER, _THEIR_RESULT, _THEIR_DOOR, THEIRS]
    return sorted(found | set(theirs) | {global_id(SessionNumber(THEIRS), each) for each in theirs})


def ids_of(messages: Sequence[Any]) -> list[int]:
    """Numbers that these messages name, and those of the other session."""
    found: set[int] = set()
    for message in messages:
        for field, value in message.ListFields():
            values = list(value) if field.is_repeated else [value]
            if field.message_type is not None:
                found |= {each for inner in values for each in ids_of([inner])[:20]}
            elif isinstance(values[0], int) and not isinstance(values[0], bool):
                found |= set(values[:8])
    return _ids(found)[:400]


def shaken(count: int, steps: Sequence[Step]) -> list[tuple[int, Step | None]]:
    """The recording with its changes: the message of each step is changed, dropped, repeated, or said at another time."""
    plan: list[tuple[int, Step | None]] = [(position, None) for position in range(count)]
    for step in steps:
        choose = random.Random(step.seed)
        at = next((index for index, (position, _) in enumerate(plan) if position == step.position % count), None)
        if at is None:
            continue
        match choose.randrange(8):
            case 0:
                del plan[at]
            case 1:
                plan.insert(choose.randrange(len(plan) + 1), plan.pop(at))
            case 2:
                plan.insert(choose.randrange(at, len(plan) + 1), (step.position % count, step))
            case _:
                plan[at] = (step.position % count, step)
    return plan


class DoorCase:
    """Messages of a client to its door."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self.messages = [session_pb2.IfrtRequest.FromString(raw) for raw in recorded.messages]
        self._known = ids_of(self.messages)

    def run(self, steps: Sequence[Step]) -> None:
        """Raises AssertionError if anything is not as `judge` says."""
        asyncio.run(self._run(steps))

    async def _run(self, steps: Sequence[Step]) -> None:
        cluster = PlayedCluster(self._recorded.load)
        neighbour = Neighbour(cluster)
        session = door_session(cluster, MINE)
        upstream = session.upstream
        assert isinstance(upstream, PlayedUpstream)
        asked: list[int] = []
        answers: list[bytes] = []
        for number, (position, step) in enumerate(shaken(len(self.messages), steps)):
            message = session_pb2.IfrtRequest()
            message.CopyFrom(self.messages[position])
            if step is not None:
                Mutator(random.Random(step.seed), self._known).mutate(message)
            message.request_metadata.op_id = number + 1
            self._bring_buffers(session, message)
            session.handle(message.SerializeToString())
            asked.append(number + 1)
            upstream.pump()
            await asyncio.sleep(0)
            answers += session.take()
            assert MINE not in cluster.ended, f"the door said what ends its session: {cluster.ended[MINE]}"
            if step is not None:
                neighbour.look()
        await asyncio.sleep(0.01)
        upstream.pump()
        answers += session.take()
        upstream.lose(Failure(Reason.CANCELLED, "the case is over"))
        session.close()
        judge(cluster, asked, answers + session.take(), neighbour)

    def _bring_buffers(self, session: IfrtSession, message: session_pb2.IfrtRequest) -> None:
        """What the client sends beside a message, as the recorded one did."""
        member = message.WhichOneof("request")
        handles: list[int] = []
        if member == "make_array_from_host_buffer_request":
            handles = [message.make_array_from_host_buffer_request.host_buffer_handle]
        elif member == "make_arrays_from_host_buffer_shards_request":
            specs = message.make_arrays_from_host_buffer_shards_request.specs
            handles = [buffer.host_buffer_handle for spec in specs for buffer in spec.host_buffers]
        for handle in handles:
            if handle in self._recorded.buffers:
                session.context.buffers.put(handle, self._recorded.buffers[handle])


def judge(cluster: PlayedCluster, asked: Sequence[int], answers: Sequence[bytes], neighbour: Neighbour) -> None:
    """Each request has one answer, errors are sentences, the other session has its own, and nothing of this one is left."""
    told: dict[int, session_pb2.IfrtResponse] = {}
    for raw in answers:
        response = session_pb2.IfrtResponse.FromString(raw)
        number = response.response_metadata.op_id
        assert number not in told, f"request {number} was answered twice"
        told[number] = response
        status = response.response_metadata.status
        if response.WhichOneof("response") is None:
            assert status.code, f"request {number} was answered with nothing"
            assert len(status.message.split()) > 3, f"request {number} was refused without a sentence: {status.message!r}"
            assert "Traceback" not in status.message, status.message
    missing = [number for number in asked if number not in told]
    assert not missing, f"requests {missing} were not answered"
    settle(cluster, neighbour)


def settle(cluster: PlayedCluster, neighbour: Neighbour) -> None:
    """The other session has what is its own, before and after this one is gone, of which nothing is left."""
    neighbour.look()
    cluster.check()
    cluster.close(MINE)
    neighbour.look()
    cluster.pass_time(_PASSED_S)
    neighbour.look()
    cluster.check()
    assert list(cluster.state.sessions) == [THEIRS]
    assert not cluster.state.readers, "reads of a session that is over are left"
    assert len(cluster.programs) == 0, "programs of a session that is over are left"


class ControllerCase:
    """Operations of a session to the controller, by a client that writes them itself."""

    def __init__(self, recorded: Recorded, more: Sequence[sessions_pb2.ClientOperation]) -> None:
        self._recorded = recorded
        self.messages = [*recorded.operations, *more]
        self._known = ids_of(self.messages)

    def run(self, steps: Sequence[Step]) -> None:
        """Raises AssertionError if anything is not as `settle` says."""
        cluster = PlayedCluster(self._recorded.load)
        neighbour = Neighbour(cluster)
        cluster.open(MINE)
        for position, step in shaken(len(self.messages), steps):
            operation = sessions_pb2.ClientOperation()
            operation.CopyFrom(self.messages[position])
            if step is not None:
                Mutator(random.Random(step.seed), self._known).mutate(operation)
            try:
                frame = sessions_pb2.ClientFrame(sequence=1, operations=[operation]).SerializeToString()
            except (DecodeError, ValueError):
                continue
            cluster.take(MINE, frame)
            for answer in cluster.answers(MINE):
                _check_answer(answer)
            if step is not None:
                neighbour.look()
            if MINE in cluster.ended:
                why = cluster.ended[MINE]
                assert why.reason is Reason.INVALID_ARGUMENT, why
                assert why.message.startswith(("malformed message: ", "the program has ")), why
                break
        settle(cluster, neighbour)


def _check_answer(answer: sessions_pb2.ServerOperation) -> None:
    """A refusal is a sentence, and bytes are not those of the other session."""
    name = answer.WhichOneof("operation")
    assert name is not None
    message = getattr(answer, name)
    if "failure" in message.DESCRIPTOR.fields_by_name and message.HasField("failure"):
        assert len(message.failure.message.split()) > 3, message
    if name == "fetched":
        assert global_id(SessionNumber(THEIRS), _THEIR_BUFFER).to_bytes(8, "little") not in message.data


def more_operations() -> list[sessions_pb2.ClientOperation]:
    """Operations that a stock client causes rarely or never: slices, programs, names, reshards, cancellations."""
    from tests.unit.server_shell.program_messages import PROGRAM

    operation = sessions_pb2.ClientOperation
    return [
        operation(
            make_array=sessions_pb2.MakeArray(
                buffer_id=901, spec=_SPEC, pieces=[sessions_pb2.Piece(shards=[0], inline=bytes(16))]
            )
        ),
        operation(
            reshard=sessions_pb2.Reshard(result_ids=[902], views=[901], sources=[_SPEC], destinations=[_SPEC], donate=True)
        ),
        operation(make_view=sessions_pb2.MakeView(view_id=903, ranges=[sessions_pb2.ShardRange(view_id=902, start=0, count=1)])),
        operation(add_slice=sessions_pb2.AddSlice(slice_id=1, device_count=1, mesh_shape=[1], wait=True)),
        operation(suspend_slice=sessions_pb2.SuspendSlice(slice_id=1)),
        operation(resume_slice=sessions_pb2.ResumeSlice(slice_id=1)),
        operation(define_program=sessions_pb2.DefineProgram(program_id=904, program=PROGRAM)),
        operation(
            run_program=sessions_pb2.RunProgram(run_id=905, program_id=904, arguments=[903], first_result_id=906, donated=[0])
        ),
        operation(register_program=sessions_pb2.RegisterProgram(program_id=904, name="theirs/step")),
        operation(open_program=sessions_pb2.OpenProgram(program_id=907, name="theirs/step", devices=[0])),
        operation(unregister_program=sessions_pb2.UnregisterProgram(request_id=1, name="theirs/step")),
        operation(
            make_error_array=sessions_pb2.MakeErrorArray(buffer_id=908, failure=types_pb2.Failure(message="it went wrong"))
        ),
        operation(callback_result=sessions_pb2.CallbackResult(call_id=1)),
        operation(cancel=sessions_pb2.CancelWork(views=[903])),
        operation(wait=sessions_pb2.Wait(wait_id=901, views=[902, 903])),
        operation(fence=sessions_pb2.Fence(fence_id=1)),
        operation(inspect=sessions_pb2.Inspect(inspect_id=901, executable_id=1)),
        operation(release_slice=sessions_pb2.ReleaseSlice(slice_id=1)),
    ]


def copied_array(handle: int) -> arrays_pb2.CopyToHostBufferRequest:
    """Asks for the bytes of an array."""
    return arrays_pb2.CopyToHostBufferRequest(array_handle=handle, host_buffer_handle=handle + 1)
