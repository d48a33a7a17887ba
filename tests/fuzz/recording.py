"""A short session of a stock JAX client through a door, recorded: its messages to the door, and what the door said upstream.

The client is a process; door and cluster are in this one, in a thread. Programs are compiled here by what executors compile with.
No two recordings are the same, so cases that shall be the same every time are made from one that was kept (`fuzz.py --record`).
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import zlib
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pathways_common.model.array import ExecutableFacts
from pathways_common.model.failure import Failure, Reason
from pathways_door.hostbuffers import Data
from pathways_door.ifrt_service import IfrtService
from pathways_door.ifrt_session import IfrtSession
from pathways_door.transport import TransportName, transport_of
from pathways_proto.v1 import sessions_pb2, workers_pb2
from pathways_server.rpc.decode_host import host_event

from tests.fuzz.played import HOST, PlayedBulk, PlayedCluster, PlayedUpstream

KEPT = Path(__file__).with_name("recorded_session.bin")
CLIENT = Path(__file__).with_name("recorded_client.py")
_SECRET = "recorded"
_CLIENT_S = 60.0


@dataclass
class Recorded:
    """`messages` are serialized IfrtRequests; `buffers` what came beside them, by handle; `loaded` the answers of executors.

    `operations` are those of the door to the controller, `loaded` is by the name of the program.
    """

    messages: list[bytes] = field(default_factory=list)
    buffers: dict[int, bytes] = field(default_factory=dict)
    operations: list[sessions_pb2.ClientOperation] = field(default_factory=list)
    loaded: dict[str, bytes] = field(default_factory=dict)

    def load(self, name: str, _program: bytes, _options: bytes) -> ExecutableFacts | Failure:
        """What becomes of a program in a later session: compiled as in this one, or not at all."""
        if name not in self.loaded:
            return Failure(Reason.COMPILE_ERROR, "the program is none that was recorded")
        return facts_of(workers_pb2.Loaded.FromString(self.loaded[name]))

    def write(self, path: Path) -> None:
        """Keeps it."""
        parts = {
            "messages": [_text(raw) for raw in self.messages],
            "buffers": {str(handle): _text(data) for handle, data in self.buffers.items()},
            "operations": [_text(operation.SerializeToString(deterministic=True)) for operation in self.operations],
            "loaded": {name: _text(data) for name, data in self.loaded.items()},
        }
        path.write_bytes(zlib.compress(json.dumps(parts).encode(), 9))

    @classmethod
    def read(cls, path: Path) -> Recorded:
        """One that was kept."""
        parts = json.loads(zlib.decompress(path.read_bytes()))
        return cls(
            [b64decode(text) for text in parts["messages"]],
            {int(handle): b64decode(text) for handle, text in parts["buffers"].items()},
            [sessions_pb2.ClientOperation.FromString(b64decode(text)) for text in parts["operations"]],
            {name: b64decode(text) for name, text in parts["loaded"].items()},
        )


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def facts_of(answer: workers_pb2.Loaded) -> ExecutableFacts | Failure:
    """What the controller makes of an executor's answer."""
    event: Any = host_event(HOST, "loaded", answer)
    found: ExecutableFacts | Failure = event.facts or event.failure
    return found


class _Compiler:
    """Loads programs as an executor does."""

    def __init__(self, recorded: Recorded) -> None:
        from pathways_worker.executor import loading, runtime  # brings JAX, which only a recording needs

        runtime.prepare_process()
        self._carry_out = loading.carry_out
        self._machine = runtime.Runtime(0, 1, "", 2)
        self._recorded = recorded

    def load(self, name: str, program: bytes, options: bytes) -> ExecutableFacts | Failure:
        load = workers_pb2.Load(executable_id=1, program=program, options=options, epoch=1)
        for count in (1, 2):  # whichever its options ask for
            load.devices[:] = range(count)
            _, answer = self._carry_out(self._machine, load, _no_stand_in, {}, False)
            if not answer.HasField("failure"):
                break
        self._recorded.loaded[name] = answer.SerializeToString(deterministic=True)
        return facts_of(answer)


def _no_stand_in(*_: Any) -> Any:
    raise AssertionError("the recorded client has no callbacks")


def record() -> Recorded:
    """Runs the client once."""
    recorded = Recorded()
    cluster = PlayedCluster(_Compiler(recorded).load)
    upstreams: list[PlayedUpstream] = []

    async def open_upstream() -> PlayedUpstream:
        upstreams.append(PlayedUpstream(cluster, len(upstreams) + 1))
        return upstreams[-1]

    ended = threading.Event()
    port: list[int] = []
    listening = threading.Event()

    async def serve() -> None:
        transport = transport_of(TransportName.HTTP2)
        bulk: Any = PlayedBulk()
        service = IfrtService(open_upstream, lambda _upstream, _reason: None, bulk, _SECRET, transport)
        transport.add(service.handler())
        port.append(await transport.listen("127.0.0.1:0"))
        listening.set()
        while not ended.is_set():
            await asyncio.sleep(0.002)
            for upstream in upstreams:
                upstream.pump()
        await transport.stop()

    with _listening_in(recorded):
        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        assert listening.wait(20)
        environment = os.environ | {
            "JAX_PLATFORMS": "proxy,cpu", "JAX_BACKEND_TARGET": f"grpc://127.0.0.1:{port[0]}", "DOOR_SECRET": _SECRET,
            "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS": "true", "JAX_ENABLE_COMPILATION_CACHE": "false",
        }  # fmt: skip
        try:
            done = subprocess.run(
                [sys.executable, str(CLIENT)], env=environment, capture_output=True, text=True, timeout=_CLIENT_S, check=False
            )
        finally:
            ended.set()
            thread.join(20)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    for upstream in upstreams:
        recorded.operations += upstream.said
    return recorded


class _listening_in:  # noqa: N801 - used as a block
    """Keeps what sessions are given, while the block lasts."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded

    def __enter__(self) -> None:
        from pathways_door.hostbuffers import HostBuffers

        recorded, self._handle, self._put = self._recorded, IfrtSession.handle, HostBuffers.put
        handle, put = self._handle, self._put

        def heard(session: IfrtSession, raw: bytes) -> None:
            recorded.messages.append(raw)
            handle(session, raw)

        def came(buffers: HostBuffers, number: int, data: Data) -> None:
            recorded.buffers.setdefault(number, bytes(data))
            put(buffers, number, data)

        IfrtSession.handle, HostBuffers.put = heard, came  # type: ignore[method-assign]

    def __exit__(self, *_: object) -> None:
        from pathways_door.hostbuffers import HostBuffers

        IfrtSession.handle, HostBuffers.put = self._handle, self._put  # type: ignore[method-assign]
