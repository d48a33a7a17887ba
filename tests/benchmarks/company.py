"""A client of a shared island that measures its own round trips, or is greedy: one JSON command per line, one JSON answer each.

A round trip is an addition on one device by `jax.jit`, awaited; or, by a session of its own without JAX's client and without a
door, a fence: the smallest request that no device is needed for. Greedy is who keeps many gangs queued, or uploads without
pause, in JAX's way or in ours.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from pathways_common.rpc.channels import open_channel
from pathways_common.rpc.version import pathways_version
from pathways_door.upstream import Upstream, open_upstream
from pathways_proto.v1 import sessions_pb2

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

WARM_CALLS = 20
# A greedy client looks at every so many gangs whether they are done.
LOOKED_AT = 100
DONE_S = 60.0


class Fences:
    """A session beside that of JAX, in a thread of its own, which asks for fences."""

    def __init__(self, address: str, token: str) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True, name="fences").start()
        self._upstream: Upstream = self._do(self._open(address, token))

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DONE_S)

    async def _open(self, address: str, token: str) -> Upstream:
        hello = sessions_pb2.Hello(pathways_version=pathways_version(), client="fences")
        return await open_upstream(open_channel(address), address, token, hello)

    def round_trips(self, count: int) -> list[float]:
        """How long each took, in microseconds."""
        taken_us: list[float] = self._do(self._ask(count))
        return taken_us

    async def _ask(self, count: int) -> list[float]:
        taken_us = []
        for _ in range(count):
            before_s = time.perf_counter()
            number = self._upstream.pending.number("fence_reached")
            answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            operation = sessions_pb2.ClientOperation(fence=sessions_pb2.Fence(fence_id=number))
            self._upstream.ask("fence_reached", number, operation, lambda message, failure, to=answer: to.set_result(failure))
            if (failure := await asyncio.wait_for(answer, DONE_S)) is not None:
                raise SystemExit(failure.message)
            taken_us.append(1e6 * (time.perf_counter() - before_s))
        return taken_us

    def close(self) -> None:
        self._do(self._upstream.close("the benchmark ended"))


class Calls:
    """Tiny jitted calls on one device, each awaited."""

    def __init__(self) -> None:
        self._step = jax.jit(lambda x: x + 1)
        self._zero = jax.device_put(np.zeros(1, np.float32), jax.local_devices()[0])

    def round_trips(self, count: int) -> list[float]:
        """How long each took, in microseconds; raises SystemExit if the value at the end is wrong."""
        x, taken_us = self._zero, []
        for _ in range(count):
            before_s = time.perf_counter()
            x = self._step(x)
            x.block_until_ready()
            taken_us.append(1e6 * (time.perf_counter() - before_s))
        if float(x[0]) != count:
            raise SystemExit(f"{count} additions of one gave {float(x[0])}")
        return taken_us


class Greed:
    """Something that goes on in a thread until it is told to stop. `begun` once it is as greedy as it will be."""

    def __init__(self, what: Callable[[Greed], dict[str, Any]]) -> None:
        self.begun = threading.Event()
        self.over = threading.Event()
        self.answer: dict[str, Any] = {}
        self._what = what
        self._thread = threading.Thread(target=self._go_on, daemon=True, name="greed")
        self._thread.start()
        if not self.begun.wait(DONE_S):
            raise SystemExit("the greedy client did not get going")

    def _go_on(self) -> None:
        self.answer = self._what(self)

    def stop(self) -> dict[str, Any]:
        """What it did, once its last work is done."""
        self.over.set()
        self._thread.join(2 * DONE_S)
        if not self.answer:
            raise SystemExit("the greedy client failed; see above")
        return self.answer


def keeping_queued(gangs: int) -> Callable[[Greed], dict[str, Any]]:
    """Asks for gangs so that so many are not done at any time."""
    devices = jax.devices()
    rows = NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))
    step = jax.jit(
        jax.shard_map(lambda x: jax.lax.psum(x, "x") / len(devices) + 1, mesh=rows.mesh, in_specs=P("x"), out_specs=P("x"))
    )
    zero = jax.make_array_from_callback((len(devices),), rows, lambda _: np.zeros(1, np.float32))
    step(zero).block_until_ready()

    def go_on(greed: Greed) -> dict[str, Any]:
        x, asked, looked_at = zero, 0, deque[Any]()
        while not greed.over.is_set():
            if len(looked_at) * LOOKED_AT >= gangs:
                greed.begun.set()
                looked_at.popleft().block_until_ready()
            for _ in range(LOOKED_AT):
                x = step(x)
            asked += LOOKED_AT
            looked_at.append(x)
        value = float(np.asarray(x.addressable_shards[0].data)[0])
        # float32 counts to 2**24 exactly.
        if value != min(asked, 2**24):
            raise SystemExit(f"{asked} gangs that add one gave {value}")
        return {"gangs": asked}

    return go_on


def uploading(size_bytes: int, fast: bool = False) -> Callable[[Greed], dict[str, Any]]:
    """Puts arrays of that size on a device, one right after the other; `fast`: by `pw.put`."""
    import pathways as pw

    put = pw.put if fast else jax.device_put
    data = np.arange(size_bytes // 4, dtype=np.uint32)
    device = jax.local_devices()[0]

    def go_on(greed: Greed) -> dict[str, Any]:
        count, last = 0, None
        while not greed.over.is_set():
            last = put(data, device)
            last.block_until_ready()
            count += 1
            if count == 2:
                greed.begun.set()
        assert last is not None
        if int(last[-1]) != data[-1]:
            raise SystemExit("an upload did not arrive as it was sent")
        return {"uploads": count}

    return go_on


def main() -> None:
    import pathways as pw

    answers = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)
    pw.connect()
    calls = Calls()
    calls.round_trips(WARM_CALLS)
    fences, greed = None, None
    answers.write(json.dumps({"devices": len(jax.devices())}) + "\n")
    for line in sys.stdin:
        command = json.loads(line)
        what, answer = command.pop("what"), {}
        if what == "calls":
            answer = {"latencies_us": calls.round_trips(**command)}
        elif what == "fences":
            if fences is None:
                fences = Fences(sys.argv[1], Path(sys.argv[2]).read_text().strip())
                fences.round_trips(WARM_CALLS)
            answer = {"latencies_us": fences.round_trips(**command)}
        elif what == "stop":
            assert greed is not None
            answer = greed.stop()
        else:
            greed = Greed({"keep_queued": keeping_queued, "upload": uploading}[what](**command))
        answers.write(json.dumps(answer) + "\n")
    if fences is not None:
        fences.close()


if __name__ == "__main__":
    main()
