"""A forked child that drops what it inherited takes nothing from its parent: programs and arrays still work there."""

import gc
import os
import warnings

import jax
import jax.numpy as jnp


def run():
    program = jax.jit(lambda x: x * 2 + 1)
    x = jnp.arange(4.0)
    before = program(x)
    before.block_until_ready()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX warns of threads; this child uses none
        child = os.fork()
    if child == 0:
        del program, x, before
        jax.clear_caches()
        gc.collect()
        os._exit(3)
    return {
        "child": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]),
        "before": before,
        "after": program(x),
        "new program": jax.jit(lambda x: x - 1)(x),
    }
