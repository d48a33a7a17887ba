"""Three training steps of a two-layer network in three stages on three slices: forward, backward, update. Prints every bit.

`local`: the same functions in plain JAX, with device_put between them. Else every stage has a slice, on islands a, b, a.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

LOCAL = sys.argv[1] == "local"
if not LOCAL:
    import pathways as pw

    pw.connect(islands="all")
BATCH, WIDTH, HIDDEN, CLASSES = 16, 12, 20, 5


def make_meshes():
    if LOCAL:
        devices = jax.devices()
        return [Mesh(np.array(pair), ("x",)) for pair in (devices[0:2], devices[2:4], devices[0:2])]
    device_set = pw.make_virtual_device_set()
    return [device_set.add_slice(devices=2, island=island).mesh(("x",)) for island in ("a", "b", "a")]


MESHES = make_meshes()


def on(stage, function, taken, given):
    """The function compiled for the mesh of a stage."""
    place = [NamedSharding(MESHES[stage], spec) for spec in taken]
    return jax.jit(
        function, in_shardings=tuple(place), out_shardings=jax.tree.map(lambda s: NamedSharding(MESHES[stage], s), given)
    ), place


def forward_math(w1, x):
    return jnp.tanh(x @ w1)


def backward_math(w2, x, h, y):
    def loss_of(w2, h):
        logits = h @ w2
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * y, axis=-1))

    loss, (g2, dh) = jax.value_and_grad(loss_of, argnums=(0, 1))(w2, h)
    return loss, x.T @ (dh * (1 - h * h)), g2


def update_math(w1, w2, g1, g2):
    return w1 - 0.1 * g1, w2 - 0.1 * g2


forward, forward_in = on(0, forward_math, (P(), P("x")), P("x"))
backward, backward_in = on(1, backward_math, (P(), P("x"), P("x"), P("x")), (P(), P(), P()))
update, update_in = on(2, update_math, (P(), P(), P(), P()), (P(), P("x")))


def program(w1, w2, x, y):
    h = forward(w1, x)
    loss, g1, g2 = backward(w2, x, h, y)
    w1, w2 = update(w1, w2, g1, g2)
    return loss, w1, w2


def plain(w1, w2, x, y):
    put = jax.device_put
    h = forward(put(w1, forward_in[0]), put(x, forward_in[1]))
    loss, g1, g2 = backward(*(put(value, to) for value, to in zip((w2, x, h, y), backward_in, strict=True)))
    w1, w2 = update(*(put(value, to) for value, to in zip((w1, w2, g1, g2), update_in, strict=True)))
    return loss, w1, w2


def main():
    generator = np.random.default_rng(0)
    w1 = generator.normal(size=(WIDTH, HIDDEN)).astype(np.float32)
    w2 = generator.normal(size=(HIDDEN, CLASSES)).astype(np.float32)
    step = plain
    if not LOCAL:
        step = pw.program(program)
    for _ in range(3):
        x = generator.normal(size=(BATCH, WIDTH)).astype(np.float32)
        y = np.eye(CLASSES, dtype=np.float32)[generator.integers(0, CLASSES, BATCH)]
        loss, w1, w2 = step(w1, w2, x, y)
        print(*(np.asarray(value).tobytes().hex() for value in (loss, w1, w2)))


main()
