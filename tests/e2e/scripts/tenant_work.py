"""Programs of a tenant: one that runs until a line comes on standard input, and one beside it. Says what became of each.

`beside HOW`: after a line, asks for the second while the first runs. `again N`: the first alone, N times in turn.
"""

from __future__ import annotations

import sys
import threading

import jax
import numpy as np

called = threading.Event()


def say(*words: object) -> None:
    """One line in one write: the callback speaks from a thread of its own, and `print` writes the end of a line apart."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def wait_for_line(value: np.ndarray) -> np.ndarray:
    say("running")
    called.set()  # only now: "asked" comes after it
    sys.stdin.readline()
    return value


@jax.jit
def held(value: jax.Array) -> jax.Array:
    return jax.pure_callback(wait_for_line, jax.ShapeDtypeStruct(value.shape, value.dtype), value) + 1


@jax.jit
def tripled(value: jax.Array) -> jax.Array:
    return value * 3


def fresh() -> jax.Array:
    return jax.device_put(np.arange(4, dtype=np.float32)).block_until_ready()


def told(name: str, value: jax.Array) -> None:
    try:
        say(name, np.asarray(value).tolist())
    except Exception as error:
        say(name, "failed:", " ".join(str(error).split()))


if sys.argv[1] == "beside":
    start = fresh()
    told("before", tripled(start))
    sys.stdin.readline()
    first = held(start)
    called.wait(60)
    second = tripled(start)
    say("asked")
    told("second", second) if sys.argv[2] == "fail" else None
    told("first", first)
    told("second", second)
else:
    for _ in range(int(sys.argv[2])):
        told("held", held(fresh()))
