"""Slices with a mesh shape on an island of 2x2 hosts: meshes in jax.jit and in a program, what does not fit, near and apart.

Prints one line of JSON, [name, value], for each; waits for a line of input before and after the program's last calls.
"""

import json
import sys

import jax
import numpy as np
import pathways as pw
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

CALLS = 5
device_set = pw.make_virtual_device_set()


def say(name, value):
    print(json.dumps([name, value]), flush=True)


def refusal(**wanted):
    try:
        device_set.add_slice(**wanted)
    except pw.errors.PathwaysError as error:
        return [type(error).__name__, str(error)]
    return ["", "it was given"]


def hosts_of(added, array):
    """Where each shard of the array lies: its start and the host of its device."""
    host = dict(zip(added.devices, added.hosts, strict=True))
    return sorted([[index.start or 0 for index in shard.index], host[shard.device]] for shard in array.addressable_shards)


x = np.arange(24, dtype=np.float32).reshape(4, 6)
whole = device_set.add_slice(mesh_shape=(2, 2))
mesh = whole.mesh(("rows", "columns"))
tiles, rows = NamedSharding(mesh, P("rows", "columns")), NamedSharding(mesh, P("rows"))
say("whole", [list(whole.mesh_shape), dict(mesh.shape), list(whole.hosts), whole.kind])

placed = jax.device_put(x, tiles)
say("tiles", hosts_of(whole, placed))
say("product", np.asarray(jax.jit(lambda x: x @ x.T, out_shardings=rows)(placed)).tolist())

sums = jax.jit(
    jax.shard_map(
        lambda tile: (jax.lax.psum(tile, "rows"), jax.lax.psum(tile, "columns")),
        mesh=mesh,
        in_specs=P("rows", "columns"),
        out_specs=(P(None, "columns"), P("rows", None)),
    )
)
say("sums", [np.asarray(part).tolist() for part in sums(placed)])

cube = device_set.add_slice(mesh_shape=(1, 2, 2)).mesh(("planes", "rows", "columns"))
three = NamedSharding(cube, P("planes", "rows", "columns"))
say(
    "cube",
    [dict(cube.shape), np.asarray(jax.jit(lambda x: x * 2 + 1)(jax.device_put(x.reshape(2, 4, 3)[:, :2, :2], three))).tolist()],
)

say("line", refusal(mesh_shape=(4, 1)))
say("row of four", refusal(mesh_shape=(4,)))
say("eight", refusal(mesh_shape=(2, 2, 2)))

first = device_set.add_slice(mesh_shape=(2, 1))
near = device_set.add_slice(mesh_shape=(2, 1), near=[first])
apart = device_set.add_slice(mesh_shape=(1, 2), apart=[first])
say("placed", [sorted(each.hosts) for each in (first, near, apart)])
say("contradiction", refusal(devices=1, near=[first], apart=[near]))
say("too many apart", refusal(devices=3, apart=[first]))

near_rows = NamedSharding(near.mesh(("rows", "columns")), P("rows"))
apart_columns = NamedSharding(apart.mesh(("rows", "columns")), P(None, "columns"))
tiled_twice = jax.jit(lambda x: x * 2, in_shardings=tiles, out_shardings=tiles)
double = jax.jit(lambda x: x * 2, in_shardings=near_rows, out_shardings=near_rows)
total = jax.jit(lambda x: x + x.sum(axis=1, keepdims=True), in_shardings=apart_columns, out_shardings=apart_columns)


@pw.program
def on_the_square(x):
    return tiled_twice(tiled_twice(x))


@pw.program
def on_both(x):
    return total(double(double(double(x))))


say("program on the square", np.asarray(on_the_square(placed)).tolist())
started = jax.device_put(x, near_rows)
say("program on both", np.asarray(on_both(started)).tolist())
sys.stdin.readline()
for _ in range(CALLS):
    result = on_both(started)
jax.block_until_ready(result)
say("ran", CALLS)
sys.stdin.readline()
