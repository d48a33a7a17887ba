"""Bulk data on one machine: `pw.put` and `pw.fetch` beside JAX's own ways, plain local JAX, and what a gRPC stream carries."""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from tests.benchmarks.claims import Claim, figure_claim, judged, number, ratio_claim
from tests.benchmarks.quiet import Quiet
from tests.benchmarks.ray_peer import ray_side
from tests.benchmarks.report import Section, Table
from tests.benchmarks.sides import Side, cpu_seconds, on, role_of, spawn
from tests.cluster import Cluster, local_environment, running_cluster

MIB, GIB = 1 << 20, 1 << 30
MOVES, FLOOR, RAY = (str(Path(__file__).with_name(name)) for name in ("bulk_moves.py", "bulk_floor.py", "ray_bulk.py"))
SIZES = (64 * MIB, GIB)
SAMPLES, QUICK_SAMPLES = 15, 2
BUDGET_S_PER_SAMPLE = 3.0
DEVICES = 4
# By what is done, in GiB/s.
BARS = {"put": 1.5, "fetch": 1.5, "move": 3.0}
CONTROLLER_MIB_MAX = 64.0
# Of the cluster; the last one goes from island to island.
OURS = (
    *((what, lies) for what in ("put", "fetch") for lies in ("one", "sharded", "replicated")),
    ("move", "one"),
    ("device_put", "one"),
    ("asarray", "one"),
)
LOCAL = (("device_put", "one"), ("asarray", "one"), ("device_put", "sharded"), ("asarray", "sharded"))
STREAMS = (("up", "one"), ("down", "one"))

TEXT = """Two islands of one host with two devices each, all on this machine. *put*: from the call of `pw.put` until the arrays
are ready; *fetch*: one call of `pw.fetch`; *move*: `pw.reshard` from a device of one island to one of the other; on one device,
cut over the two of an island, or whole on each. Rates are bytes of the array over time, also where it lies on both devices. A
size is moved once before it is measured, so memory is used again; *first* is that once. Beside them: JAX's `device_put` and
`np.asarray` on the cluster and in plain local JAX, and streams of 1 MiB chunks between two Python processes over gRPC. Every
value is compared."""


# What of ours is beside what of Ray's.
BESIDE_RAY = (("put", "put"), ("fetch", "get"), ("fetch", "copied"))
RAY_TEXT = """Bulk data of one process beside Ray's object store, in turns, on one machine. *put*: `pw.put` to one device until
the array is ready, and `ray.put`. *get*: `pw.fetch`, and `ray.get`, which maps the store's own memory and copies nothing;
*copied*: an array of the caller's own. An array of ours is on a device then and can be computed with; one of Ray's is in its
store. Every value is compared. Ray {version}, in an environment of its own."""


def run(quick: bool) -> Section:
    return run_sizes(SIZES[:1] if quick else SIZES, QUICK_SAMPLES if quick else SAMPLES)


def run_sizes(sizes: Sequence[int], samples: int) -> Section:
    quiet = Quiet(BUDGET_S_PER_SAMPLE * samples)
    rates: dict[tuple[str, str, str, int], list[float]] = defaultdict(list)
    first: dict[tuple[str, str, str, int], float] = {}
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(islands=2, hosts=1, devices=2))
        cluster.environment["PATHWAYS_ISLANDS"] = "all"
        sides = {"cluster": on(cluster, MOVES), "local JAX": _alone(MOVES, "local"), "gRPC": _alone(FLOOR)}
        for side in sides.values():
            stack.callback(side.close)
        controller = _controller(cluster)
        growth_mib: dict[int, list[float]] = defaultdict(list)
        for size in sizes:
            for name, whats in (("cluster", OURS), ("local JAX", LOCAL), ("gRPC", STREAMS)):
                for what, lies in whats:
                    key = name, what, lies, size
                    first[key] = size / sides[name].measure(what, 1, size=size, lies=lies)["seconds"] / GIB
                    is_put = (what, lies) == ("put", "one")
                    for _ in range(samples):
                        before = _most_from_now(controller) if is_put else 0
                        (answer,) = quiet.take([partial(_sample, sides[name], what, size, lies)])
                        rates[key].append(size / answer["seconds"] / GIB)
                        if is_put:
                            growth_mib[size].append((_most(controller) - before) / MIB)
                    print(f"{name} {what} {lies} {size // MIB} MiB", file=sys.stderr, flush=True)
    return section(rates, first, growth_mib, quiet)


def beside_ray(quick: bool) -> Section:
    return beside_ray_of(SIZES[:1] if quick else SIZES, QUICK_SAMPLES if quick else SAMPLES)


def beside_ray_of(sizes: Sequence[int], samples: int) -> Section:
    quiet = Quiet(BUDGET_S_PER_SAMPLE * samples)
    claims, rows = [], []
    with ExitStack() as stack:
        theirs = ray_side(RAY)
        stack.callback(theirs.close)
        ours = on(stack.enter_context(running_cluster(islands=1, hosts=1, devices=2)), MOVES)
        stack.callback(ours.close)
        for size in sizes:
            for what, of_ray in BESIDE_RAY:
                rates: list[list[float]] = [[], []]
                sides = [partial(_sample, ours, what, size, "one"), partial(_sample, theirs, of_ray, size, "one")]
                for side in sides:
                    side()
                for number_of in range(samples):
                    turn = 1 if number_of % 2 else -1
                    for mine, answer in zip(rates, quiet.take(sides[::turn])[::turn], strict=True):
                        mine.append(size / answer["seconds"] / GIB)
                claims.append(ratio_claim(f"{what}, {size // MIB} MiB: ratio to Ray's {of_ray}", *rates))
                rows.append((f"{what}, {of_ray}", f"{size // MIB} MiB", *(number(statistics.median(each)) for each in rates)))
                print(f"{what} {size // MIB} MiB beside Ray", file=sys.stderr, flush=True)
    table = Table(("ours, Ray's", "size", "cluster, GiB/s", "Ray, GiB/s"), rows)
    text = f"{RAY_TEXT.format(version=theirs.hello['ray'])}\n{quiet}"
    return Section("raybulk", "Bulk data beside Ray", text, judged(claims, quiet.loud), [table])


def _sample(side: Side, what: str, size: int, lies: str) -> dict[str, Any]:
    return side.measure(what, 1, size=size, lies=lies)


def _alone(script: str, *words: str) -> Side:
    process = spawn([sys.executable, script, *words], local_environment(DEVICES))
    return Side([process], lambda: {"client": cpu_seconds(process.pid)})


def _controller(cluster: Cluster) -> psutil.Process:
    return next(process for process in cluster.processes() if role_of(process) == "controller")


def _most_from_now(process: psutil.Process) -> int:
    """Resident bytes; `_most` counts from here (proc(5), clear_refs)."""
    Path(f"/proc/{process.pid}/clear_refs").write_text("5")
    return int(process.memory_info().rss)


def _most(process: psutil.Process) -> int:
    """The most resident bytes since."""
    (line,) = [line for line in Path(f"/proc/{process.pid}/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


def section(
    rates: dict[tuple[str, str, str, int], list[float]],
    first: dict[tuple[str, str, str, int], float],
    growth_mib: dict[int, list[float]],
    quiet: Quiet,
) -> Section:
    claims: list[Claim] = []
    rows = []
    for (name, what, lies, size), samples in rates.items():
        text = f"{what}, {lies}, {size // MIB} MiB"
        if what in BARS:
            claims.append(figure_claim(text, samples, "GiB/s", BARS[what]))
        figures = (number(statistics.median(samples)), number(min(samples)), number(max(samples)))
        rows.append((name, what, lies, f"{size // MIB} MiB", *figures, number(first[name, what, lies, size])))
    for size, samples in growth_mib.items():
        words = f"during a put, one, {size // MIB} MiB, the controller grew by"
        claims.append(figure_claim(words, samples, "MiB", CONTROLLER_MIB_MAX, at_least=False))
    table = Table(("", "", "lies", "size", "GiB/s, median", "least", "most", "first"), rows)
    kept = {" ".join(map(str, key)): samples for key, samples in rates.items()}
    text = f"{TEXT}\n{quiet}"
    return Section("bulk", "Bulk data on one machine", text, judged(claims, quiet.loud), [table], data={"rates": kept})
