"""Clients of several tenants on one island of two hosts with emulated device time, and what their devices did meanwhile.

What ran when is written by the emulator itself, in the executors, and by no part of what is measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.emulator import device_time
from tests.benchmarks.sides import XLA_FLAGS, spawn
from tests.cluster import PATHWAYS, Cluster, free_port, local_environment, running_cluster

CLIENT = str(Path(__file__).with_name("sharing_client.py"))
HOSTS = 2


@dataclass(frozen=True)
class Box:
    """A step on a device: from when to when (ns of the machine's monotonic clock), and the number of its client."""

    began_ns: int
    ended_ns: int
    client: int


class Processes:
    """Processes that are spoken to in lines."""

    def __init__(self, processes: Sequence[subprocess.Popen[str]]) -> None:
        self._processes = processes
        self._answers(range(len(processes)))

    def _answers(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        answers = []
        for number in numbers:
            stream = self._processes[number].stdout
            assert stream is not None
            line = stream.readline()
            if not line:
                raise SystemExit(f"client {number} ended with exit code {self._processes[number].wait(10)}")
            answers.append(json.loads(line))
        return answers

    def ask(self, commands: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
        """Commands by number of the process, all at once; the answers. Checks their values: one per step."""
        for number, command in commands.items():
            stream = self._processes[number].stdin
            assert stream is not None
            stream.write(json.dumps(command) + "\n")
            stream.flush()
        answers = self._answers(list(commands))
        for answer in answers:
            if answer["value"] != answer["steps"]:
                raise SystemExit(f"{answer['steps']} steps gave {answer['value']}, which is wrong")
        return answers

    def close(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(20)


class Sharing:
    """A cluster, a tenant and a client of it each, and the timelines of its executors."""

    def __init__(self, cluster: Cluster, folder: Path, clients: int) -> None:
        self._cluster, self._folder = cluster, folder
        self._names = [f"t{number}" for number in range(clients)]
        tokens = [self._tenants("add", name) for name in self._names]
        command = cluster.command(CLIENT)
        environments = [cluster.environment | {"PATHWAYS_TOKEN": token} for token in tokens]
        self.clients = Processes([spawn([*command, str(number)], each) for number, each in enumerate(environments)])

    def _tenants(self, *words: str) -> str:
        command = [PATHWAYS, "tenants", *words, "--address", self._cluster.address]
        done = subprocess.run(command, env=self._cluster.environment, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise SystemExit(f"`pathways tenants {' '.join(words)}` failed: {done.stderr}")
        return done.stdout.strip()

    def weigh(self, weights: Sequence[int]) -> None:
        """Declares shares."""
        for name, weight in zip(self._names, weights, strict=True):
            self._tenants("set", name, "--weight", str(weight))

    def gangs(self, lasts_ns: Sequence[int], began_ns: int, ended_ns: int) -> list[Box]:
        """What all devices together did in a stretch of time; see `gangs_in`."""
        return gangs_in(self._folder, lasts_ns, began_ns, ended_ns)

    def boxes(self, lasts_ns: Sequence[int], began_ns: int, ended_ns: int) -> list[list[Box]]:
        """Per host, what its device did in a stretch of time; a step that lasts `lasts_ns[n]` + n is of client n."""
        return boxes_in(self._folder, lasts_ns, began_ns, ended_ns)


def boxes_in(folder: Path, lasts_ns: Sequence[int], began_ns: int, ended_ns: int) -> list[list[Box]]:
    owner = {told_ns + number: number for number, told_ns in enumerate(lasts_ns)}
    found = []
    for rows in device_time.timelines(folder).values():
        inside = rows[(rows[:, 1] > began_ns) & (rows[:, 0] < ended_ns)]
        own = [
            Box(max(int(start), began_ns), min(int(end), ended_ns), owner[int(told)])
            for start, end, told in inside
            if told in owner
        ]
        if own:
            found.append(own)
    return found


def gangs_in(folder: Path, lasts_ns: Sequence[int], began_ns: int, ended_ns: int) -> list[Box]:
    """Gangs that ran in a stretch of time: from the start of their last member to their last end, cut to the stretch.

    What early members waited for the last one is nobody's device time. All members run the gangs of a client in the same order.
    """
    found = []
    hosts = [rows for rows in device_time.timelines(folder).values() if len(rows)]
    for number, told_ns in enumerate(lasts_ns):
        members = [rows[rows[:, 2] == told_ns + number] for rows in hosts]
        count = min(map(len, members))
        starts = np.max([rows[:count, 0] for rows in members], axis=0)
        ends = np.max([rows[:count, 1] for rows in members], axis=0)
        found += [
            Box(max(int(start), began_ns), min(int(end), ended_ns), number)
            for start, end in zip(starts, ends, strict=True)
            if end > began_ns and start < ended_ns
        ]
    return found


def busy_shares(gangs: Sequence[Box], clients: int) -> list[float]:
    """Of the device time of all clients, the part of each."""
    ns = np.zeros(clients)
    for gang in gangs:
        ns[gang.client] += gang.ended_ns - gang.began_ns
    return [float(part) for part in ns / ns.sum()]


def worked(hosts: Sequence[Sequence[Box]], lasts_ns: int) -> float:
    """How much of the time devices had been busy if every step had lasted as long as it was told; the mean of the hosts."""
    spans = [max(box.ended_ns for box in boxes) - min(box.began_ns for box in boxes) for boxes in hosts]
    return float(np.mean([len(boxes) * lasts_ns / span for boxes, span in zip(hosts, spans, strict=True)]))


def utilisation(hosts: Sequence[Sequence[Box]]) -> float:
    """How much of the time between the first start and the last end devices were busy; the mean of the hosts."""
    parts = []
    for boxes in hosts:
        inside, until_ns = 0, 0
        for box in sorted(boxes, key=lambda box: box.began_ns):
            inside += max(0, box.ended_ns - max(box.began_ns, until_ns))
            until_ns = max(until_ns, box.ended_ns)
        parts.append(inside / (until_ns - min(box.began_ns for box in boxes)))
    return float(np.mean(parts))


@contextmanager
def sharing(clients: int) -> Iterator[Sharing]:
    """A cluster of one island with that many clients."""
    with tempfile.TemporaryDirectory(prefix="pathways-timelines-") as name:
        emulator = {device_time.LIBRARY_VARIABLE: str(device_time.library()), device_time.TIMELINE_VARIABLE: name}
        with running_cluster(islands=1, hosts=HOSTS, devices=1, **emulator) as cluster:
            found = Sharing(cluster, Path(name), clients)
            try:
                yield found
            finally:
                found.clients.close()


@contextmanager
def plain_jax() -> Iterator[tuple[Processes, Path]]:
    """One client of multi-controller JAX: a process per host that does the same, and its timelines."""
    with tempfile.TemporaryDirectory(prefix="pathways-timelines-") as name:
        environment = local_environment(devices=1) | {"XLA_FLAGS": XLA_FLAGS, device_time.TIMELINE_VARIABLE: name}
        words = [str(HOSTS), str(free_port()), str(device_time.library())]
        processes = Processes(
            [spawn([sys.executable, CLIENT, "0", "--peer", str(rank), *words], environment) for rank in range(HOSTS)]
        )
        try:
            yield processes, Path(name)
        finally:
            processes.close()
