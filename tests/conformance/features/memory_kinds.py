"""Memory kinds are listed, arrays move between them, and values stay."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P


def run():
    device = jax.devices()[0]
    mesh = Mesh(np.array(jax.devices()), ("x",))
    values = np.arange(8, dtype=np.float32)
    pinned = jax.device_put(values, SingleDeviceSharding(device, memory_kind="pinned_host"))
    spread = jax.device_put(values, NamedSharding(mesh, P("x"), memory_kind="pinned_host"))
    back = jax.device_put(spread, NamedSharding(mesh, P("x"), memory_kind="device"))
    return {
        "kinds": sorted(memory.kind for memory in device.addressable_memories()),
        "default": device.default_memory().kind,
        "pinned": pinned,
        "pinned kind": pinned.sharding.memory_kind,
        "spread": spread,
        "back": jax.jit(jnp.cumsum)(back),
        "back kind": back.sharding.memory_kind,
    }
