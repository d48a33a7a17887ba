"""What one execution costs the controller, and how that grows with the hosts; and what dispatching all stages at once is worth.

The hosts only acknowledge (many_hosts.py), so whatever takes time or CPU is dispatch. Transports are measured in turn, block by
block, on clusters that all run at the same time. `python tests/benchmarks/fan_out.py [--tls] [--stages]` prints the figures as
JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pathways_proto.v1 import programs_pb2

from tests.benchmarks.many_hosts import Client, Running, acknowledged, client_of, cluster_of
from tests.cluster import end_on_sigterm, running_cluster
from tests.unit.executor.driving import lower

if TYPE_CHECKING:
    from tests.benchmarks.report import Section

NODES = 128
HOSTS = (2, 4, 16, 64, 256)
OUTSTANDING = (1, 8)
# Runs in a block: some tenths of a second each.
BLOCK = {2: 150, 4: 150, 16: 80, 64: 30, 256: 10}
STAGES = (1, 2, 4, 8, 16, 32, 64)
REAL_STAGES = (1, 2, 3, 4)
DISPATCHES = {"parallel": programs_pb2.DISPATCH_PARALLEL, "sequential": programs_pb2.DISPATCH_SEQUENTIAL}
# The controller's CPU per execution at two hosts, and per host of a slope from there to 256.
TWO_HOSTS_MAX_MS = 1.0
SLOPE_MAX_US = {"grpc": 120.0, "framed": 30.0}

Variant = tuple[str, bool]


def name_of(variant: Variant) -> str:
    """A transport, with or without TLS."""
    return f"{variant[0]}, TLS" if variant[1] else variant[0]


async def costs(hosts: int, variants: Sequence[Variant], rounds: int) -> dict[str, dict[str, list[float]]]:
    """Per transport and number of outstanding runs, the controller's CPU per run in milliseconds, one value per round."""
    found: dict[str, dict[str, list[float]]] = {name_of(each): {str(depth): [] for depth in OUTSTANDING} for each in variants}
    async with AsyncExitStack() as stack:
        sides: list[tuple[str, Running, Client, int, int]] = []
        for variant in variants:
            running = stack.enter_context(cluster_of([f"a/a{number}" for number in range(hosts)], *variant))
            client = await stack.enter_async_context(client_of(running))
            stage = await client.stage(range(hosts), acknowledged(hosts))
            program, argument = await client.chain([stage], NODES), client.make(range(hosts))
            await client.runs(program, argument, BLOCK[hosts], 1)
            sides.append((name_of(variant), running, client, program, argument))
        for _ in range(rounds):
            for name, running, client, program, argument in sides:
                for depth in OUTSTANDING:
                    before_ns = running.cpu_ns()
                    await client.runs(program, argument, BLOCK[hosts], depth)
                    found[name][str(depth)].append((running.cpu_ns() - before_ns) / 1e6 / BLOCK[hosts])
    return found


def slopes(by_hosts: dict[int, list[float]]) -> list[float]:
    """Per round, the slope in milliseconds per host of a straight line through the values at all numbers of hosts."""
    numbers = list(by_hosts)
    rounds = zip(*by_hosts.values(), strict=True)
    return [float(np.polyfit(numbers, values, 1)[0]) for values in rounds]


async def _stages(
    client: Client, stages: Sequence[int], modules: Sequence[bytes], rounds: int, expected: bool
) -> dict[str, dict[str, list[float]]]:
    """Per number of stages and way of dispatch, milliseconds per run with the result read, one value per round."""
    found: dict[str, dict[str, list[float]]] = {}
    computations = [await client.stage([device], module) for device, module in enumerate(modules)]
    argument = client.make([0])
    for count in stages:
        programs = {name: await client.chain(computations[:count], count, way) for name, way in DISPATCHES.items()}
        times: dict[str, list[float]] = {name: [] for name in DISPATCHES}
        block = max(8, 128 // count)
        for number in range(rounds + 1):
            for name, program in programs.items():
                began_s = time.perf_counter()
                for _ in range(block):
                    value = float(np.frombuffer(await client.run(program, argument), np.float32)[0])
                    assert value == (count if expected else 0), f"{count} stages made {value}"
                if number:  # the first block loads plans
                    times[name].append(1e3 * (time.perf_counter() - began_s) / block)
        found[str(count)] = times
    return found


async def stages_that_acknowledge(rounds: int) -> dict[str, dict[str, list[float]]]:
    """Every stage on a host and an island of its own."""
    count = max(STAGES)
    with cluster_of([f"i{number}/h{number}" for number in range(count)]) as running:
        async with client_of(running) as client:
            return await _stages(client, STAGES, [acknowledged(1)] * count, rounds, expected=False)


def stages_that_compute(rounds: int) -> dict[str, dict[str, list[float]]]:
    """The same on real executors: every stage adds one."""
    count = max(REAL_STAGES)
    module = lower(lambda x: x + 1, np.zeros(1, np.float32))

    async def measure(running: Running) -> dict[str, dict[str, list[float]]]:
        async with client_of(running) as client:
            return await _stages(client, REAL_STAGES, [module] * count, rounds, expected=True)

    with running_cluster(islands=count, hosts=1) as cluster:
        return uvloop.run(measure(Running(cluster.address, cluster.state, cluster.processes()[0].pid)))


def measure(rounds: int, hosts: Sequence[int], variants: Sequence[Variant]) -> dict[str, Any]:
    """All figures, as plain data."""
    by_hosts = {number: uvloop.run(costs(number, variants, rounds)) for number in hosts}
    found: dict[str, Any] = {"cpu_ms": {}, "slope_ms": {}}
    for variant in map(name_of, variants):
        for depth in map(str, OUTSTANDING):
            key = f"{variant}, {depth} outstanding"
            values = {number: by_hosts[number][variant][depth] for number in hosts}
            found["cpu_ms"][key] = {str(number): samples for number, samples in values.items()}
            found["slope_ms"][key] = slopes(values) if len(values) > 1 else []
    return found


def run(quick: bool) -> Section:
    """The section of the report."""
    from tests.benchmarks.claims import figure_claim, number
    from tests.benchmarks.report import Plot, Section, Series, Table

    rounds = 3 if quick else 15
    data = measure(rounds, HOSTS[:3] if quick else HOSTS, [("framed", False), ("grpc", False)])
    data["stages_acknowledging_ms"] = uvloop.run(stages_that_acknowledge(rounds))
    data["stages_computing_ms"] = stages_that_compute(rounds)
    claims = [
        figure_claim(f"CPU of the controller per execution of {NODES} nodes on 2 hosts, {key}", values["2"], "ms",
                     TWO_HOSTS_MAX_MS, at_least=False)
        for key, values in data["cpu_ms"].items()
    ]  # fmt: skip
    claims += [
        figure_claim(f"CPU of the controller per execution and host, {key}", [1e3 * value for value in values], "us",
                     SLOPE_MAX_US[key.partition(",")[0]], at_least=False)
        for key, values in data["slope_ms"].items()
    ]  # fmt: skip
    points = {key: [_point(int(at), samples) for at, samples in values.items()] for key, values in data["cpu_ms"].items()}
    rows = [(key, *(number(float(np.median(samples))) for samples in values.values())) for key, values in data["cpu_ms"].items()]
    numbers = list(next(iter(data["cpu_ms"].values())))
    kinds = {"acknowledging": data["stages_acknowledging_ms"], "computing": data["stages_computing_ms"]}
    stages = [
        Series(f"{way}, {kind}", [_point(int(count), times[way]) for count, times in found.items()])
        for kind, found in kinds.items()
        for way in DISPATCHES
    ]
    ratios = [(kind, count, *_compared(times)) for kind, found in kinds.items() for count, times in found.items()]
    return Section(
        "fanout",
        "Controller cost per execution and host",
        f"A chain of {NODES} nodes, every node a gang of all hosts; each run's result is read. The hosts only acknowledge, over "
        "the worker's own links; CPU is that of all threads of the controller. Transports are measured in turn, block by block. "
        "Below: S stages on S hosts, one island each, all hosts told at once (parallel) or one after the other (sequential). In "
        "sequential dispatch a host that knows of the run hears of every later node, so its messages grow with the square of S.",
        claims,
        [
            Table(("CPU in ms per execution", *(f"{at} hosts" for at in numbers)), rows),
            Table(("hosts", "stages", "parallel ms", "sequential ms", "sequential over parallel"), ratios),
        ],
        [
            Plot("fanout", "CPU of the controller per execution", "hosts", "ms", [Series(*pair) for pair in points.items()],
                 log_x=True, log_y=True),
            Plot("stages", "One run of S stages on S hosts", "stages", "ms", stages, log_x=True, log_y=True),
        ],
        data=data,
    )  # fmt: skip


def _point(at: float, samples: Sequence[float]) -> tuple[float, float, float, float]:
    from tests.benchmarks.statistics_of_pairs import interval_of

    found = interval_of(samples)
    return at, found.median, found.low, found.high


def _compared(times: dict[str, list[float]]) -> tuple[str, str, str]:
    """Medians of both ways, and how many times as long the second takes."""
    from tests.benchmarks.statistics_of_pairs import interval_of, ratio_of

    parallel, sequential = (interval_of(times[way]).median for way in DISPATCHES)
    ratio = ratio_of(times["sequential"], times["parallel"])
    return f"{parallel:.2f}", f"{sequential:.2f}", f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--hosts", default=",".join(map(str, HOSTS)))
    parser.add_argument("--tls", action="store_true", help="with TLS as well")
    parser.add_argument("--stages", action="store_true", help="only the stages")
    options = parser.parse_args()
    end_on_sigterm()
    if options.stages:
        found = {"acknowledging": asyncio.run(stages_that_acknowledge(options.rounds))}
        found["computing"] = stages_that_compute(options.rounds)
        print(json.dumps(found))
        return
    variants = [(transport, tls) for transport in ("framed", "grpc") for tls in ((False, True) if options.tls else (False,))]
    print(json.dumps(measure(options.rounds, [int(each) for each in options.hosts.split(",")], variants)))


if __name__ == "__main__":
    main()
