"""Memory on a real cluster: two hosts whose device has 64 MiB each; arrays are cut in two, so every one takes half on each.

Values are compared with what NumPy drew from the same seed, bit by bit.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from pathways_proto.v1 import cluster_pb2

from tests.cluster import Cluster, running_cluster
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster

MIB = 1 << 20
_MEMORY = ("--device-memory", "64MiB")

_START = """
import sys, jax, numpy as np, pathways as pw
from jax.sharding import NamedSharding, PartitionSpec as P
MIB = 1 << 20
def drawn(number, mib):
    return np.random.default_rng(number).random(mib * MIB // 4, np.float32)
def put(number, mib):
    return jax.device_put(drawn(number, mib), rows)
def exact(array, number, mib):
    return np.asarray(array).tobytes() == drawn(number, mib).tobytes()
def ended(array):
    try:
        array.block_until_ready()
        return "there"
    except jax.errors.JaxRuntimeError as error:
        return str(error).replace("\\n", " ")
def wait_for_word():
    sys.stdin.readline()
def say(*words):
    print(*words, flush=True)
"""
_CONNECT = """
with pw.connect():
    rows = NamedSharding(jax.make_mesh((2,), ("rows",)), P("rows"))
"""

# 160 MiB per device in arrays of 16: what does not fit lies in the stores of the hosts.
_FILL = """
    held = [put(number, 32) for number in range(10)]
    say("filled", *{ended(array) for array in held})
    say("exact", all(exact(array, number, 32) for number, array in enumerate(held)))
    doubled = [jax.jit(lambda x: x + x)(array) for array in held[:3]]
    say("computed", all(np.asarray(new).tobytes() == (drawn(n, 32) + drawn(n, 32)).tobytes() for n, new in enumerate(doubled)))
"""

# Somebody else fills the devices in between.
_OWNER = """
    mine = [put(number, 32) for number in range(3)]
    say("mine", *{ended(array) for array in mine})
    wait_for_word()
    say("exact", all(exact(array, number, 32) for number, array in enumerate(mine)))
"""
_NEIGHBOUR = """
    theirs = [put(100 + number, 32) for number in range(4)]
    say("theirs", *{ended(array) for array in theirs})
    say("exact", all(exact(array, 100 + number, 32) for number, array in enumerate(theirs)))
"""

# 192 MiB asked of each device, with every reference held; then half of it again.
_THREE_TIMES = """
    asked = [put(number, 32) for number in range(12)]
    ends = [ended(array) for array in asked]
    say("there", ends.count("there"))
    say("refused", next(end for end in ends if end != "there"))
    say("exact", all(exact(array, number, 32) for number, array in enumerate(asked) if ends[number] == "there"))
    del asked
    again = [put(50 + number, 32) for number in range(4)]
    say("again", *{ended(array) for array in again}, all(exact(array, 50 + n, 32) for n, array in enumerate(again)))
"""

_HALF = """
    half = put(int(sys.argv[1]), 56)
    say("half", ended(half))
    wait_for_word()
    more = put(int(sys.argv[1]) + 1, 32)
    say("more", ended(more))
    wait_for_word()
"""

# Each of 60 steps makes 16 MiB on each device, and the reader is much slower than what makes them.
_OUTRUN = """
    step = jax.jit(lambda x: x + 1)
    x = jax.device_put(np.zeros(8 * MIB, np.float32), rows)
    kept = []
    for number in range(60):
        x = step(x)
        kept.append(x)
        if len(kept) == 2:
            kept.pop(0)
    say("last", float(np.asarray(x)[0]), float(np.asarray(x)[-1]))
"""

# Two stages on an island each, 24 batches of 8 MiB between them, nothing awaited: the first is far faster than the last.
_PIPELINE = """
with pw.connect(islands="all"):
    first, last = jax.devices()
    made = jax.jit(lambda n: n + jax.numpy.zeros(2 * MIB, np.float32))
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 500, lambda _, y: y + 1, x).max())
    sums = [slow(jax.device_put(made(jax.device_put(np.float32(number), first)), last)) for number in range(24)]
    say("exact", [float(each) for each in sums] == [number + 500.0 for number in range(24)])
"""


@pytest.fixture(scope="module")
def spilling() -> Iterator[Cluster]:
    """With room for spilled arrays: a little in memory, the rest in files."""
    room = {"PATHWAYS_WORKER_SPILL_MEMORY": str(48 * MIB), "PATHWAYS_WORKER_SPILL_DISK": str(512 * MIB)}
    with running_cluster(islands=1, hosts=2, devices=1, more=_MEMORY, **room) as running:
        yield running


@pytest.fixture(scope="module")
def tight() -> Iterator[Cluster]:
    """Without room for spilled arrays."""
    room = {"PATHWAYS_WORKER_SPILL_MEMORY": "0", "PATHWAYS_WORKER_SPILL_DISK": "0"}
    with running_cluster(islands=1, hosts=2, devices=1, more=_MEMORY, **room) as running:
        yield running


def _start(cluster: Cluster, body: str, *words: str) -> tuple[subprocess.Popen[str], Lines]:
    connect = "" if "pw.connect(" in body else _CONNECT
    process = subprocess.Popen(
        [sys.executable, "-c", _START + connect + body, *words],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=cluster.environment,
    )  # fmt: skip
    return process, Lines(process)


def _tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _first_told(clients: list[tuple[subprocess.Popen[str], Lines]]) -> tuple[int, str]:
    """Who says something first, and what."""
    for _ in range(300):
        for index, (_, heard) in enumerate(clients):
            if (line := heard.next(0.1)) is not None:
                return index, line
    raise AssertionError("nobody was told anything: a silent wait")


def _run(cluster: Cluster, body: str, count: int) -> list[str]:
    """The lines that it prints."""
    process, lines = _start(cluster, body)
    try:
        said = [lines.next(90) or f"nothing{cluster.logs()}" for _ in range(count)]
        assert process.wait(30) == 0
    finally:
        stop(process)
    return said


def test_more_than_the_devices_hold_is_spilled_and_comes_back_bit_by_bit(spilling: Cluster) -> None:
    assert _run(spilling, _FILL, 3) == ["filled there", "exact True", "computed True"]


def test_what_a_neighbour_displaces_comes_back_bit_by_bit(spilling: Cluster) -> None:
    owner, heard = _start(spilling, _OWNER)
    try:
        assert heard.next(60) == "mine there"
        assert _run(spilling, _NEIGHBOUR, 2) == ["theirs there", "exact True"]
        _tell(owner)
        assert heard.next(60) == "exact True"
        assert owner.wait(30) == 0
    finally:
        stop(owner)


@pytest.mark.slow
def test_asking_for_three_times_the_memory_is_an_error_that_names_the_holder_and_puts_succeed_later(tight: Cluster) -> None:
    there, refused, exact, again = _run(tight, _THREE_TIMES, 4)
    assert there == "there 4"  # 16 MiB each on a device of 64
    assert "needs 16777216 bytes on host a" in refused
    assert "held by tenant default session" in refused
    assert "reason=RESOURCE_EXHAUSTED" in refused
    assert exact == "exact True"
    assert again == "again there True"


def test_of_two_that_hold_half_and_want_more_one_is_told_and_the_other_goes_on(tight: Cluster) -> None:
    clients = [_start(tight, _HALF, number) for number in ("1", "10")]
    try:
        for _, heard in clients:
            assert heard.next(60) == "half there"
        for process, _ in clients:
            _tell(process)
        loser, line = _first_told(clients)
        assert "reason=RESOURCE_EXHAUSTED" in line
        assert "needs 16777216 bytes on host a" in line
        assert line.count("tenant default session") == 2
        _tell(clients[loser][0])  # it goes, with what it holds
        assert clients[1 - loser][1].next(60) == "more there"
        _tell(clients[1 - loser][0])
        for process, _ in clients:
            assert process.wait(30) == 0
    finally:
        for process, _ in clients:
            stop(process)


def test_what_runs_ahead_of_its_reader_stays_within_the_memory(tight: Cluster) -> None:
    assert _run(tight, _OUTRUN, 1) == ["last 60.0 60.0"]


def _pipeline(cluster: Cluster) -> tuple[str, dict[str, int]]:
    """What the client says, and the most that each device held meanwhile, looked at again and again."""
    process, lines = _start(cluster, _PIPELINE)
    most: dict[str, int] = {}
    said: str | None = None
    try:
        for _ in range(1000):
            for session in cluster.ask("ListBuffers", cluster_pb2.ListBuffersRequest()).sessions:
                for device in session.devices:
                    most[device.host] = max(most.get(device.host, 0), device.live_bytes)
            if (said := lines.next(0.05)) is not None:
                break
        assert process.wait(30) == 0
    finally:
        stop(process)
    assert said is not None, f"nothing{cluster.logs()}"
    return said, most


@pytest.mark.slow
@pytest.mark.parametrize("stores", [False, True], ids=["no stores", "stores"])
def test_a_fast_stage_before_a_slow_one_keeps_within_the_memory_of_both(stores: bool) -> None:
    memory, disk = (48 * MIB, 512 * MIB) if stores else (0, 0)
    room = {"PATHWAYS_WORKER_SPILL_MEMORY": str(memory), "PATHWAYS_WORKER_SPILL_DISK": str(disk)}
    with running_cluster(islands=2, hosts=1, devices=1, more=_MEMORY, **room) as cluster:
        said, most = _pipeline(cluster)
    assert said == "exact True"
    print({host: size / MIB for host, size in most.items()})
    # 192 MiB pass through each device of 64.
    assert all(size <= 64 * MIB for size in most.values())
    assert max(most.values()) >= 32 * MIB, "it was to run ahead"
