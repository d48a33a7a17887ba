"""For every two lines on standard input: arrays are made, then three moves begin at once.

A MiB is put on one host, another is copied from there to the other, a third one is read; each is compared in the client. Prints
`ready` between the lines, what became of each in the order in which they end, and `done`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pathways as pw

first, second = jax.devices()[:2]


def told(name: str, move: Callable[[], jax.Array], sent: np.ndarray) -> None:
    try:
        word = "right" if np.array_equal(np.asarray(move()), sent) else "other numbers"
    except jax.errors.JaxRuntimeError as error:
        found = pw.errors.of(error)
        word = f"{found.reason.name} {str(found).splitlines()[0]}"
    print(name, word, flush=True)


with ThreadPoolExecutor(3) as threads:
    for number, _ in enumerate(sys.stdin, 1):
        values = np.random.default_rng(number).integers(0, 1 << 30, (3, 1 << 18), np.int32)
        there = jax.block_until_ready([jax.device_put(values[1], first), jax.device_put(values[2], second)])
        print("ready", flush=True)
        next(sys.stdin)
        moves = [
            threads.submit(told, "put", lambda sent=values[0]: jax.device_put(sent, first), values[0]),
            threads.submit(told, "copied", lambda kept=there[0]: jax.device_put(kept, second), values[1]),
            threads.submit(told, "read", lambda kept=there[1]: kept, values[2]),
        ]
        for move in moves:
            move.result()
        print("done", flush=True)
