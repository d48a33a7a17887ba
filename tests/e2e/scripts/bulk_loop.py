"""`read`: reads for ever, to be killed meanwhile. `lose`: reads an array whose host ends, and one whose host stays."""

from __future__ import annotations

import sys

import jax
import numpy as np
import pathways as pw


def read() -> None:
    arrays = [jax.device_put(np.ones(8 << 20, np.uint8), device) for device in jax.devices()]
    pw.fetch(arrays)
    print("reading", flush=True)
    while True:
        pw.fetch(arrays)


def lose() -> None:
    data = np.arange(1 << 20, dtype=np.float32)
    first, last = jax.device_put(data, jax.devices()[0]), jax.device_put(data, jax.devices()[-1])
    np.testing.assert_array_equal(pw.fetch(first), data)
    print("there", flush=True)
    sys.stdin.readline()
    try:
        while True:
            pw.fetch(first)
    except pw.errors.PathwaysError as error:
        print(type(error).__name__, error.host, flush=True)
    print("b0 as it was" if np.array_equal(pw.fetch(last), data) else "b0 is wrong", flush=True)


if __name__ == "__main__":
    {"read": read, "lose": lose}[sys.argv[1]]()
