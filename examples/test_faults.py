"""Fault tests of your own (`pytest examples/test_faults.py`): a step over two hosts, and what becomes of it when things fail."""

import pytest
from pathways.testing import CLIENT, CONTROLLER, Lines, end_script

pytestmark = pytest.mark.pathways_cluster(hosts=2)

# Adds the numbers of both hosts, over and over: 1 + 1 = 2, 2 + 2 = 4, 4 + 4 = 8 ...
STEPS = """
import sys, time
import jax, numpy as np
import pathways.errors
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
rows = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))
add = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "x"), mesh=rows.mesh, in_specs=P("x"), out_specs=P("x")))
x = jax.device_put(np.ones(2, np.float32), rows)
try:
    for step in range(int(sys.argv[1])):
        began = time.monotonic()
        x = add(x)
        print(int(np.asarray(x)[0]), time.monotonic() - began, flush=True)
        if len(sys.argv) > 2:
            input()
except jax.errors.JaxRuntimeError as error:
    found = pathways.errors.of(error)
    print(type(found).__name__, found.host, flush=True)
"""


def values(done):
    """The first word of every line that a script printed."""
    return [line.split()[0] for line in done.stdout.splitlines()]


@pytest.fixture
def stepping(pathways_cluster):
    """A script that has made its first step and makes the next when it is told to: (tell it, its lines)."""
    process = pathways_cluster.start("-c", STEPS, "20", "asks", stdin=True)
    lines = Lines(process)
    assert lines.next(60).startswith("2 ")

    def go_on():
        process.stdin.write("\n")
        process.stdin.flush()

    yield go_on, lines
    end_script(process)


def test_a_step_waits_for_an_executor_that_stands_still(pathways_cluster, stepping):
    go_on, lines = stepping
    epoch = pathways_cluster.epoch()
    with pathways_cluster.stop("a1"):
        go_on()
        assert lines.next(1.0) is None
    assert lines.next(60).startswith("4 ")
    assert pathways_cluster.epoch() == epoch


def test_a_killed_controller_that_is_started_again_is_a_pause(pathways_cluster, stepping):
    go_on, lines = stepping
    epoch = pathways_cluster.epoch()
    pathways_cluster.kill(what=CONTROLLER)
    go_on()
    pathways_cluster.revive()
    assert lines.next(60).startswith("4 ")
    assert pathways_cluster.epoch() == epoch


def test_a_killed_executor_is_named_and_the_next_run_works(pathways_cluster, stepping):
    go_on, lines = stepping
    pathways_cluster.kill("a1")
    go_on()
    kind, host = lines.next(60).split()
    assert (kind in ("SliceLostError", "BufferLostError"), host) == (True, "a1")
    pathways_cluster.whole()
    assert values(pathways_cluster.run("-c", STEPS, "3")) == ["2", "4", "8"]


def test_a_slow_link_makes_a_step_slow_and_nothing_else(pathways_cluster, stepping):
    go_on, lines = stepping
    with pathways_cluster.delay("a0", 0.3):
        go_on()
        value, seconds = lines.next(60).split()
    assert value == "4"
    assert float(seconds) >= 2 * 0.3  # to the host, and back


def test_numbers_are_right_after_a_link_was_cut(pathways_cluster):
    for dialler in ("a1", CLIENT):
        with pathways_cluster.drop(dialler):
            pass
        pathways_cluster.whole()
        assert values(pathways_cluster.run("-c", STEPS, "3")) == ["2", "4", "8"]


def test_messages_out_of_order_never_make_a_wrong_number(pathways_cluster, stepping):
    go_on, lines = stepping
    pathways_cluster.swap("a1")
    for step in range(2, 20):
        go_on()
        first = lines.next(60).split()[0]
        if not first.isdecimal():
            break  # the host noticed, and what it ran is lost
        assert int(first) == 2**step


def test_an_array_beyond_the_memory_of_a_host_is_refused(pathways_cluster):
    large = "import jax, numpy as np\ntry:\n    x = jax.device_put(np.ones(2**20, np.float32), jax.devices()[1])\n"
    large += "    np.asarray(x)\n    print('fits')\nexcept Exception as error:\n    print(type(error).__name__, error)\n"
    with pathways_cluster.starve("a1", "1M"):
        refused = pathways_cluster.run("-c", large)
    assert "fits" not in refused.stdout
    assert "1048576" in refused.stdout, refused.stdout + refused.stderr
    assert pathways_cluster.run("-c", large).stdout == "fits\n"
