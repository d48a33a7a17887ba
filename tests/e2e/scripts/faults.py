"""Work that something happens to: `faults.py MODE`. Tells what it sees as JSON, one line each; what it waits for comes on stdin.

`loop`: gangs over all hosts until one fails, and then until one works again. `program`: the same with a traced program of three
nodes. `beside`: gangs without an end, and how many there were when a line comes. `raise` and `hang`: a callback that raises on
one host, or waits there for a line, before an all-reduce. `endless`: a loop that ends on one host and not on the other. `memory`:
gangs, and when a line comes one that wants a GiB on each host, and gangs again. `compile`: a program that compiles for so many
seconds at least, and its value. `reading`: a large array, and when a line comes a read of it, and a gang. `uploading`: when a
line comes, a large array and a gang that takes it, and then gangs until one works. `bystander`: steps on the first device alone,
each from the one before, until a line comes, and how many there were.
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
    under_way, running = collections.deque(), False
    try:
        while True:
            under_way.append(step())
            if len(under_way) == AHEAD:
                value = np.asarray(under_way.popleft())
                if not running:  # from now on something is always under way
                    running = True
                    tell(running=value.tolist())
    except Exception as error:
        tell_failure(of_what_ran(error, under_way))
    tell(followed=sorted({id_of(value) for value in under_way} - {""}))
    tell(again=until_it_works(step), at_s=time.time())
    try:
        np.asarray(kept)
    except Exception as error:
        tell_failure(error)


def of_what_ran(error, under_way):
    """What was computed already is lost with its island, another failure than that of what ran there."""
    while isinstance(pw.errors.of(error), pw.errors.BufferLostError) and under_way:
        try:
            np.asarray(under_way.popleft())
        except Exception as later:
            error = later
    return error


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

    gang()  # connects the executors
    program = on_each_host(lambda rank: jax.pure_callback(called, jax.ShapeDtypeStruct(rank.shape, rank.dtype), rank))
    made = program(jax.device_put(ranks, rows))
    behind = jax.jit(lambda x: x + 1)(made)
    try:
        tell(value=np.asarray(made).tolist())
    except Exception as error:
        tell_failure(error)
        tell(followed=[id_of(behind)])


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


def memory():
    def last_of_many(x):
        """Through a GiB per row."""
        return jnp.broadcast_to(x[:, None], (count, 1 << 28)).cumsum(axis=1)[:, -1]

    large = jax.jit(lambda x: last_of_many(x) + x.sum(), in_shardings=rows, out_shardings=rows)
    tell(running=np.asarray(gang()).tolist())
    sys.stdin.readline()
    try:
        tell(value=np.asarray(large(jax.device_put(np.ones(count, np.float32), rows))).tolist())
    except Exception as error:
        tell_failure(error)
    tell(again=until_it_works(gang), at_s=time.time())


def compile_for(seconds):
    """Sorts by comparators of their own, which LLVM takes long for: twice as many until it lasts."""
    sorts, lasted_s = 8, 0.0
    tell(running=0)
    while lasted_s < seconds:
        sorts *= 2

        def sorted_often(x, sorts=sorts):
            for turn in range(sorts):
                x, _ = jax.lax.sort((x + turn, -x), num_keys=2)
            return x + x.sum()

        began_s = time.monotonic()
        value = np.asarray(jax.jit(sorted_often, out_shardings=rows)(jax.device_put(ranks, rows)))
        lasted_s = time.monotonic() - began_s
    added = ranks + sum(range(sorts))
    tell(lasted_s=lasted_s, value=value.tolist(), wanted=(added + added.sum()).tolist())


def reading():
    held = jax.jit(lambda: jnp.arange(count << 20, dtype=jnp.int32), out_shardings=rows)()
    held.block_until_ready()
    tell(running=np.asarray(gang()).tolist())
    sys.stdin.readline()
    try:
        tell(value=np.asarray(held)[-1].item())
    except Exception as error:
        tell_failure(error)
    tell(again=until_it_works(gang), at_s=time.time())


def uploading():
    def sent():
        """More than goes through the controller."""
        return jax.device_put(np.ones(count << 18, np.float32), rows)

    add = jax.jit(lambda x: x + x.sum(), in_shardings=rows, out_shardings=rows)
    add(sent()).block_until_ready()
    tell(running=np.asarray(gang()).tolist())
    sys.stdin.readline()
    made = add(sent())
    behind = add(made)
    try:
        made.block_until_ready()
        tell(value=np.asarray(made)[-1].item())
    except Exception as error:
        tell_failure(error)
        tell(followed=[id_of(behind)])
    tell(again=until_it_works(gang), at_s=time.time())


def bystander():
    """Nothing of it is on other devices, so whatever becomes of those, it takes every step once."""
    step = jax.jit(lambda x: x + 1 + slowly(x))
    value = jax.device_put(np.float32(0), jax.devices()[0])
    asked = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), asked.set()), daemon=True).start()
    steps = 0
    try:
        while not asked.is_set():
            for _ in range(3):
                value = step(value)
                steps += 1
            value.block_until_ready()
            if steps == 6:
                tell(running=steps)
        tell(value=float(np.asarray(value)), steps=steps)
    except Exception as error:
        tell_failure(error)


modes = {
    "loop": lambda: loop(gang), "program": traced, "beside": beside, "raise": lambda: with_callback(no_tide),
    "hang": lambda: with_callback(hang), "endless": endless, "reading": reading, "uploading": uploading, "bystander": bystander,
    "memory": memory, "compile": lambda: compile_for(float(sys.argv[2])),
}  # fmt: skip
modes[sys.argv[1]]()
