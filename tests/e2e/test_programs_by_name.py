"""A program with a loop and a branch, registered from Python, is run by name by a client that knows nothing but `pathways.v1`."""

from __future__ import annotations

import queue
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import parse_address
from pathways_proto.v1 import sessions_pb2, sessions_pb2_grpc

from tests.cluster import Cluster

pytestmark = pytest.mark.cluster
SCRIPT = str(Path(__file__).with_name("scripts") / "register_collatz.py")
NAME = "tests/collatz"
INT32, FLOAT32 = 4, 11
S = sessions_pb2
TIMEOUT_S = 60


class Session:
    """A plain session: frames go out in order, and answers come in order."""

    def __init__(self, call: Any, frames: queue.SimpleQueue[sessions_pb2.ClientFrame]) -> None:
        self._call = call
        self._frames = frames
        self.welcome = next(call).welcome
        self._answers: list[sessions_pb2.ServerOperation] = []

    def send(self, **operation: Any) -> None:
        self._frames.put(S.ClientFrame(operations=[S.ClientOperation(**operation)]))

    def answer(self, *members: str) -> Any:
        """The next answer that is one of these; everything else is passed over."""
        while True:
            while not self._answers:
                self._answers.extend(next(self._call).operations)
            found = self._answers.pop(0)
            if found.WhichOneof("operation") in members:
                return getattr(found, found.WhichOneof("operation"))


@contextmanager
def plain_session(cluster: Cluster) -> Iterator[Session]:
    frames: queue.SimpleQueue[sessions_pb2.ClientFrame] = queue.SimpleQueue()
    frames.put(S.ClientFrame(hello=S.Hello(plain=True, client="a test")))
    token = (cluster.state / "token").read_text().strip()
    with grpc.insecure_channel(parse_address(cluster.address), options=[("grpc.enable_http_proxy", 0)]) as channel:
        connect = sessions_pb2_grpc.SessionsStub(channel).Connect
        call = connect(iter(frames.get, None), metadata=bearer(token), timeout=TIMEOUT_S)
        try:
            yield Session(call, frames)
        finally:
            call.cancel()


def collatz(start: int) -> int:
    value, count = start, 0
    while value > 1:
        value, count = 3 * value + 1 if value % 2 else value // 2, count + 1
    return count


def test_program_with_a_loop_and_a_branch_runs_by_name(cluster: Cluster) -> None:
    registered = cluster.run(SCRIPT, NAME)
    assert registered.returncode == 0, registered.stderr
    ran, version = registered.stdout.splitlines()
    assert ran == f"ran {collatz(6)} [1.0, 1.0]"
    with plain_session(cluster) as session:
        session.send(open_program=S.OpenProgram(program_id=1, name=NAME))
        defined = session.answer("program_defined")
        assert not defined.HasField("failure"), defined.failure.message
        assert (defined.name, f"version {defined.version}") == (NAME, version)
        (argument,) = defined.arguments
        assert (argument.dtype, list(argument.shape)) == (FLOAT32, [2])
        shards = range(len(argument.devices))
        (per_shard,), (value_length,) = argument.shard_shape, defined.results[1].shard_shape
        assert [(result.dtype, list(result.shape)) for result in defined.results] == [(INT32, []), (FLOAT32, [2])]
        for number, start in enumerate((7, 1, 27), 1):
            first = 10 * number
            piece = S.Piece(shards=shards, inline=struct.pack("<f", start) * per_shard)
            session.send(make_array=S.MakeArray(buffer_id=first, spec=argument, pieces=[piece]))
            session.send(run_program=S.RunProgram(run_id=first + 1, program_id=1, arguments=[first], first_result_id=first + 2))
            for index, length in enumerate((1, value_length)):
                session.send(fetch=S.Fetch(fetch_id=first + index, view_id=first + 2 + index, shard=0, size_bytes=4 * length))
            answers = [session.answer("fetched", "fetch_failed") for _ in (0, 1)]
            assert not any(isinstance(found, S.FetchFailed) for found in answers), answers
            data = {found.fetch_id - first: found.data for found in answers}
            assert struct.unpack("<i", data[0]) == (collatz(start),)
            assert data[1] == struct.pack("<f", 1.0) * value_length
