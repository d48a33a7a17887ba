"""Trains for a long time beside a client that comes and goes every minute; no process of ours may grow.

Samples the resident memory of controller, door, daemons and executors; the first fifth (at least a minute) is warm-up. The
bar is on the least-squares slope of controller, door and daemons: less than 1 MiB in 10 minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.sides import role_of
from tests.cluster import ROOT, Cluster, end_on_sigterm, running_cluster

TRAINING = str(ROOT / "examples/train_lm.py")
VISITOR = str(ROOT / "tests/e2e/scripts/gangs.py")
SAMPLE_S, VISIT_S = 5.0, 60.0
SLOPE_MAX_MIB = 1.0
JUDGED = ("controller", "door", "daemon")

Samples = dict[str, list[tuple[float, float]]]


def sample(processes: list[psutil.Process], samples: Samples, now_s: float) -> None:
    for process in processes:
        try:
            role, memory_mib = role_of(process), process.memory_info().rss / 2**20
        except psutil.NoSuchProcess:
            continue
        samples[f"{role} {process.pid}"].append((now_s, memory_mib))


def slope_mib(points: list[tuple[float, float]], warm_up_s: float) -> float | None:
    """MiB per 10 minutes by least squares; None when there are too few samples after the warm-up."""
    times, memory = np.array([point for point in points if point[0] >= warm_up_s]).reshape(-1, 2).T
    return float(np.polyfit(times, memory, 1)[0] * 600) if len(times) >= 5 else None


def visit(cluster: Cluster, number: int) -> None:
    """A second client connects, computes, checks its value and leaves."""
    done = cluster.run(VISITOR, "200", str(number))
    if f"result [{number + 200.0}, {number + 200.0}]" not in done.stdout:
        raise SystemExit(f"visit {number} got {done.stdout!r}{done.stderr[-2000:]}")


def soak(cluster: Cluster, minutes: float) -> Samples:
    samples: Samples = defaultdict(list)
    command = cluster.command(TRAINING, "--steps", "100000000", "--evaluate-every", "500")
    training = subprocess.Popen(command, env=cluster.environment, stdout=subprocess.DEVNULL)
    started_s = next_visit_s = time.monotonic()
    visits = 0
    try:
        while (now_s := time.monotonic()) - started_s < 60 * minutes:
            if training.poll() is not None:
                raise SystemExit(f"the training script ended with {training.returncode}")
            client = psutil.Process(training.pid)
            sample([*cluster.processes(), *client.children(recursive=True)], samples, now_s - started_s)
            if now_s >= next_visit_s:
                visit(cluster, visits)
                visits, next_visit_s = visits + 1, next_visit_s + VISIT_S
            time.sleep(SAMPLE_S)
    finally:
        training.terminate()
        training.wait(30)
    print(f"{visits} visits of a second client")
    return samples


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    options = parser.parse_args()
    end_on_sigterm()
    with running_cluster(islands=1, hosts=2, devices=1) as cluster:
        samples = soak(cluster, options.minutes)
    warm_up_s = max(60.0, 60 * options.minutes / 5)
    grew = []
    print(f"{'process':24} {'first MiB':>10} {'last MiB':>10} {'MiB per 10 minutes':>20}")
    for name, points in sorted(samples.items()):
        slope = slope_mib(points, warm_up_s)
        if slope is None:
            continue
        print(f"{name:24} {points[0][1]:10.1f} {points[-1][1]:10.1f} {slope:20.2f}")
        if name.split()[0] in JUDGED and slope >= SLOPE_MAX_MIB:
            grew.append(name)
    print(
        f"grew by {SLOPE_MAX_MIB} MiB per 10 minutes or more: {', '.join(grew) or 'none'}; nothing was left after `pathways down`"
    )
    return 1 if grew else 0


if __name__ == "__main__":
    raise SystemExit(main())
