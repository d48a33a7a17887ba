"""pw.reshard between layouts, orders, devices, hosts and islands; without a cluster it is JAX's own device_put."""

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

ISLANDS = "all"


def on(devices, spec, shape=None, names=("x",)):
    return NamedSharding(Mesh(np.array(devices).reshape(shape or (len(devices),)), names), spec)


def shards(array):
    return [np.asarray(shard.data) for shard in sorted(array.addressable_shards, key=lambda shard: shard.device.id)]


def run():
    islands = {}
    for device in jax.devices():
        islands.setdefault(getattr(device, "slice_index", device.id // 2), []).append(device)
    near, far = (islands[index] for index in sorted(islands)[:2])
    values = np.arange(48, dtype=np.float32).reshape(8, 6)
    rows, columns, whole = (on(near, spec) for spec in (P("x"), P(None, "x"), P()))
    layouts = {
        "rows": rows,
        "columns": columns,
        "replicated": whole,
        "turned": on(near[::-1], P("x")),
        "one": SingleDeviceSharding(near[0]),
        "other": SingleDeviceSharding(near[1]),
        "2d": on(near, P("x", "y"), (2, 1), ("x", "y")),
        "far rows": on(far, P("x")),
        "far columns turned": on(far[::-1], P(None, "x")),
        "far replicated": on(far, P()),
        "far one": SingleDeviceSharding(far[1]),
    }
    found = {}
    for first, source in layouts.items():
        here = jax.jit(lambda x: x * 2)(jax.device_put(values, source))
        moved = pw.reshard([here] * len(layouts), list(layouts.values()))
        for second, array in zip(layouts, moved, strict=True):
            found[f"{first} to {second}"] = [shards(array), array.sharding.is_equivalent_to(layouts[second], 2)]

    here = jax.device_put(values, rows)
    found["as it is"] = pw.reshard(here, rows) is here
    found["still here"] = here
    given = jax.jit(lambda x: x + 1)(here)
    found["donated"] = pw.reshard(given, on(far, P(None, "x")), donate=True)
    # Local JAX copies where it cannot reuse the memory, and leaves the source alone.
    found["gone"] = given.is_deleted() or jax.devices()[0].client.runtime_type == "pjrt_ifrt"
    for first, second in (("replicated", "one"), ("replicated", "other"), ("one", "replicated"), ("rows", "columns")):
        given = jax.jit(lambda x: x + 1)(jax.device_put(values, layouts[first]))
        found[f"{first} to {second}, donated"] = shards(pw.reshard(given, layouts[second], donate=True))
    small = {
        "bool": np.array([True, False] * 4),
        "int8": np.arange(8, dtype=np.int8),
        "bfloat16": np.arange(8).astype(jnp.bfloat16),
        "complex64": np.arange(8).astype(np.complex64) * 1j,
        "deep": [np.arange(16, dtype=np.int32).reshape(8, 2), {"float16": np.arange(24, dtype=np.float16).reshape(8, 3, 1)}],
    }
    tree = jax.tree.map(lambda leaf: jax.device_put(leaf, rows), small)
    found["tree"] = pw.reshard(tree, on(far, P()))
    prefix = pw.reshard((tree, {"a": here, "b": np.arange(6)}), (on(far[::-1], P("x")), far[0]))
    found["prefix"] = prefix
    found["prefix on"] = [leaf.sharding.device_set == set(far) for leaf in jax.tree.leaves(prefix[0])]
    found["scalar"] = pw.reshard(jax.device_put(np.int32(7), whole), on(far, P()))
    found["empty"] = pw.reshard(jax.device_put(np.zeros((0, 4), np.float32), rows), on(far, P(None, "x")))
    large = jax.device_put(np.arange(2**18, dtype=np.float32).reshape(512, 512), rows)
    found["large"] = pw.reshard(large, on(far, P(None, "x")))
    found["large, near"] = pw.reshard(large, columns)
    found["goes on"] = jax.jit(lambda x: x @ x.T, out_shardings=on(far, P()))(found["large"])
    found["back"] = pw.reshard(found["large"], rows)
    key = jax.device_put(jax.random.split(jax.random.key(3), 4), rows)
    found["keys"] = jax.random.key_data(pw.reshard(key, on(far, P())))
    try:
        pw.reshard(jax.device_put(np.arange(7), whole), rows)
    except ValueError as error:
        found["uneven"] = "divisible by 2" in str(error)
    return found
