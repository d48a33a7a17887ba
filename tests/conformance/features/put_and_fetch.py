"""pw.put and pw.fetch of a few MiB, on one device, cut and replicated; without a cluster they are JAX's own ways."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

WORDS = np.arange(2**20, dtype=np.uint32) * np.uint32(2654435761)
VALUES = {
    "float32": (WORDS.reshape(512, 2048) >> 8).astype(np.float32),
    "int32": WORDS.astype(np.int32).reshape(2, 1024, 512),
    "bfloat16": (WORDS.reshape(2048, 512) >> 24).astype(jnp.bfloat16),
    "small": np.arange(6.0, dtype=np.float32).reshape(2, 3),
}


def seen(array, value):
    """Too large to be told whole."""
    same = array.dtype == value.dtype and array.shape == value.shape and array.tobytes() == value.tobytes()
    return [type(array) is np.ndarray, same, str(array.dtype), hashlib.sha256(array.tobytes()).hexdigest()]


def shards(array):
    return [shard.data for shard in sorted(array.addressable_shards, key=lambda shard: shard.device.id)]


def run():
    devices = jax.devices()[:2]
    rows = NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))
    layouts = {
        "one": SingleDeviceSharding(devices[1]),
        "rows": rows,
        "columns": NamedSharding(rows.mesh, P(None, "x")),
        "replicated": NamedSharding(rows.mesh, P()),
    }
    found = {}
    for name, sharding in layouts.items():
        values = {key: value for key, value in VALUES.items() if name != "columns" or key != "small"}
        arrays = pw.put(values, sharding)
        fetched = pw.fetch(arrays)
        found[name] = {key: seen(fetched[key], value) for key, value in values.items()}
        found[f"{name}, lies"] = [array.sharding.is_equivalent_to(sharding, array.ndim) for array in arrays.values()]
        index = sharding.devices_indices_map(VALUES["int32"].shape)
        parts = [VALUES["int32"][index[device]] for device in sorted(index, key=lambda device: device.id)]
        found[f"{name}, shards"] = [
            seen(pw.fetch(part), value) for part, value in zip(shards(arrays["int32"]), parts, strict=True)
        ]
        computed = jax.jit(lambda x: x * 2 + 1)(arrays["int32"])
        found[f"{name}, goes on"] = seen(pw.fetch(computed), VALUES["int32"] * 2 + 1)
    mixed = pw.put((VALUES["float32"], {"a": VALUES["int32"], "b": 3}), (rows, layouts["one"]))
    found["tree"] = [seen(pw.fetch(mixed[0]), VALUES["float32"]), seen(pw.fetch(mixed[1]["a"]), VALUES["int32"]), mixed[1]["b"]]
    changed = VALUES["float32"].copy()
    array = pw.put(changed, rows)
    changed[:] = 0
    found["changed behind it"] = seen(pw.fetch(array), VALUES["float32"])
    return found
