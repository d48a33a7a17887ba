"""Hand-written collectives between the hosts of an island: sum, gather, rotate, scatter, all-to-all."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P


def run():
    count = jax.device_count()
    mesh = Mesh(np.array(jax.devices()), ("x",))
    values = np.arange(count * 4 * 3, dtype=np.float32).reshape(count * 4, 3)
    turn = [(i, (i + 1) % count) for i in range(count)]

    def mapped(function, outputs=None):
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P("x"), out_specs=P("x") if outputs is None else outputs))(
            values
        )

    return {
        "sum": mapped(lambda x: jax.lax.psum(x, "x"), P()),
        "mean": mapped(lambda x: jax.lax.pmean(x.sum(0), "x"), P()),
        "largest": mapped(lambda x: jax.lax.pmax(x, "x"), P()),
        "gather": mapped(lambda x: jax.lax.all_gather(x, "x")),
        "rotate": mapped(lambda x: jax.lax.ppermute(x, "x", turn)),
        "scatter": mapped(lambda x: jax.lax.psum_scatter(x, "x", tiled=True)),
        "all to all": mapped(lambda x: jax.lax.all_to_all(x, "x", 0, 0, tiled=True)),
        "index": mapped(lambda x: x * 0 + jax.lax.axis_index("x")),
        "gradient": jax.grad(
            lambda v: jnp.sum(jax.shard_map(lambda x: jax.lax.psum(x**2, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())(v))
        )(values),
    }
