"""Whether emulated device time is what it says: how long a step asked for so long is busy, and what it costs the host."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.benchmarks.claims import figure_claim, number
from tests.benchmarks.emulator import device_time
from tests.benchmarks.report import Plot, Section, Series, Table
from tests.cluster import local_environment

WANTED_US = (100, 330, 1000, 2300)
ROUNDS, QUICK_ROUNDS, STEPS = 15, 5, 40

TEXT = """An XLA FFI call that sleeps stands for the device: accelerators do not run on the host's cores. The timer slack of the
thread is 1 ns. A heavy branch that is never taken makes XLA enqueue the step; without it, it would run inside the call that
dispatches it. Busy time runs from a start marker to an end marker inside the executable. *Calibrated* is what has to be asked
for so that a step is busy as long as wanted. One process of plain JAX, one device."""


def run(quick: bool) -> Section:
    return run_rounds(QUICK_ROUNDS if quick else ROUNDS)


def run_rounds(rounds: int, wanted_us: tuple[int, ...] = WANTED_US, steps: int = STEPS) -> Section:
    """In a process of its own: the emulator stays loaded."""
    words = [sys.executable, __file__, str(device_time.library()), str(rounds), str(steps), *map(str, wanted_us)]
    done = subprocess.run(words, env=local_environment(1), capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"the emulator's own benchmark failed:\n{done.stderr[-3000:]}")
    return section(json.loads(done.stdout))


def section(measured: list[dict[str, Any]]) -> Section:
    rows, claims = [], []
    for each in measured:
        figures = [
            statistics.median(each[name]) for name in ("busy_us", "asked_us", "calibrated_us", "call_us", "enqueue_us", "cpu_us")
        ]
        rows.append((str(each["wanted_us"]), *map(number, figures)))
        what = f"a step asked to take {each['wanted_us']} us, once calibrated"
        claims.append(figure_claim(what, each["calibrated_us"], "us"))
    head = ("wanted, us", "busy if asked for that", "calibrated: asked", "busy then", "call and wait", "enqueue", "CPU")
    points = [(float(each["wanted_us"]), *(3 * (statistics.median(each["busy_us"]),))) for each in measured]
    ideal = [(float(each["wanted_us"]), *(3 * (float(each["wanted_us"]),))) for each in measured]
    plot = Plot("emulator", "Emulated device time", "asked, us", "busy, us", [Series("measured", points), Series("ideal", ideal)])
    return Section("emulator", "Emulated device time", TEXT, claims, [Table(head, rows, "Medians, in microseconds.")], [plot])


def main() -> None:
    """Measures in this process and prints one JSON list."""
    import jax
    import numpy as np

    path, rounds, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    device_time.register(path)
    step, counter = jax.jit(device_time.busy), jax.jit(device_time.busy_us)
    x = jax.device_put(np.zeros(1, np.float32))

    def one_round(asked_us: float) -> dict[str, float]:
        lasts = jax.device_put(np.array([round(1000 * asked_us)], np.uint32))
        step(x, lasts).block_until_ready()
        before_us, cpu_s = int(counter(x)[0]), time.process_time()
        calls_s, enqueues_s = [], []
        for _ in range(steps):
            began_s = time.perf_counter()
            y = step(x, lasts)
            enqueues_s.append(time.perf_counter() - began_s)
            y.block_until_ready()
            calls_s.append(time.perf_counter() - began_s)
        cpu_us = 1e6 * (time.process_time() - cpu_s) / steps
        busy_us = (int(counter(x)[0]) - before_us) % 2**32 / steps
        return {
            "busy_us": busy_us,
            "call_us": 1e6 * statistics.median(calls_s),
            "enqueue_us": 1e6 * statistics.median(enqueues_s),
            "cpu_us": cpu_us,
        }

    answers = []
    for wanted_us in map(int, sys.argv[4:]):
        plain = [one_round(wanted_us) for _ in range(rounds)]
        late_us = statistics.median(each["busy_us"] for each in plain) - wanted_us
        asked_us = max(1.0, wanted_us - late_us)
        calibrated = [one_round(asked_us)["busy_us"] for _ in range(rounds)]
        answer: dict[str, Any] = {name: [each[name] for each in plain] for name in plain[0]}
        answers.append(answer | {"wanted_us": wanted_us, "asked_us": [asked_us], "calibrated_us": calibrated})
    print(json.dumps(answers))


if __name__ == "__main__":
    main()
