"""A chain over four hosts, one stage on each, called N times in each mode of dispatch, in turns; prints the seconds of each."""

import sys
import time

import jax
import numpy as np
import pathways as pw

COUNT = int(sys.argv[1])

with pw.connect(islands="all"):
    device_set = pw.make_virtual_device_set()
    first = device_set.add_slice(devices=1, island="a")
    stages = [
        first,
        device_set.add_slice(devices=1, island="a", apart=[first]),
        third := device_set.add_slice(devices=1, island="b"),
        device_set.add_slice(devices=1, island="b", apart=[third]),
    ]
    assert len({host for stage in stages for host in stage.hosts}) == 4
    calls = [
        jax.jit(lambda x: x + 1, in_shardings=one, out_shardings=one)
        for one in (jax.sharding.SingleDeviceSharding(stage.devices[0]) for stage in stages)
    ]

    def chain(x):
        for call in calls:
            x = call(x)
        return x

    start = jax.device_put(np.float32(0), stages[0].devices[0])
    programs = {mode: pw.program(chain, dispatch=mode) for mode in ("parallel", "sequential")}
    for mode, program in programs.items():
        print(mode, "value", float(program(start)), flush=True)
    for _ in range(COUNT):
        for mode, program in programs.items():
            began_s = time.perf_counter()
            program(start).block_until_ready()
            print(mode, time.perf_counter() - began_s, flush=True)
