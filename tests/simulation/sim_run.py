"""One seed from beginning to end: faults and safety, then healing, and everything accepted must end; then nothing is left.

As a command: `python -m tests.simulation.sim_run SEED [--story]` prints the figures of a seed, its digest and what broke.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

from tests.simulation.sim_client import Client
from tests.simulation.sim_cluster import FAULT_KINDS, SECOND_NS, Cluster
from tests.simulation.sim_world import World

HEALED_WITHIN_NS = 90 * SECOND_NS


@dataclass(frozen=True)
class Result:
    seed: int
    options: str
    events: int
    values: int
    answers: int
    runs: int
    images: tuple[int, int, int]
    fused: int
    split: int
    inspected: tuple[int, int]
    rows: dict[tuple[str, str, str], int]
    faults: dict[str, int]
    violations: tuple[tuple[str, str], ...]
    digest: str
    story: tuple[str, ...]

    def report(self) -> str:
        """What a failure prints: seed, options, the end of the story and how to replay it."""
        broken = "\n".join(f"  {checker}: {text}" for checker, text in self.violations)
        story = "\n".join(self.story[-60:])
        command = f"python -m tests.simulation.sim_run {self.seed} --story"
        return f"seed {self.seed} ({self.options})\n{broken}\n{story}\nreplay: {command}"


def run_seed(seed: int, keep_story: bool = False) -> Result:
    world = World(seed)
    draw = world.random
    islands = draw.choice([{"a": 2}, {"a": 2, "b": 2}, {"a": 3, "b": 1}, {"a": 1}, {"a": 2, "b": 1}])
    kinds = tuple(kind for kind in FAULT_KINDS if draw.random() < 0.6) if draw.random() < 0.9 else ()
    devices = draw.choice([1, 1, 2])
    window = draw.choice([2, 8, 64])
    cluster = Cluster(world, islands, devices, kinds, window)
    clients = []
    for number in range(1, draw.randint(3, 5)):
        wanted = draw.choice([(), ("*",), ("a",), ("*",), ("a",), ("nowhere",)] if number > 1 else [("*",), ()])
        client = Client(cluster, number, wanted, draw.randint(80, 240))
        clients.append(client)
        world.soon(lambda client=client: cluster.connect_client(client), 0.1, 60)  # type: ignore[misc]
        world.soon(client.act, 61, 80)
    world.soon(cluster.trouble, 30, 120)
    options = f"islands {islands}, devices {devices}, window {window}, faults {', '.join(kinds) or 'none'}"

    def issued() -> bool:
        return all(client.closed or client.budget <= 0 for client in clients)

    def answered() -> bool:
        return issued() and all(client.closed or not client.open_questions for client in clients)

    world.run_until(issued, 60 * SECOND_NS)
    cluster.heal()
    limit = world.now_ns + HEALED_WITHIN_NS
    for client in clients:
        client.budget = 0 if client.closed else 40
        client.act()
    world.run_until(issued, limit)
    for client in clients:
        if client.devices and not client.closed:
            client.read_everything()
    if not world.run_until(answered, limit) and not world.broken:
        for client in clients:
            if not client.closed and client.open_questions:
                world.violate("progress", f"client {client.number} still waits for {list(client.open_questions.items())[:3]}")
    if not world.broken:
        for client in clients:
            client.close()
        end = world.now_ns + 40 * SECOND_NS
        world.run_until(lambda: False, end)
        if not world.broken:
            cluster.check_leaks()
    cluster.check_order()
    for text in cluster.inspector.named[:10]:
        world.violate("holdings", text)
    return Result(
        seed, options, cluster.events, sum(client.values for client in clients), sum(client.answers for client in clients),
        sum(client.runs for client in clients), cluster.image_counts(), cluster.fused_launches, cluster.split_ranges,
        (cluster.inspector.answers, cluster.inspector.compared),
        dict(cluster.core.state.rows), dict(cluster.faults.counts), tuple(world.violations), world.trace.hexdigest(),
        tuple(world.story) if keep_story or world.broken else (),
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="runs one seed of the simulation")
    parser.add_argument("seed", type=int)
    parser.add_argument("--story", action="store_true", help="print everything that happened near the end")
    options = parser.parse_args()
    result = run_seed(options.seed, keep_story=options.story)
    print(f"seed {result.seed}: {result.options}")
    print(
        f"events {result.events}, values {result.values}, runs {result.runs}, fused launches {result.fused}, split {result.split}"
    )
    print(f"answers {result.answers}, faults {result.faults}")
    print(f"digest {result.digest}")
    if options.story or result.violations:
        print("\n".join(result.story[-400:] if options.story else ()))
    for checker, text in result.violations:
        print(f"{checker}: {text}")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
