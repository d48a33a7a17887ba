"""An ordered callback of a program over both hosts that fails is told once, by the barrier, and by reading what depends on it.

Plain local JAX ends the process here, since the other device waits for the one whose callback failed; so the results are stated.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

WORDS = "the tide table has no entry for Tuesday"


def tells(action):
    try:
        action()
    except jax.errors.JaxRuntimeError as error:
        return WORDS in str(error)
    return None


def run():
    seen = []

    def note(value):
        if value == 1:
            raise ValueError(WORDS)
        seen.append(int(value))
        return np.int32(1)

    step = jax.jit(lambda x: x + io_callback(note, jax.ShapeDtypeStruct((), jnp.int32), x[0], ordered=True))
    x = jax.device_put(np.arange(8, dtype=np.int32), NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x")))
    one = step(x)
    before = tells(jax.effects_barrier)
    two = step(one)  # fails
    told = [tells(jax.effects_barrier), tells(jax.effects_barrier), tells(lambda: np.asarray(two))]
    # What depends on it is not computed, and no callback is given made-up operands.
    three = step(two)
    later = [tells(jax.effects_barrier), tells(lambda: np.asarray(three))]
    other = step(x + 5)
    jax.effects_barrier()
    return {"before": before, "told": told, "later": later, "seen": seen, "other": other}


def expected():
    return {
        "before": None,
        "told": [True, None, True],
        "later": [True, True],
        "seen": [0, 5],
        "other": np.arange(8, dtype=np.int32) + 6,
    }
