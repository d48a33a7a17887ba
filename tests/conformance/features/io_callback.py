"""io_callback: ordered side effects happen in the client, once each and in program order."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback


def run():
    journal = []

    def note(value):
        journal.append(int(value))
        return np.int32(len(journal))

    @jax.jit
    def program(x):
        counts = [io_callback(note, jax.ShapeDtypeStruct((), jnp.int32), x + i, ordered=True) for i in range(3)]
        return jnp.stack(counts)

    results = [program(jnp.int32(10 * turn)) for turn in range(3)]
    jax.effects_barrier()
    return {"counts": results, "journal": journal}
