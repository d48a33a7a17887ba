"""Four nodes that would run for minutes; one raises. The first failure of a wait for all of them ends the others."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import SingleDeviceSharding

TURNS = 1_000_000
RAISES_AT = 20


def check(turn):
    if turn >= RAISES_AT:
        raise ValueError(f"node 2 found nothing in turn {int(turn)}")
    return turn


def looped(function, device):
    step = jax.jit(function, out_shardings=SingleDeviceSharding(device))
    return pw.program(lambda x: pw.while_loop(lambda x: x < TURNS, step, x, max_iterations=TURNS + 1))


def checked(x):
    return jax.pure_callback(check, jax.ShapeDtypeStruct((), jnp.float32), x + 1)


with pw.connect():
    devices = jax.devices()
    nodes = [looped(checked if number == 2 else (lambda x: x + 1), devices[number % len(devices)]) for number in range(4)]
    began_s = time.monotonic()
    results = [node(np.float32(0)) for node in nodes]
    try:
        jax.block_until_ready(results)
    except Exception as error:
        print("first", type(pw.errors.of(error)).__name__, str(error).splitlines()[0], flush=True)
        pw.cancel(results)
    failed_s = time.monotonic()
    for number, result in enumerate(results):
        try:
            print(number, "computed", float(result), flush=True)
        except Exception as error:
            print(number, type(pw.errors.of(error)).__name__, flush=True)
    others_s = time.monotonic()
    values = [float(jax.device_put(np.float32(number), device) + 1) for number, device in enumerate(devices)]
    print("free", values == [number + 1.0 for number in range(len(devices))], flush=True)
    print(f"seen after {failed_s - began_s:.3f} s, the others ended after {others_s - failed_s:.3f} s", flush=True)
