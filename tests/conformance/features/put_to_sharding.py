"""device_put to and between shardings: from NumPy, from one device, rows to columns, spread to replicated and back."""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P


def run():
    mesh = Mesh(np.array(jax.devices()), ("x",))
    backwards = Mesh(np.array(jax.devices()[::-1]), ("x",))
    rows, columns, everywhere = (NamedSharding(mesh, spec) for spec in (P("x"), P(None, "x"), P()))
    values = np.arange(32, dtype=np.float32).reshape(8, 4)
    start = jax.device_put(values, rows)
    large = jax.device_put(np.arange(2**18, dtype=np.float32).reshape(512, 512), rows)
    results = {
        "from one device": jax.device_put(jax.device_put(values, jax.devices()[0]), rows),
        "to columns": jax.device_put(start, columns),
        "to everywhere": jax.device_put(start, everywhere),
        "from everywhere": jax.device_put(jax.device_put(values, everywhere), columns),
        "to one device": jax.device_put(start, SingleDeviceSharding(jax.devices()[-1])),
        "other order": jax.device_put(start, NamedSharding(backwards, P("x"))),
    }
    return {name: (array, len(array.sharding.device_set)) for name, array in results.items()} | {
        "large": jax.device_put(large, columns).sum(axis=0)
    }
