"""Slices of two devices: the paper's three functions on slices of their own, jit over a slice's mesh, puts between slices."""

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def get_devices(count):
    return pw.make_virtual_device_set().add_slice(tpu_devices=count).tpus


def run():
    a = jax.pmap(lambda x: x * 2.0, devices=get_devices(2))
    b = jax.pmap(lambda x: x + 1.0, devices=get_devices(2))
    c = jax.pmap(lambda x: x / 2.0, devices=get_devices(2))
    x = a(np.array([1.0, 2.0], np.float32))
    with pw.make_virtual_device_set() as device_set:
        rows = NamedSharding(device_set.add_slice(mesh_shape=(2,)).mesh("rows"), P("rows"))
        columns = NamedSharding(device_set.add_slice(mesh_shape=(1, 2)).mesh(("rows", "columns")), P("rows", "columns"))
        there = NamedSharding(device_set.add_slice(devices=2).mesh("rows"), P("rows"))
        values = np.arange(48, dtype=np.float32).reshape(8, 6)
        here = jax.jit(lambda v: v * 2)(jax.device_put(values, rows))
        moved = jax.device_put(here, there)
        unread = jax.device_put(values, there)
        results = {
            "jit": here,
            "other shape": jax.jit(jnp.sum, out_shardings=NamedSharding(columns.mesh, P()))(jax.device_put(values, columns)),
            "moved": moved,
            "computed there": jax.jit(lambda v: v + 1)(moved),
            "eager": here[0] + 1,
        }
        results = jax.tree.map(np.asarray, results)
    text = ""
    try:
        np.asarray(unread)
    except jax.errors.JaxRuntimeError as error:
        text = str(error)
    return {
        "y": b(x),
        "z": a(c(x)),
        "devices": jax.device_count(),
        "released": "the slice was released" in text,
        **results,
    }


def expected():
    values = np.arange(48, dtype=np.float32).reshape(8, 6)
    return {
        "y": np.array([3, 5], np.float32),
        "z": np.array([2, 4], np.float32),
        "devices": 2,
        "released": True,
        "jit": values * 2,
        "other shape": np.float32(1128),
        "moved": values * 2,
        "computed there": values * 2 + 1,
        "eager": values[0] * 2 + 1,
    }
