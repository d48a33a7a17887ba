"""Our OpByOp beside Ray's: a gang of Ray actors, each one process of a gloo group, driven one step at a time.

Ray comes into an environment of its own, build/ray, and only when it is asked for; it is no part of this project's.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import psutil

from tests.benchmarks.claims import Claim, judged, number, ratio_claim
from tests.benchmarks.quiet import Quiet
from tests.benchmarks.report import Section, Table
from tests.benchmarks.sides import XLA_FLAGS, Side, cpu_seconds, on, spawn
from tests.cluster import ROOT, local_environment, running_cluster

SCRIPT = str(Path(__file__).with_name("ray_steps.py"))
ENVIRONMENT = ROOT / "build/ray"
BARS = {2: 6.0, 4: 4.0}
PAIRS, QUICK_PAIRS = 15, 3
BUDGET_S_PER_PAIR = 4.0
OUR_STEPS, RAY_STEPS = 1024, 200

TEXT = """Gang steps op by op, as in [gang steps](gangs_2_hosts.md). *Cluster*: stock JAX through the door, one call per step, not
awaited. *Ray*: as many actors as hosts, each one JAX process of a gloo group; the driver calls every actor for each step and
waits for them. The sides run in turns; values are checked. Ray {version}, in an environment of its own."""


def run(quick: bool) -> Section:
    pairs = QUICK_PAIRS if quick else PAIRS
    return section({hosts: measure(hosts, pairs) for hosts in BARS})


def python_of_ray() -> str:
    """The interpreter of Ray's environment, which is made when it is missing."""
    python = ENVIRONMENT / "bin/python"
    if not (ENVIRONMENT / ".installed").exists():
        print(f"installing Ray into {ENVIRONMENT}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True, timeout=120)
        words = [str(python), "-m", "pip", "install", "--quiet", "ray", f"jax=={jax.__version__}"]
        subprocess.run(words, check=True, timeout=600)
        (ENVIRONMENT / ".installed").touch()
    return str(python)


def ray_side(script: str, *words: str) -> Side:
    environment = local_environment(1) | {"XLA_FLAGS": XLA_FLAGS, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    driver = spawn([python_of_ray(), script, *words], environment | {"PATH": os.environ["PATH"]})

    def cpu() -> dict[str, float]:
        processes = [driver.pid, *(child.pid for child in psutil.Process(driver.pid).children(recursive=True))]
        return {"ray": sum(cpu_seconds(pid) for pid in processes)}

    return Side([driver], cpu)


Rates = tuple[list[float], list[float], list[float], str, Quiet]  # ours, Ray's, Ray's CPU per step, its version


def measure(hosts: int, pairs: int) -> Rates:
    ours_rates, ray_rates, cpus_us = [], [], []
    quiet = Quiet(BUDGET_S_PER_PAIR * pairs)
    theirs = ray_side(SCRIPT, str(hosts))
    try:
        with running_cluster(islands=1, hosts=hosts, devices=1) as cluster:
            ours = on(cluster)
            try:
                ours.measure("gang", 100)
                theirs.measure("gang", 20)
                for pair in range(pairs):
                    turn = 1 if pair % 2 else -1
                    samples = [partial(ours.measure, "gang", OUR_STEPS), partial(theirs.measure, "gang", RAY_STEPS)]
                    mine, rays = quiet.take(samples[::turn])[::turn]
                    ours_rates.append(mine["rate"])
                    ray_rates.append(rays["rate"])
                    cpus_us.append(rays["cpu_us"]["ray"])
                    print(f"{hosts} hosts: pair {pair + 1} of {pairs}", file=sys.stderr, flush=True)
            finally:
                ours.close()
    finally:
        theirs.close()
    return ours_rates, ray_rates, cpus_us, str(theirs.hello["ray"]), quiet


def section(rates: dict[int, Rates]) -> Section:
    claims: list[Claim] = []
    rows, words = [], []
    for hosts, (ours, theirs, cpus_us, _, quiet) in rates.items():
        bar = BARS[hosts]
        # A ratio far above one is judged by a fifth of its bar.
        claim = ratio_claim(f"OpByOp, {hosts} hosts: ratio to Ray op by op", ours, theirs, bar, width_max=bar / 5)
        claims += judged([claim], quiet.loud)
        words.append(f"{hosts} hosts: {quiet}")
        rows.append((str(hosts), *(number(statistics.median(each)) for each in (ours, theirs, cpus_us))))
    table = Table(("hosts", "cluster, steps/s", "Ray, steps/s", "Ray, CPU us per step"), rows)
    version = next(iter(rates.values()))[3]
    return Section("ray", "Gang steps beside Ray", "\n".join([TEXT.format(version=version), *words]), claims, [table])
