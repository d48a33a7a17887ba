"""Work that something happens to: `faults.py MODE`. Tells what it sees as JSON, one line each; what it waits for comes on stdin.

`loop`: gangs over all hosts until one fails, and then until one works again. `program`: the same with a traced program of three
nodes. `beside`: gangs without an end, and how many there were when a line comes. `raise` and `hang`: a callback that raises on
one host, or waits there for a line, before an all-reduce. `endless`: a loop that ends on one host and not on the other.
"""

import collections
import json
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pathways as pw
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

mesh = Mesh(np.array(jax.devices()), ("x",))
rows = NamedSharding(mesh, P("x"))
count = jax.device_count()
AHEAD = 8
# What each device has, so that a program can do something else on one of them.
ranks = np.arange(count, dtype=np.int32)


def tell(**what):
    print(json.dumps(what), flush=True)


def tell_failure(error):
    typed = pw.errors.of(error)
    tell(
        failed=type(typed).__name__, reason=typed.reason.name, host=typed.host, id=typed.id, retryable=typed.retryable,
        message=str(typed), at_s=time.time(),
    )  # fmt: skip


def on_each_host(function):
    """`function` of a device's own number, and then an all-reduce."""

    def part(rank):
        return jax.lax.psum(function(rank), "x")

    return jax.jit(jax.shard_map(part, mesh=mesh, in_specs=P("x"), out_specs=P("x"), check_vma=False))


def until_it_works(step):
    while True:
        try:
            return np.asarray(step()).tolist()
        except Exception:
            time.sleep(0.05)


def loop(step):
    """`step` makes everything anew, since arrays go with their island. Some gangs are always under way."""
    step()
    kept = jax.device_put(np.ones(count, np.float32), rows)
    tell(running=np.asarray(step()).tolist())
    under_way = collections.deque()
    try:
        while True:
            under_way.append(step())
            if len(under_way) == AHEAD:
                np.asarray(under_way.popleft())
    except Exception as error:
        tell_failure(error)
    tell(followed=sorted({id_of(value) for value in under_way} - {""}))
    tell(again=until_it_works(step), at_s=time.time())
    try:
        np.asarray(kept)
    except Exception as error:
        tell_failure(error)


def id_of(value):
    try:
        np.asarray(value)
    except Exception as error:
        return pw.errors.of(error).id
    return ""


def gang():
    return total(jax.device_put(np.ones(count, np.float32), rows))


def slowly(x):
    """Some tens of milliseconds, so that something is always on the devices; it adds nothing."""
    return 0 * jax.lax.fori_loop(0, 1 << 20, lambda _, y: jnp.cos(y), x)


# With its shardings, so that each call of it in a program is a node.
total = jax.jit(lambda x: x + x.sum() + slowly(x), in_shardings=rows, out_shardings=rows)


def beside():
    started = threading.Event()
    asked = []
    threading.Thread(target=lambda: [asked.append(line) for line in sys.stdin], daemon=True).start()
    steps = 0
    while True:
        np.asarray(gang())
        steps += 1
        if steps == 3 and not started.is_set():
            started.set()
            tell(running=steps)
        if asked:
            asked.pop()
            tell(steps=steps)


def traced():
    @pw.program(fuse=False)
    def three(x):
        return total(total(total(x)))

    loop(lambda: three(jax.device_put(np.ones(count, np.float32), rows)))


def with_callback(on_last_host):
    def called(rank):
        if rank[0] == count - 1:
            on_last_host()
        return rank

    program = on_each_host(lambda rank: jax.pure_callback(called, jax.ShapeDtypeStruct(rank.shape, rank.dtype), rank))
    try:
        tell(value=np.asarray(program(jax.device_put(ranks, rows))).tolist())
    except Exception as error:
        tell_failure(error)


def no_tide():
    raise ValueError("the tide table has no entry for Tuesday")


def hang():
    tell(running=0)
    sys.stdin.readline()


def endless():
    def turns(rank, last):
        """By twos from 0, so that it never meets an odd number."""
        return jax.lax.while_loop(lambda value: value != last[0], lambda value: value + 2, jnp.int32(0))[None] + 0 * rank

    part = jax.shard_map(
        lambda rank, last: jax.lax.psum(turns(rank, last), "x"), mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P("x"),
        check_vma=False,
    )  # fmt: skip
    program = jax.jit(part)
    own = jax.device_put(ranks, rows)
    last = np.full(count, 4, np.int32)
    for _ in range(2):
        program(own, jax.device_put(last, rows)).block_until_ready()
    last[-1] = 3
    value = program(own, jax.device_put(last, rows))
    tell(running=0)
    try:
        tell(value=np.asarray(value).tolist())
    except Exception as error:
        tell_failure(error)
    tell(again=until_it_works(gang))


modes = {
    "loop": lambda: loop(gang), "program": traced, "beside": beside, "raise": lambda: with_callback(no_tide),
    "hang": lambda: with_callback(hang), "endless": endless,
}  # fmt: skip
modes[sys.argv[1]]()
