"""Chains of 128 nodes on one slice of two hosts: `once`, `threads`, or `slow`, whose node 57 takes seconds."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

NODES = 128


def compiled(function, rows, other=None):
    return jax.jit(function, in_shardings=(rows, other) if other is not None else rows, out_shardings=rows)


def main():
    mesh = pw.make_virtual_device_set().add_slice(devices=2).mesh(("x",))
    rows, all_of_it = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    add = compiled(lambda x: x + 1, rows)

    @pw.program
    def chain(x):
        for _ in range(NODES):
            x = add(x)
        return x

    if sys.argv[1] == "once":
        start = jax.device_put(np.zeros(2, np.float32), rows)
        print("warm", chain(start).tolist(), flush=True)
        sys.stdin.readline()
        result = chain(start)
        print("called", flush=True)
        sys.stdin.readline()
        print("value", result.tolist(), flush=True)
        return
    if sys.argv[1] == "threads":
        chain(np.zeros(2, np.float32)).block_until_ready()

        def work(number):
            return [chain(np.full(2, 1000 * number + turn, np.float32)).tolist() for turn in range(20)]

        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(work, range(8)))
        print(found == [[[1000.0 * number + turn + NODES] * 2 for turn in range(20)] for number in range(8)])
        return

    # Node 57 gets a number of turns that takes a minute here now, so seconds at least if the machine was busy. It is not awaited.
    wait = compiled(lambda x, turns: x + jax.lax.fori_loop(0, turns, lambda _, y: jnp.cos(y), x), rows, all_of_it)

    @pw.program(fuse=False)
    def slow(x, turns):
        for number in range(1, NODES + 1):
            x = wait(x, turns) if number == 57 else add(x)
        return x

    # What compiling takes must not be taken for the node's time.
    slow(np.zeros(2, np.float32), np.int32(1)).block_until_ready()
    turns = 1 << 10
    slow(np.zeros(2, np.float32), np.int32(1)).block_until_ready()
    while True:
        began_s = time.perf_counter()
        slow(np.zeros(2, np.float32), np.int32(turns)).block_until_ready()
        took_s = time.perf_counter() - began_s
        if took_s > 0.5:
            break
        turns *= 4
    result = slow(np.zeros(2, np.float32), np.int32(min(int(turns * 60 / took_s), 2**31 - 1)))
    print("running", flush=True)
    try:
        result.block_until_ready()
        print("finished")
    except Exception as error:
        print("failed:", " | ".join(str(error).splitlines()), flush=True)
    for _ in range(60):
        try:
            print("again", chain(np.zeros(2, np.float32)).tolist(), flush=True)
            return
        except Exception:
            time.sleep(1)


with pw.connect():
    main()
