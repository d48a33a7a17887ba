"""checkify finds errors of every kind in programs over both hosts: in loops, shards, under vmap and pmap."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def largest(x):
    checkify.check(jnp.all(x < 7), "largest is {m}", m=x.max())
    return x * 2


def summed(x):
    def step(total, value):
        checkify.check(value < 5, "value {v}", v=value)
        return total + value, value

    return jax.lax.scan(step, jnp.float32(0), x)


def shard(x):
    checkify.check(x[0] < 4, "shard of {v}", v=x[0])
    return x * 2


def alone(value):
    checkify.check(value < 1, "too large: {v}", v=value)
    return value * 2


FUNCTIONS = {
    "nothing": lambda x: jnp.sqrt(x).sum(),
    "nan": lambda x: jnp.log(x - 3),
    "division": lambda x: x / (x[5] - 5),
    "index": lambda x: x[x.sum().astype(jnp.int32)],
    "user": largest,
    "while": lambda x: jax.lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, c[1] / (c[0] - 2)), (0, x)),
    "scan": summed,
    "vmap": jax.vmap(alone),
}


def told(error):
    """What is wrong, without where: places differ between files and machines."""
    return [(error.get() or "nothing").partition(" at /")[0].splitlines()[0], raised(error.throw)]


def raised(action):
    try:
        action()
    except checkify.JaxRuntimeError as error:
        return type(error).__name__
    return "nothing"


def run():
    mesh = Mesh(np.array(jax.devices()), ("x",))
    x = jax.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("x")))
    shards = jax.shard_map(shard, mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    checked = {
        name: checkify.checkify(function, errors=checkify.all_checks)
        for name, function in {**FUNCTIONS, "shards": shards}.items()
    }
    # One program of all of them: compiling takes the time.
    results = jax.jit(lambda x: {name: function(x) for name, function in checked.items()})(x)
    found = {name: {"told": told(error), "out": out} for name, (error, out) in results.items()}
    error, out = checkify.checkify(jax.pmap(alone))(np.arange(len(jax.devices()), dtype=np.int32))
    found["pmap"] = {"told": told(error), "out": out}
    found["outside of functions"] = raised(lambda: checkify.check(x.sum() < 5, "sum {s}", s=x.sum()))
    found["without checkify"] = jax.jit(lambda x: (checkify.debug_check(x.sum() < 5, "never told"), x + 1)[1])(x)
    return found
