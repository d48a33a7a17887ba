"""Colocated Python on the host of its device: functions, trees, what they return found out or promised, order, state, strings."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import colocated_python as colocated


def scaled(x, tree):
    return {"sum": x + tree["y"], "both": (tree["y"] * 2, jnp.sort(x))}


class Counter:
    def __init__(self, start):
        self.value = start

    def add(self, x):
        self.value = self.value + np.asarray(x)
        return jax.device_put(self.value, x.sharding)


def run():
    device, other = jax.devices()[0], jax.devices()[-1]
    x = jax.device_put(np.array([3, 1, 2], dtype=np.int32), device)
    y = jax.device_put(np.array([10, 20, 30], dtype=np.int32), device)
    function = colocated.colocated_python(scaled)
    found_out = [function(x, {"y": y}) for _ in range(2)]
    twice = colocated.colocated_python(lambda a: a * 2).specialize(out_specs_fn=lambda a: a)
    chained = jax.jit(lambda a: a + 1)(twice(twice(jax.jit(lambda a: a - 1)(x))))
    elsewhere = colocated.colocated_python(lambda a: a + 1)(jax.device_put(np.float32(0.5), other))
    counter = colocated.colocated_python_class(Counter)(np.array([100, 200, 300], dtype=np.int32))
    counted = [counter.add(x), counter.add(y)]
    nothing_in = colocated.colocated_python(lambda: jnp.arange(3)).specialize(devices=[device])()

    def fails(a):
        raise ValueError("not this one")

    try:
        np.asarray(colocated.colocated_python(fails)(x))
        raised = "nothing"
    except Exception as error:
        raised = "not this one" if "not this one" in str(error) else str(error)
    return {
        "found out": found_out,
        "chained": chained,
        "elsewhere": elsewhere,
        "counted": counted,
        "nothing in": nothing_in,
        "raised": raised,
    }
