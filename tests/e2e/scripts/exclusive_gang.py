"""A gang on two devices that it has to itself: steps until one fails, says the error, asks for two devices again, steps again."""

import jax
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

with pw.connect():
    for steps in (1_000_000, 1):
        with pw.make_virtual_device_set() as devices:
            mesh = Mesh(np.array(devices.add_slice(2, exclusive=True, wait=True, timeout=120).devices), ("x",))
            total = jax.jit(lambda x: x + x.sum())
            try:
                for step in range(steps):
                    x = total(jax.device_put(np.ones(2, np.float32), NamedSharding(mesh, P("x"))))
                    if np.asarray(x).tolist() != [3.0, 3.0]:
                        raise SystemExit(f"wrong: {np.asarray(x).tolist()}")
                    if not step:
                        print("has both", flush=True)
            except jax.errors.JaxRuntimeError as error:
                print("failed:", str(error).replace("\n", " | "), flush=True)
