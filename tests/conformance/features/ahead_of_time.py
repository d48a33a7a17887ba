"""lower, compile, call; cost and memory analysis, shardings and program text of what was compiled."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def run():
    mesh = Mesh(np.array(jax.devices()), ("x",))
    rows = NamedSharding(mesh, P("x"))
    lowered = jax.jit(lambda a, b: a @ b).lower(jnp.ones((8, 16)), jax.ShapeDtypeStruct((16, 4), jnp.float32))
    compiled = lowered.compile()
    spread = jax.jit(lambda a: a * 2).lower(jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=rows)).compile()
    wrong = "accepted"
    try:
        compiled(jnp.ones((8, 16)), jnp.ones((3, 3)))
    except TypeError:
        wrong = "refused"
    return {
        "called": compiled(jnp.ones((8, 16)), jnp.arange(64.0).reshape(16, 4)),
        "flops before compiling": lowered.cost_analysis()["flops"],
        "flops": compiled.cost_analysis()["flops"],
        "lowered text": "dot_general" in lowered.as_text(),
        "compiled text": "HloModule" in compiled.as_text(),
        "memory": compiled.memory_analysis().argument_size_in_bytes,
        "output tree": str(compiled.out_tree),
        "input sharded as asked": spread.input_shardings[0][0].is_equivalent_to(rows, 2),
        "output sharded": spread.output_shardings.is_equivalent_to(rows, 2),
        "spread": spread(jax.device_put(np.ones((8, 4), np.float32), rows)),
        "wrong shape": wrong,
    }
