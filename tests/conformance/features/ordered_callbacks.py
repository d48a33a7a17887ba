"""Ordered callbacks of programs over both hosts come in the order of the program, whichever devices it runs on and in what order.

The token that orders them is a result on every device of one program and an argument on those of the next one.
"""

import threading

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

NUMBER = jax.ShapeDtypeStruct((), jnp.int32)


class Journal:
    """What callbacks were given, in order; each returns how many there were."""

    def __init__(self):
        self.seen = []

    def note(self, value):
        self.seen.append(np.asarray(value).tolist())
        return np.int32(len(self.seen))

    def ask(self, value):
        return io_callback(self.note, NUMBER, value, ordered=True)

    def after(self, result):
        jax.effects_barrier()
        return {"result": result, "seen": self.seen}


def repeated(function, x, times):
    for _ in range(times):
        x = function(x)
    return x


def three(journal):
    def program(x):
        for i in range(3):
            x = x + journal.ask(x[i])
        return x

    return program


def turns(journal):
    return lambda x: jax.lax.fori_loop(0, 3, lambda _, value: value + journal.ask(value.sum()), x)


def branch(journal):
    return lambda x: jax.lax.cond(x.sum() > 50, lambda v: v - journal.ask(v.max()), lambda v: v * 2, x)


def silent(journal):
    def program(x):
        io_callback(journal.seen.append, None, x[0] + x[-1], ordered=True)

    return program


def from_threads(x):
    """Each thread has an order of its own."""
    journals, results = [Journal() for _ in range(2)], [None] * 2

    def work(index):
        journal = journals[index]
        results[index] = np.asarray(repeated(jax.jit(lambda v: v + journal.ask(v.sum())), x + index, 3))
        jax.effects_barrier()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return {"results": results, "seen": [journal.seen for journal in journals]}


def run():
    devices = jax.devices()
    rows, back = (NamedSharding(Mesh(np.array(order), ("x",)), P("x")) for order in (devices, devices[::-1]))
    everywhere, alone = (NamedSharding(Mesh(np.array(some), ("x",)), P()) for some in (devices, devices[-1:]))
    x = np.arange(8, dtype=np.int32)
    found = {}
    for name, make in {"three": three, "turns": turns, "branch": branch}.items():
        journal = Journal()
        found[name] = journal.after(repeated(jax.jit(make(journal)), jax.device_put(x, rows), 3))
    journal = Journal()
    program = jax.jit(lambda v: v + journal.ask(v.sum()))
    arrays = [jax.device_put(x, sharding) for sharding in (rows, back, alone, everywhere)]
    results = repeated(lambda values: [program(value) for value in values], arrays, 3)
    found["on other devices"] = journal.after(results)
    journal = Journal()
    program = jax.jit(silent(journal))
    found["without results"] = journal.after([program(array) for array in results[:3]])
    found["threads"] = from_threads(arrays[0])
    return found
