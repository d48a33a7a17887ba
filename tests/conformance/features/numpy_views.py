"""NumPy views of any strides go in: reversed, broadcast, transposed, every other row; as arguments and to every placement."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def run():
    mesh = Mesh(np.array(jax.devices()), ("x",))
    rows, everywhere = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    values = np.arange(24, dtype=np.float32).reshape(4, 6)
    views = {
        "reversed": values[::-1],
        "columns reversed": values[:, ::-1],
        "every other, backwards": values[::-2, ::-3],
        "broadcast row": np.broadcast_to(values[0], (4, 6)),
        "broadcast scalar": np.broadcast_to(np.float32(3), (2, 2)),
        "transposed": values.T,
        "large": np.arange(250_000, dtype=np.float32).reshape(500, 500)[::-1],
    }
    double = jax.jit(lambda x: x * 2)
    results = {}
    for name, view in views.items():
        double(np.ascontiguousarray(view))  # the next call finds its program ready
        results[name] = {
            "array": jnp.asarray(view).sum(axis=1),
            "argument": double(view)[0],
            "to a device": jax.device_put(view, jax.devices()[1])[-1],
            "to rows": jax.device_put(view, rows)[0],
            "to everywhere": jax.device_put(view, everywhere)[:, 0],
            "callback": jax.make_array_from_callback(view.shape, rows, lambda index, view=view: view[index])[1],
        }
    return results
