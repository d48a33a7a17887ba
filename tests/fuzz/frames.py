"""Bytes on a controller's link port by those who mean harm, known or not.

A case is all that one stranger sends, made from its seed: a right or wrong preface, a hello and frames, some changed, cut or
doubled, or with a length that is not theirs. Beside it a session goes on. What must hold behind every case is in `settle`.
"""

from __future__ import annotations

import asyncio
import random
import struct
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from pathways_common.model.bounds import LINK_HELLO_BYTES_MAX
from pathways_common.rpc.framed import preface
from pathways_proto.v1 import sessions_pb2, workers_pb2
from pathways_server.core import events

from tests.fuzz.examples import ids_of, more_operations
from tests.fuzz.mutating import Mutator
from tests.unit.server_shell.scripted_core import TIMEOUT_S, Controller, FramedPeer, controller, open_session
from tests.unit.server_shell.test_session_streams import answer_fences

_LENGTH = struct.Struct("<I")
_WORKER = workers_pb2.WorkerHello(host="x0", island="x", device_count=1, data_address="127.0.0.1:5", pid=42)
_ANSWER_S = 2.0
# What a socket may give at once.
_READ_BYTES = 1 << 18


class Stranger:
    """What is sent in one case, and whether it says who it is, as it should."""

    def __init__(self, seed: int, token: str, secret: str) -> None:
        self._choose = random.Random(seed)
        self._token, self._secret = token, secret
        self.known = True
        self.worker = False
        # Else it leaves without a look at what it is told.
        self.reads = self._choose.random() < 0.8
        operations = more_operations()
        self._operations = operations
        self._ids = ids_of(operations)

    def frames(self) -> list[bytes]:
        """A preface, a hello and more, as they should be but for what was changed in messages."""
        choose = self._choose
        worker = self.worker = choose.random() < 0.5
        right = choose.random() < 0.7
        self.known = right
        word = (self._secret if worker else self._token) if right else choose.choice(("", "wrong", "x" * 9000, "\x00\xff"))
        name = ("Workers" if worker else "Sessions") if choose.random() < 0.95 else choose.choice(("", "Nothing", "Workers" * 99))
        first: Any
        if worker:
            first = workers_pb2.WorkerFrame(hello=_WORKER)
        else:
            first = sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(client="stranger", plain=choose.random() < 0.5))
        said = [first]
        for number in range(choose.randrange(6)):
            said.append(
                workers_pb2.WorkerFrame(sequence=number + 1)
                if worker
                else sessions_pb2.ClientFrame(sequence=number + 1, operations=choose.sample(self._operations, 3))
            )
        for message in choose.sample(said, min(len(said), choose.randrange(3))):
            Mutator(choose, self._ids).mutate(message)
        return [preface(name, f"Bearer {word}"), *(_bytes_of(message) for message in said)]

    def sent(self) -> bytes:
        """All of it, on the wire."""
        choose, frames = self._choose, self.frames()
        match choose.randrange(8):
            case 0:
                frames[choose.randrange(len(frames))] = choose.randbytes(choose.choice((0, 1, 100, 20_000, 300_000)))
            case 1:
                frames.insert(choose.randrange(len(frames)), b"")
            case 2:
                frames = frames[::-1]
            case 3:
                frames[choose.randrange(len(frames))] *= 2
            case _:
                pass
        wire = bytearray()
        for frame in frames:
            length = len(frame)
            if choose.random() < 0.05:
                length = choose.choice((0, 1, LINK_HELLO_BYTES_MAX, LINK_HELLO_BYTES_MAX + 1, 1 << 30, (1 << 32) - 1, length + 5))
            wire += _LENGTH.pack(length) + frame
        if choose.random() < 0.2:
            del wire[choose.randrange(len(wire)) :]
        return bytes(wire)

    def pieces(self) -> list[bytes]:
        """The same in the pieces in which the network brings it."""
        choose, wire = self._choose, self.sent()
        cuts = sorted(choose.randrange(len(wire) + 1) for _ in range(choose.randrange(5)))
        return [wire[start:end] for start, end in zip([0, *cuts], [*cuts, len(wire)], strict=True)]

    def must_be_refused(self, wire: bytes) -> bool:
        """Whether its first frame came and is no right preface; what comes behind a right one may be taken."""
        first = _first_frame(wire)
        right = (preface("Workers", f"Bearer {self._secret}"), preface("Sessions", f"Bearer {self._token}"))
        return first is not None and first not in right


def _first_frame(wire: bytes) -> bytes | None:
    """None if it has not come whole; empty if it is larger than it may be, which shows before."""
    position = 0
    while len(wire) - position >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(wire, position)
        begin, position = position + _LENGTH.size, position + _LENGTH.size + length
        if length > LINK_HELLO_BYTES_MAX:
            return b""
        if length:  # else a sign of life
            return wire[begin:position] if position <= len(wire) else None
    return None


def _bytes_of(message: Any) -> bytes:
    try:
        return bytes(message.SerializeToString())
    except (DecodeError, ValueError):
        return b"\xff"


class LinkCases:
    """A controller with one honest session, and strangers that come one after the other."""

    def __init__(self, running: Controller, honest: FramedPeer) -> None:
        self._running = running
        self._honest = honest
        self._fences = 0
        self.faults: list[str] = []

    async def run(self, seed: int) -> None:
        """Raises AssertionError if anything is not as it should be."""
        running, stranger = self._running, Stranger(seed, self._running.token, self._running.secret)
        seen = len(running.core.seen)
        reader, writer = await asyncio.open_connection("127.0.0.1", running.app.link_port)
        try:
            pieces = stranger.pieces()
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0)
                self._check_memory()
            if stranger.reads:
                writer.write_eof()
                wire = b"".join(pieces)
                refused = _check_answers(await _all_of(reader), _first_frame(wire) or b"")
                assert refused or not stranger.must_be_refused(wire), "it was not told why"
        except ConnectionError:
            pass  # it was sent away while it spoke
        finally:
            writer.transport.abort()
        await self.settle()
        if not stranger.known:
            told = [event for event in running.core.seen[seen:] if not isinstance(event, events.FenceRequested)]
            assert not told, f"a stranger's words reached the core: {told}"

    def _check_memory(self) -> None:
        for connection in self._running.app._links.connections:
            if connection._stream is None:
                held = len(connection._cutter._rest)
                assert held <= LINK_HELLO_BYTES_MAX + _READ_BYTES, f"{held} bytes are held of somebody unknown"

    async def settle(self) -> None:
        """Nothing of the stranger is left, the honest session is answered, and nothing in the process went wrong."""
        links = self._running.app._links
        async with asyncio.timeout(TIMEOUT_S):
            while len(links.connections) > 1 or links.strangers:
                await asyncio.sleep(0.001)
        self._fences += 1
        fence = sessions_pb2.ClientOperation(fence=sessions_pb2.Fence(fence_id=self._fences))
        await self._honest.write(sessions_pb2.ClientFrame(operations=[fence]))
        async with asyncio.timeout(TIMEOUT_S):
            while not any(
                each.fence_reached.fence_id == self._fences
                for each in (await self._honest.read()).operations
                if each.HasField("fence_reached")
            ):
                pass
        assert not self._running.running.done(), "the controller has ended"
        assert not self.faults, self.faults


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    """What comes until the end, or for a while: who was admitted may stay."""
    data = b""
    try:
        async with asyncio.timeout(_ANSWER_S):
            while more := await reader.read(1 << 16):
                data += more
    except TimeoutError:
        pass
    return data


def _check_answers(data: bytes, first: bytes) -> int:
    """Whole frames; a refusal is one sentence. How many refusals there are, for who said this first."""
    refusals = 0
    # Who names no service is answered as a worker.
    is_session = first.partition(b" ")[0] == preface("Sessions", "").strip()
    kind: type[Any] = sessions_pb2.ServerFrame if is_session else workers_pb2.ControllerFrame
    while data:
        (length,) = _LENGTH.unpack_from(data)
        frame, data = data[4 : 4 + length], data[4 + length :]
        answer = kind.FromString(frame)
        if answer.HasField("refused"):
            refusals += 1
            sentence = answer.refused.failure.message
            assert len(sentence.split()) > 3, sentence
            assert "Traceback" not in sentence, sentence
            # What differs in versions is told in a table behind its sentence.
            assert "\n" not in sentence or answer.refused.failure.reason == "VERSION_MISMATCH", sentence
    return refusals


def run_cases(seeds: list[int]) -> None:
    """Cases in their order, with one controller; raises AssertionError naming the seed that went wrong."""
    asyncio.run(_run_cases(seeds))


async def _run_cases(seeds: list[int]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with controller(Path(folder), "framed") as running:
            answer_fences(running)
            honest = running.session_call()
            await open_session(honest, plain=True)
            cases = LinkCases(running, honest)
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _loop, context: cases.faults.append(repr(context)))
            for seed in seeds:
                try:
                    await cases.run(seed)
                except (AssertionError, TimeoutError) as error:
                    raise AssertionError(f"seed {seed}: {error!r}") from error
            honest.cancel()
