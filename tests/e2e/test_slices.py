"""Virtual slices on a real cluster: two clients that want the same devices, many threads, and what each of them is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cluster import Cluster
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster

_HOLDER = """
import sys, pathways as pw
with pw.connect():
    held = pw.make_virtual_device_set().add_slice(devices=2, exclusive=True)
    print("held", flush=True)
    sys.stdin.readline()
    held.release()
    print("released", flush=True)
    sys.stdin.readline()
"""

_OTHER = """
import logging, sys, pathways as pw
logging.basicConfig(stream=sys.stdout, format="log %(message)s")
def error_of(**wanted):
    try:
        device_set.add_slice(devices=2, **wanted)
    except pw.errors.PathwaysError as error:
        return f"{type(error).__name__} {error}"
with pw.connect():
    device_set = pw.make_virtual_device_set()
    print(error_of(), flush=True)
    print(error_of(wait=True, timeout=2), flush=True)
    with device_set.add_slice(devices=2, wait=True, timeout=60) as added:
        print("got", added.island, *added.hosts, flush=True)
"""

_THREADS = """
from concurrent.futures import ThreadPoolExecutor
import jax, numpy as np, pathways as pw
from jax.sharding import NamedSharding, PartitionSpec as P
def work(number):
    total = 0
    for _ in range(3):
        with pw.make_virtual_device_set() as device_set:
            rows = NamedSharding(device_set.add_slice(devices=2).mesh("rows"), P("rows"))
            total += float(jax.jit(lambda x: (x * 2).sum())(jax.device_put(np.full(8, number, np.float32), rows)))
    return total
with pw.connect():
    with ThreadPoolExecutor(8) as threads:
        print([int(total) for total in threads.map(work, range(8))])
"""


def _start(cluster: Cluster, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=cluster.environment
    )


def test_exclusive_devices_are_refused_named_waited_for_and_had(cluster: Cluster) -> None:
    holder = _start(cluster, _HOLDER)
    heard = Lines(holder)
    assert heard.next(60) == "held"
    other = _start(cluster, _OTHER)
    said = Lines(other)
    try:
        refused = said.next(60) or ""
        assert refused.startswith("ResourceExhaustedError virtual slice cannot be had now: ")
        assert "held exclusively by slice 1 of session " in refused
        assert (said.next(60) or "").startswith("log virtual slice waits for ")
        late = said.next(60) or ""
        assert late.startswith("TimedOutError ")
        assert "held exclusively by slice 1 of session " in late
        assert (said.next(60) or "").startswith("log virtual slice waits for ")
        assert holder.stdin is not None
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert heard.next(60) == "released"
        assert said.next(60) == "got a a0 a1"
        assert other.wait(30) == 0
    finally:
        for process in (holder, other):
            stop(process)


def test_eight_threads_add_and_release_slices_and_compute_right(cluster: Cluster) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _THREADS], env=cluster.environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([48 * number for number in range(8)])
