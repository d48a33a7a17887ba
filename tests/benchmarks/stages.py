"""The measured program of the pipeline: stages on different hosts as one `@pw.program`, dispatched in either way.

One JSON command per line, one JSON answer each: {"stages": S, "dispatch": "parallel", "count": N}.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from typing import Any

import jax
import numpy as np
import pathways as pw
from jax.sharding import SingleDeviceSharding


class Stages:
    """Stage k runs on the k-th host and adds one."""

    def __init__(self) -> None:
        self.devices = jax.devices()
        places = [SingleDeviceSharding(device) for device in self.devices]
        self._calls = [jax.jit(lambda x: x + 1, in_shardings=place, out_shardings=place) for place in places]
        self._start = jax.device_put(np.zeros(1, np.float32), self.devices[0])

    @functools.cache  # noqa: B019 - one object per process
    def program(self, stages: int, dispatch: str) -> Any:
        """The program of so many stages; has run."""

        def chain(x: Any) -> Any:
            for call in self._calls[:stages]:
                x = call(x)
            return x

        made = pw.program(chain, dispatch=dispatch)
        for _ in range(3):
            made(self._start).block_until_ready()
        return made

    def measure(self, stages: int, dispatch: str, count: int) -> dict[str, Any]:
        """`seconds` for `count` calls under way at once, to the end of all; `latency_us`, the median of calls one by one."""
        program = self.program(stages, dispatch)
        began_s = time.perf_counter()
        results = [program(self._start) for _ in range(count)]
        jax.block_until_ready(results)
        seconds = time.perf_counter() - began_s
        latencies_s = []
        for _ in range(max(1, count // 4)):
            began_s = time.perf_counter()
            results.append(program(self._start).block_until_ready())
            latencies_s.append(time.perf_counter() - began_s)
        values = {float(np.asarray(result)[0]) for result in results[-3:]}
        return {"seconds": seconds, "latency_us": 1e6 * float(np.median(latencies_s)), "values": sorted(values)}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", 1)
    os.dup2(2, 1)
    with pw.connect():
        stages = Stages()
        answers.write(json.dumps({"devices": len(stages.devices)}) + "\n")
        for line in sys.stdin:
            answers.write(json.dumps(stages.measure(**json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
