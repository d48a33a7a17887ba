"""Programs that wait for values: `numbers` prints what they give, `endless` fails, `long` turns until it is told to stop.

`cancel` is told so by a line of its input, while another thread of it reads the result; `release` gives the slice of loops back;
`interrupt` cancels when Ctrl-C has ended its read.
"""

import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def plain(tree):
    return jax.tree.map(lambda x: x.tolist(), tree)


def read_while_another_thread_cancels(result):
    after = jax.jit(lambda x: x * 2)(result)
    told = threading.Thread(target=lambda: sys.stdin.readline() and pw.cancel({"result": result, "number": 1}))
    told.start()
    for name, array in (("result", result), ("after", after)):
        try:
            print(name, plain(array), flush=True)
        except Exception as error:
            print(name, type(pw.errors.of(error)).__name__, *str(error).splitlines(), flush=True)
    told.join()


def read_until_interrupted(result):
    try:
        print("reading", flush=True)
        print("result", plain(result), flush=True)
    except KeyboardInterrupt:
        pw.cancel(result)
    try:
        print("result", plain(result), flush=True)
    except Exception as error:
        print("after Ctrl-C", type(pw.errors.of(error)).__name__, flush=True)


def compiled(function, lies):
    return jax.jit(function, in_shardings=lies, out_shardings=lies)


def release_behind_loops(slices, home):
    """One that ends by itself, read after the release, and one that ends because it is cancelled."""
    own = slices.add_slice(devices=2)
    step = compiled(lambda x: x + 1, NamedSharding(own.mesh(("x",)), P("x")))

    def counting(turns):
        return pw.program(lambda x: home(pw.while_loop(lambda c: c[0] < turns, step, step(x), max_iterations=turns)))(
            np.zeros(2, np.float32)
        )

    finite, endless = counting(200), counting(10**6)
    own.release()
    print("released", plain(finite), flush=True)
    try:
        counting(3)
    except Exception as error:
        print("refused", type(pw.errors.of(error)).__name__, flush=True)
    sys.stdin.readline()
    pw.cancel(endless)
    try:
        print("endless", plain(endless), flush=True)
    except Exception as error:
        print("endless", type(pw.errors.of(error)).__name__, flush=True)
    sys.stdin.readline()


def main():
    slices = pw.make_virtual_device_set()
    rows = NamedSharding(slices.add_slice(devices=2).mesh(("x",)), P("x"))
    whole = NamedSharding(slices.add_slice(devices=2).mesh(("x",)), P())

    half, add = compiled(lambda x: x / 2, rows), compiled(lambda x: x + 1, rows)
    triple = compiled(lambda x: x * 3, whole)

    def shrink(x):
        return pw.while_loop(lambda c: jnp.max(c[1]) > 1, lambda c: (c[0] + 1, half(c[1])), (0, half(x)), max_iterations=20)

    def collatz(x):
        def body(c):
            count, value = c
            odd = value[0] % 2 == 1
            return count + 1, pw.cond(odd, lambda v: add(triple(v)), lambda v: half(v), value)

        return pw.while_loop(lambda c: c[1][0] > 1, body, (0, x), max_iterations=200)

    def positive(x):
        kept = compiled(lambda x: (jnp.sort(jnp.where(x > 0, x, jnp.inf)), jnp.sum(x > 0)), whole)(x)
        total = compiled(lambda x, n: jnp.sum(jnp.where(jnp.arange(len(x)) < n, x, 0)), whole)
        return pw.counted(lambda rows, count: (total(rows, count), total(jnp.ones_like(rows), len(rows))), *kept)

    if sys.argv[1] == "release":
        release_behind_loops(slices, compiled(lambda x: x * 2, rows))
        return

    if sys.argv[1] == "numbers":
        for function in (shrink, collatz):
            traced = pw.program(function)
            for start in (6.0, 7.0, 1.0):
                print(function.__name__, start, plain(traced(np.full(2, start, np.float32))), flush=True)
        traced = pw.program(positive)
        for count in (0, 1, 3, 4, 6):
            values = np.where(np.arange(6) < count, np.arange(6) + 1, -1).astype(np.float32)
            print("positive", count, plain(traced(values)), flush=True)
        return

    if sys.argv[1] == "endless":
        endless = pw.program(lambda x: (half(x), pw.while_loop(lambda c: c[0] > -1, add, half(x), max_iterations=5)))
        fine, failed = endless(np.zeros(2, np.float32))
        print("fine", plain(fine), flush=True)
        try:
            print(plain(failed))
        except Exception as error:
            print("failed:", " | ".join(str(error).splitlines()), flush=True)
        print("again", plain(pw.program(shrink)(np.full(2, 7, np.float32))), flush=True)
        return

    turns = int(sys.argv[2])
    long = pw.program(lambda x: pw.while_loop(lambda c: c[0] < turns, add, x, max_iterations=turns + 1))
    if sys.argv[1] == "cancel":
        other = half(np.full(2, 3, np.float32))
        read_while_another_thread_cancels(long(np.zeros(2, np.float32)))
        pw.cancel(other)  # which is there already
        print("other", plain(other), "again", plain(pw.program(shrink)(np.full(2, 7, np.float32))), flush=True)
        sys.stdin.readline()
        return

    if sys.argv[1] == "interrupt":
        read_until_interrupted(long(np.zeros(2, np.float32)))
        return

    began_s = time.monotonic()
    result = long(np.zeros(2, np.float32))
    print("running", flush=True)
    print("value", plain(result), f"{time.monotonic() - began_s:.3f}", flush=True)


with pw.connect():
    main()
