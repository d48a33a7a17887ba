"""What cannot be compiled is refused when it is compiled, names the culprit, and leaves the session usable."""

import jax
import jax.numpy as jnp
import numpy as np


def outcome(action):
    try:
        np.asarray(action())
    except Exception as error:
        return type(error).__name__, str(error)
    return "no error", ""


def run():
    unknown_call = jax.jit(lambda x: jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x))
    lowered = jax.jit(lambda x: x + 1).lower(jnp.ones(3))
    call_kind, call_text = outcome(lambda: unknown_call(jnp.ones(3)))
    option_kind, option_text = outcome(lambda: lowered.compile(compiler_options={"no_such_option": "1"})(jnp.ones(3)))
    return {
        "call": call_kind,
        "call named": "no_such_target" in call_text,
        "option": option_kind,
        "option named": "no_such_option" in option_text,
        "afterwards": jax.jit(lambda x: x * 3)(jnp.arange(3)),
    }
