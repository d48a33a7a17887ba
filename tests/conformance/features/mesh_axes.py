"""jaxlib's own way to cut arrays along an axis of their mesh and to put them together: within an island and over two of them."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jaxlib import _pathways

ISLANDS = "all"
VALUES = np.arange(64, dtype=np.float32).reshape(8, 8)
SPECS = {
    "grid": P("a", "b"),
    "turned": P("b", "a"),
    "rows": P("a"),
    "columns": P(None, "b"),
    "both": P(("a", "b")),
    "copies": P(),
}


def assembled(values, sharding):
    parts = sharding.addressable_devices_indices_map(values.shape).items()
    return jax.make_array_from_single_device_arrays(values.shape, sharding, [jax.device_put(values[i], d) for d, i in parts])


def cut_dimension(spec, axis):
    names = [(entry,) if isinstance(entry, str) else entry or () for entry in spec]
    return next((dimension for dimension, entry in enumerate(names) if axis in entry), -1)


def submeshes(mesh, axis, ends):
    position = mesh.axis_names.index(axis)
    pieces = np.split(mesh.devices, ends[:-1], axis=position)
    return [Mesh(piece, mesh.axis_names) for piece in pieces]


def split(array, axis, ends, donate=False):
    sharding = array.sharding
    wanted = [NamedSharding(mesh, sharding.spec) for mesh in submeshes(sharding.mesh, axis, ends)]
    position = sharding.mesh.axis_names.index(axis)
    dimension = cut_dimension(sharding.spec, axis)
    (parts,) = _pathways._split_by_mesh_axis([array], [dimension], sharding.mesh.axis_sizes, position, ends, [wanted], donate)
    return parts


def concatenate(parts, axis, ends, sharding):
    position, dimension = sharding.mesh.axis_names.index(axis), cut_dimension(sharding.spec, axis)
    (array,) = _pathways._concatenate_by_mesh_axis(
        [parts], [dimension], sharding.mesh.axis_sizes, position, ends, [sharding], True
    )
    return array


def reading(array):
    try:
        return np.asarray(array)
    except RuntimeError as error:
        return "deleted" if "deleted" in str(error) else str(error)


def shards(array):
    return [[shard.device.id, np.asarray(shard.data)] for shard in array.addressable_shards]


def run():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("a", "b"))
    found = {}
    for name, spec in SPECS.items():
        for axis in mesh.axis_names:
            whole = assembled(VALUES, NamedSharding(mesh, spec))
            parts = split(whole, axis, [1, 2])
            kept = [shards(part) for part in parts]
            back = concatenate(parts, axis, [1, 2], whole.sharding)
            found[f"{name} by {axis}"] = [kept, shards(back), shards(whole), whole.is_deleted(), [p.is_deleted() for p in parts]]

    line = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
    found["uneven"] = [shards(part) for part in split(assembled(VALUES, line), "x", [1, 4])]

    given = assembled(VALUES, NamedSharding(mesh, P("a")))
    near, far = split(given, "a", [1, 2], donate=True)
    doubled = jax.jit(lambda x: x * 2)(near)
    found["donated"] = [given.is_deleted(), doubled, jax.jit(jnp.sum)(far)]

    island = Mesh(np.array(jax.devices()[:2]).reshape(2, 1), ("a", "b"))
    shared = jax.jit(lambda x: x + 1)(jax.device_put(VALUES, NamedSharding(island, P("a"))))
    near, far = split(shared, "a", [1, 2])
    total = jax.jit(jnp.sum)(near)
    near.delete()
    found["a part is deleted"] = [total, reading(near), reading(far), reading(shared)]
    return found


def cut(spec, sizes):
    """Of each device, by position in the mesh of two by two: the part of VALUES that it has."""
    parts = []
    for a, b in np.ndindex(sizes):
        index = []
        for entry in (*spec, None, None)[:2]:
            names = (entry,) if isinstance(entry, str) else entry or ()
            at, count = 0, 1
            for name in names:
                at, count = at * sizes["ab".index(name)] + (a, b)["ab".index(name)], count * sizes["ab".index(name)]
            index.append(slice(8 // count * at, 8 // count * (at + 1)))
        parts.append([2 * a + b, VALUES[tuple(index)]])
    return parts


def expected():
    found = {}
    for name, spec in SPECS.items():
        whole = cut(spec, (2, 2))
        for axis in "ab":
            kept = [[part for part in whole if (part[0] // 2 if axis == "a" else part[0] % 2) == half] for half in (0, 1)]
            found[f"{name} by {axis}"] = [kept, whole, whole, False, [True, True]]
    rows = [[device, VALUES[2 * device : 2 * device + 2]] for device in range(4)]
    found["uneven"] = [rows[:1], rows[1:]]
    found["donated"] = [True, VALUES[:4] * 2, VALUES[4:].sum()]
    found["a part is deleted"] = [VALUES[:4].sum() + 32, "deleted", VALUES[4:] + 1, VALUES + 1]
    return found
