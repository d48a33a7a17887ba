"""pathwaysutils, the client of Pathways on Cloud: reshards, cuts along mesh axes, arrays in storage, its elastic manager.

Plain local JAX serves little of this, so what is right is said by NumPy. pathwaysutils goes by the environment and changes JAX
when it is initialised, which is why this script has a process of its own.
"""

import datetime
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pathwaysutils
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from pathwaysutils import reshard
from pathwaysutils.elastic import manager
from pathwaysutils.experimental import concatenate_by_mesh_axis, split_by_mesh_axis
from pathwaysutils.experimental import reshard as by_request
from pathwaysutils.persistence import helper

ENVIRONMENT = {"ENABLE_PATHWAYS_PERSISTENCE": "1"}
VALUES = np.arange(64, dtype=np.float32).reshape(8, 8)
ALLOWED = datetime.timedelta(seconds=60)


def shards(array):
    return [np.asarray(shard.data) for shard in sorted(array.addressable_shards, key=lambda shard: shard.device.id)]


def moved(x, columns, everywhere):
    tree = reshard.reshard({"a": x, "number": 3.0, "key": jax.random.key(1)}, everywhere)
    parts = split_by_mesh_axis.split_by_mesh_axis(x, "x")
    given = x + 1
    by_plan = [by_request.reshard(x, columns, cache_resharding_plans=True) for _ in range(2)]
    donated = by_request.reshard(given, columns, donate=True)
    return {
        "reshard": [shards(tree["a"]), tree["number"], jax.random.key_data(tree["key"])],
        "over another": reshard.reshard_with_intermediate_sharding(x, x.sharding, columns),
        "by request": [shards(array) for array in (*by_plan, donated)],
        "donated": given.is_deleted(),
        "split": [shards(part) for part in parts],
        "together": concatenate_by_mesh_axis.concatenate_by_mesh_axis(parts, "x"),
    }


def stored(x, rows, columns, everywhere):
    arrays = {
        "rows": x,
        "half": jax.device_put(jnp.arange(16, dtype=jnp.bfloat16).reshape(8, 2), columns),
        "same": jax.device_put(np.arange(6, dtype=np.int32), everywhere),
        "scalar": jax.device_put(np.float32(5), everywhere),
    }
    wanted = {"rows": columns, "half": rows, "same": rows, "scalar": everywhere}
    with tempfile.TemporaryDirectory() as folder:
        helper.write_arrays(folder, list(arrays), list(arrays.values()), ALLOWED).result()
        described = [array.dtype for array in arrays.values()], [array.shape for array in arrays.values()]
        read, done = helper.read_arrays(folder, list(arrays), *described, list(wanted.values()), rows.mesh.devices, ALLOWED)
        done.result()
        _, done = helper.read_arrays(folder, ["none"], [x.dtype], [x.shape], [rows], rows.mesh.devices, ALLOWED)
        missing = str(done.exception())
        # Orbax goes the same way once pathwaysutils has told it to.
        checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False))
        state = {"x": x, "key": jax.device_put(jax.random.key(3), everywhere)}
        checkpointer.save(Path(folder) / "state", state)
        described = {
            name: ocp.ArrayRestoreArgs(sharding=sharding, global_shape=state[name].shape, dtype=state[name].dtype)
            for name, sharding in (("x", columns), ("key", everywhere))
        }
        back = checkpointer.restore(Path(folder) / "state", restore_args=described)
        chunks = sorted(path.name for path in (Path(folder) / "rows").iterdir())
    return {
        "read": [shards(array) for array in read],
        "computed from it": jax.jit(jnp.sum)(read[0]),
        "chunks": chunks,
        "missing": "TensorStore refused" in missing and "does not exist" in missing and " on host " in missing,
        "not a slice that is down": not manager.elastic.is_error_due_to_slice_down(done.exception()),
        "orbax": [shards(back["x"]), jax.random.key_data(back["key"])],
    }


def refused(rows):
    x, sentences = jax.device_put(VALUES, rows), []
    for request in (
        lambda: helper.write_arrays("gs://bucket", ["x"], [x], ALLOWED),
        lambda: jax.profiler.start_trace("gs://bucket/trace"),
    ):
        try:
            request()
        except jax.errors.JaxRuntimeError as error:
            sentences.append(str(error).split(";")[0])
    return sentences


def run():
    pathwaysutils.initialize()
    mesh = Mesh(np.array(jax.devices()), ("x",))
    rows, columns, everywhere = (NamedSharding(mesh, spec) for spec in (P("x"), P(None, "x"), P()))
    elastic = manager.Manager()

    @elastic.elastic_retry(poll_interval=0.1, timeout=60)
    def work():
        x = jax.device_put(VALUES, rows)
        return {"moved": moved(x, columns, everywhere), "stored": stored(x, rows, columns, everywhere), "refused": refused(rows)}

    return work() | {"slices": sorted(elastic.active_slice_indices)}


def expected():
    halves, turned = np.split(VALUES, 2), np.split(VALUES, 2, axis=1)
    half = jnp.arange(16, dtype=jnp.bfloat16).reshape(8, 2)
    return {
        "moved": {
            "reshard": [[VALUES, VALUES], np.float32(3), jax.random.key_data(jax.random.key(1))],
            "over another": VALUES,
            "by request": [turned, turned, [part + 1 for part in turned]],
            "donated": True,
            "split": [[part] for part in halves],
            "together": VALUES,
        },
        "stored": {
            "read": [turned, np.split(half, 2), np.split(np.arange(6, dtype=np.int32), 2), [np.float32(5)] * 2],
            "computed from it": VALUES.sum(),
            "chunks": [".zarray", "0.0", "1.0"],
            "missing": True,
            "not a slice that is down": True,
            "orbax": [turned, jax.random.key_data(jax.random.key(3))],
        },
        "refused": [
            "UNIMPLEMENTED: arrays are written to and read from a directory that all hosts have, not gs://bucket",
            "UNIMPLEMENTED: profiles are not taken through pathwaysutils on this cluster",
        ],
        "slices": [0],
    }


if __name__ == "__main__":
    print(run())
