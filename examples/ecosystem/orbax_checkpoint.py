"""Orbax: sharded arrays are saved, and restored as they were and in another layout; a manager keeps the last two steps."""

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def run():
    mesh = Mesh(np.array(jax.devices()), ("x",))
    rows, everywhere = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    state = {
        "rows": jax.device_put(np.arange(64, dtype=np.float32).reshape(8, 8), rows),
        "same": jax.device_put(np.arange(5, dtype=np.int32), everywhere),
        "half": jnp.ones(3, jnp.bfloat16),
        "step": 7,
    }
    with tempfile.TemporaryDirectory() as folder, ocp.StandardCheckpointer() as checkpointer:
        path = Path(folder) / "state"
        checkpointer.save(path, state)
        checkpointer.wait_until_finished()
        back = checkpointer.restore(path, state)
        turned = dict(state, rows=jax.ShapeDtypeStruct((8, 8), np.float32, sharding=NamedSharding(mesh, P(None, "x"))))
        other = checkpointer.restore(path, turned)
        options = ocp.CheckpointManagerOptions(max_to_keep=2)
        with ocp.CheckpointManager(Path(folder) / "steps", options=options) as manager:
            for step in range(4):
                manager.save(step, args=ocp.args.StandardSave({"x": state["rows"] + step}))
            manager.wait_until_finished()
            kept = sorted(manager.all_steps())
            last = manager.restore(manager.latest_step(), args=ocp.args.StandardRestore({"x": state["rows"]}))
    return {
        "back": back,
        "other": other["rows"],
        "layouts": [str(back["rows"].sharding.spec), str(other["rows"].sharding.spec)],
        "kept": kept,
        "last": last,
    }


if __name__ == "__main__":
    print(run())
