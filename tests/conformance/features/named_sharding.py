"""Arrays spread over the hosts of an island: placement, shards, products, constraints, and a change of layout."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def shards_of(array):
    return [(shard.device.id, shard.index[0].start or 0, np.asarray(shard.data)) for shard in array.addressable_shards]


def run():
    mesh = Mesh(np.array(jax.devices()), ("x",))
    rows, columns, everywhere = (NamedSharding(mesh, spec) for spec in (P("x"), P(None, "x"), P()))
    left = jax.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), rows)
    right = jax.device_put(np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8), columns)
    product = jax.jit(jnp.matmul)(left, right)
    constrained = jax.jit(lambda a: jax.lax.with_sharding_constraint(a * 2, columns))(left)
    return {
        "shards": shards_of(left),
        "devices": sorted(device.id for device in left.sharding.device_set),
        "product": product,
        "sum": jax.jit(jnp.sum)(right),
        "constrained": constrained,
        "constrained as asked": constrained.sharding.is_equivalent_to(columns, 2),
        "gathered": jax.jit(lambda a: a + 1, out_shardings=everywhere)(left),
        "fully replicated": jax.jit(lambda a: a + 1, out_shardings=everywhere)(left).is_fully_replicated,
        "transposed": jax.jit(jnp.transpose, out_shardings=rows)(left),
        "callback made": jax.make_array_from_callback((8, 2), rows, lambda index: np.ones((8, 2), np.int32)[index] * 7),
        "from single arrays": jax.make_array_from_single_device_arrays(
            (2 * jax.device_count(),), rows, [jax.device_put(np.full(2, d.id, np.int32), d) for d in jax.devices()]
        ),
        "eager": left[1:5] @ right + 1,
    }
