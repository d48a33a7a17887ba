"""The steps of `steps.py` without JAX's client and without its door: a Python program that speaks pathways.v1 itself.

What it gives beside the cluster side is what the IFRT proxy protocol costs: JAX's client and the door. Same commands and answers,
one JSON line each; `direct.py ADDRESS TOKEN_FILE`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import uvloop
from jax.sharding import PartitionSpec as P
from pathways_common.rpc.channels import open_channel
from pathways_common.rpc.version import pathways_version
from pathways_door.upstream import Upstream, open_upstream
from pathways_proto.v1 import sessions_pb2, types_pb2

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.unit.executor.driving import lower, lower_sharded, options_for, sharded

F32 = 11
# Operations pushed before the loop gets a turn: what a client in a loop of its own would put into one frame.
TURN = 32


class Session:
    """Both programs compiled, their inputs made, through the public protocol alone."""

    def __init__(self, upstream: Upstream, another: Callable[[], Awaitable[Upstream]]) -> None:
        self._upstream = upstream
        self._another = another
        self.devices = sum(not device.pool for device in upstream.welcome.devices)
        self._programs: dict[str, tuple[int, int]] = {}

    async def _ask(self, kind: str, number: int, operation: sessions_pb2.ClientOperation) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def told(message: Any, failure: Any) -> None:
            if failure is None:
                answer.set_result(message)
            else:
                answer.set_exception(SystemExit(failure.message))

        self._upstream.ask(kind, number, operation, told)
        return await asyncio.wait_for(answer, 60)

    async def start(self) -> None:
        """Compiles both programs and runs each once."""
        count = self.devices
        mesh = sharded(("d",), count)
        step = jax.shard_map(lambda x: jax.lax.psum(x, "d") / count + 1, mesh=mesh.mesh, in_specs=P("d"), out_specs=P("d"))
        shape = jax.ShapeDtypeStruct((count,), np.float32, sharding=mesh)
        await self._make("gang", lower_sharded(step, shape), list(range(count)))
        await self._make("call", lower(lambda x: x + 1, np.zeros(1, np.float32)), [0])
        for what in ("gang", "call"):
            await self.measure(what, 20, awaited=True)

    async def _make(self, what: str, program: bytes, devices: list[int]) -> None:
        executable_id, buffer_id = self._upstream.new_ids(), self._upstream.new_ids()
        compilation = sessions_pb2.Compile(
            executable_id=executable_id, program=program, options=options_for(len(devices)), devices=devices
        )
        await self._ask("compiled", executable_id, sessions_pb2.ClientOperation(compile=compilation))
        spec = types_pb2.ArraySpec(dtype=F32, shape=[len(devices)], shard_shape=[1], devices=devices)
        piece = sessions_pb2.Piece(shards=range(len(devices)), inline=bytes(4), size_bytes=4)
        array = sessions_pb2.MakeArray(buffer_id=buffer_id, spec=spec, pieces=[piece])
        self._upstream.push(sessions_pb2.ClientOperation(make_array=array))
        self._programs[what] = executable_id, buffer_id

    async def measure(self, what: str, count: int, awaited: bool) -> dict[str, Any]:
        """As `Steps.measure`; a step of `session` opens another session and closes it."""
        if what == "session":
            return await self._sessions(count)
        executable_id, view = self._programs[what]
        first = view
        latencies_us = []
        started_s = time.perf_counter()
        for index in range(count):
            before_s = time.perf_counter()
            execution_id = self._upstream.new_ids(2)
            execute = sessions_pb2.Execute(
                execution_id=execution_id, executable_id=executable_id, arguments=[view], first_result_id=execution_id + 1
            )
            self._upstream.push(sessions_pb2.ClientOperation(execute=execute))
            if view != first:
                self._upstream.release(view, 4)
            view = execution_id + 1
            if awaited:
                await self._wait(view)
                latencies_us.append(1e6 * (time.perf_counter() - before_s))
            elif index % TURN == 0:
                await asyncio.sleep(0)
                await self._upstream.caught_up()
        await self._wait(view)
        seconds = time.perf_counter() - started_s
        number = self._upstream.pending.number("fetched")
        fetch = sessions_pb2.Fetch(fetch_id=number, view_id=view, shard=0, size_bytes=4)
        fetched = await self._ask("fetched", number, sessions_pb2.ClientOperation(fetch=fetch))
        self._upstream.release(view, 4)
        value = float(np.frombuffer(fetched.data, np.float32)[0])
        return {"seconds": seconds, "latencies_us": latencies_us, "value": value}

    async def _sessions(self, count: int) -> dict[str, Any]:
        started_s = time.perf_counter()
        opened = set()
        for _ in range(count):
            upstream = await self._another()
            opened.add(upstream.welcome.session_id)
            await upstream.close("done")
        return {"seconds": time.perf_counter() - started_s, "latencies_us": [], "value": float(len(opened))}

    async def _wait(self, view: int) -> None:
        number = self._upstream.pending.number("ready")
        await self._ask("ready", number, sessions_pb2.ClientOperation(wait=sessions_pb2.Wait(wait_id=number, views=[view])))


async def serve(address: str, token: str) -> None:
    """Answers commands from standard input until it ends."""
    hello = sessions_pb2.Hello(pathways_version=pathways_version(), client="benchmark without a door")

    async def open_session() -> Upstream:
        return await open_upstream(open_channel(address), address, token, hello)

    upstream = await open_session()
    session = Session(upstream, open_session)
    await session.start()
    print(json.dumps({"devices": session.devices, "jax": jax.__version__}), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        print(json.dumps(await session.measure(**json.loads(line))), flush=True)
    await upstream.close("the benchmark ended")


def main() -> None:
    uvloop.run(serve(sys.argv[1], Path(sys.argv[2]).read_text().strip()))


if __name__ == "__main__":
    main()
