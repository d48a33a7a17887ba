"""A client of `pathways.v1` without JAX, as another language would write it: a plain session that asks and waits."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import parse_address
from pathways_proto.v1 import sessions_pb2, types_pb2

from tests.cluster import Cluster

ANSWER_S = 120.0
# Answers by their name, and the field that says to which question they belong.
_NUMBERS = {"program_defined": "program_id", "fetched": "fetch_id", "fetch_failed": "fetch_id"}


class PlainSession:
    """Made by `plain_session`."""

    def __init__(
        self, requests: queue.Queue[sessions_pb2.ClientFrame | None], frames: Iterator[sessions_pb2.ServerFrame]
    ) -> None:
        self._requests = requests
        self._frames = frames
        self._last = 0
        self.welcome = next(frames).welcome

    def positions(self, island: str) -> list[int]:
        """Ids of the devices of an island, in their order."""
        return [device.device_id for device in self.welcome.devices if device.island == island and not device.pool]

    def _number(self) -> int:
        self._last += 1
        return self._last

    def _send(self, **operation: Any) -> None:
        self._requests.put(sessions_pb2.ClientFrame(operations=[sessions_pb2.ClientOperation(**operation)]))

    def _answer(self, number: int) -> Any:
        for frame in self._frames:
            for operation in frame.operations:
                name = operation.WhichOneof("operation")
                if name in _NUMBERS and getattr(getattr(operation, name), _NUMBERS[name]) == number:
                    return getattr(operation, name)
        raise AssertionError(f"the stream ended without answer {number}")

    def open_program(self, name: str, devices: Sequence[int]) -> sessions_pb2.ProgramDefined:
        """A registered program on these devices, or why not."""
        number = self._number()
        self._send(open_program=sessions_pb2.OpenProgram(program_id=number, name=name, devices=devices))
        answer: sessions_pb2.ProgramDefined = self._answer(number)
        return answer

    def run(self, program: sessions_pb2.ProgramDefined, value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """One run of a program from one array of float32 to another, both cut along their first dimension."""
        (argument,), (result,) = program.arguments, program.results
        buffer, run = self._number(), self._number()
        pieces = [
            sessions_pb2.Piece(shards=[shard], inline=part.tobytes())
            for shard, part in enumerate(np.split(value, len(argument.devices)))
        ]
        self._send(make_array=sessions_pb2.MakeArray(buffer_id=buffer, spec=argument, pieces=pieces))
        first = self._number()
        message = sessions_pb2.RunProgram(run_id=run, program_id=program.program_id, arguments=[buffer], first_result_id=first)
        self._send(run_program=message)
        return np.concatenate([self._shard(first, shard, result) for shard in range(len(result.devices))])

    def _shard(self, view: int, shard: int, spec: types_pb2.ArraySpec) -> np.ndarray[Any, Any]:
        number = self._number()
        size = int(np.prod(spec.shard_shape)) * 4
        self._send(fetch=sessions_pb2.Fetch(fetch_id=number, view_id=view, shard=shard, size_bytes=size))
        answer = self._answer(number)
        assert isinstance(answer, sessions_pb2.Fetched), answer
        return np.frombuffer(answer.data, np.float32).reshape(tuple(spec.shard_shape))


@contextmanager
def plain_session(cluster: Cluster) -> Iterator[PlainSession]:
    """A session over all islands; it ends with a goodbye."""
    requests: queue.Queue[sessions_pb2.ClientFrame | None] = queue.Queue()
    requests.put(sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(islands=["*"], client="test", plain=True)))
    token = (cluster.state / "token").read_text().strip()
    with grpc.insecure_channel(parse_address(cluster.address), options=[("grpc.enable_http_proxy", 0)]) as channel:
        call = channel.stream_stream(
            "/pathways.v1.Sessions/Connect",
            request_serializer=sessions_pb2.ClientFrame.SerializeToString,
            response_deserializer=sessions_pb2.ServerFrame.FromString,
        )(iter(requests.get, None), metadata=bearer(token), timeout=ANSWER_S)
        try:
            yield PlainSession(requests, call)
            goodbye = sessions_pb2.ClientOperation(goodbye=sessions_pb2.Goodbye(reason="done"))
            requests.put(sessions_pb2.ClientFrame(operations=[goodbye]))
            for _ in call:
                pass
        finally:
            call.cancel()
            requests.put(None)
