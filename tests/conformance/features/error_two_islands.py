"""A program over two islands is refused at compile; the sentence names both islands. One island goes on working."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

ISLANDS = "all"


def run():
    devices = jax.devices()
    text = ""
    try:
        sharding = NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))
        np.asarray(jax.jit(lambda x: x * 2)(jax.device_put(np.arange(8, dtype=np.float32), sharding)))
    except jax.errors.JaxRuntimeError as error:
        text = str(error)
    first = [device for device in devices if device.slice_index == devices[0].slice_index]
    one = NamedSharding(Mesh(np.array(first), ("x",)), P("x"))
    return {
        "islands": len({device.slice_index for device in devices}),
        "refused": bool(text),
        "typed": "[pathways reason=PROGRAM_REFUSED" in text,
        "names the islands": all(f" {name}" in text for name in ("a", "b")) and "island" in text,
        "one island": jax.jit(jnp.sum)(jax.device_put(np.arange(8, dtype=np.float32), one)),
    }


def expected():
    return {
        "islands": 2,
        "refused": True,
        "typed": True,
        "names the islands": True,
        "one island": np.float32(28),
    }
