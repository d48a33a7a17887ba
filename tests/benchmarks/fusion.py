"""What fusing neighbouring nodes gives: a chain of 128 nodes, fused, node by node and as plain JAX, in interleaved rounds.

Prints nodes per second and CPU time per node (all processes together), and ratios with their intervals. Compares with the same
functions called one by one in plain JAX: one process for an island of one host, controllers over gloo for more.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.chains import NODES
from tests.benchmarks.sides import CHAINS, on, peer
from tests.benchmarks.statistics_of_pairs import ratio_of
from tests.cluster import end_on_sigterm, running_cluster


def main() -> int:
    parser = argparse.ArgumentParser(description="measures a chain of 128 nodes, fused, node by node and as plain JAX")
    parser.add_argument("--hosts", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--calls", type=int, default=40, help="calls of the chain per round")
    options = parser.parse_args()
    end_on_sigterm()
    rates: dict[str, list[float]] = defaultdict(list)
    cpu_us: dict[str, list[float]] = defaultdict(list)
    with running_cluster(islands=1, hosts=options.hosts, devices=1) as cluster:
        ours, theirs = on(cluster, CHAINS), peer(options.hosts, CHAINS)
        order = [("fused", ours), ("nodes", ours), ("plain", theirs)]
        for pair in range(options.pairs):
            for what, side in order if pair % 2 else reversed(order):
                answer = side.measure(what, options.calls, awaited=False)
                count = options.calls * NODES
                rates[what].append(count / answer["seconds"])
                cpu_us[what].append(sum(answer["cpu_us"].values()) * options.calls / count)
        ours.close()
        theirs.close()
    for what, _ in order:
        print(f"{what}: {statistics.median(rates[what]):.0f} nodes/s, {statistics.median(cpu_us[what]):.1f} us CPU per node")
    for what in ("plain", "nodes"):
        print(f"fused to {what}: {ratio_of(rates['fused'], rates[what])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
