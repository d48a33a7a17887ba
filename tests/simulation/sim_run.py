"""One seed from beginning to end: faults and safety, then healing, and everything accepted must end; then nothing is left.

A seed that breaks a rule is run once more with its story kept and every rule looking after every event; rules and story
change nothing of what happens. As a command: `python -m tests.simulation.sim_run SEED [--story]` prints the figures of a
seed, its digest and what broke.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests.simulation.checkers.all_rules import NAMES
from tests.simulation.sim_client import Client
from tests.simulation.sim_cluster import LATE_TICK_NS, SECOND_NS, Cluster
from tests.simulation.sim_faults import FAULT_KINDS
from tests.simulation.sim_memory import AMPLE, budget_of
from tests.simulation.sim_world import World

HEALED_WITHIN_NS = 90 * SECOND_NS
DENSE_EVERY = 10


@dataclass(frozen=True)
class Result:
    """`events` without timer ticks. `looks`: how often each rule was applied. `digest` and `story` only if it was traced."""

    seed: int
    options: str
    events: int
    ticks: int
    values: int
    answers: int
    runs: int
    images: tuple[int, int, int]
    spilled: tuple[int, int, int]  # arrays spilled, restored; work that failed because memory was stuck
    fused: int
    split: int
    waited: tuple[str, ...]
    refused: int
    accounted: int
    inspected: tuple[int, int]
    rows: dict[tuple[str, str, str], int]
    faults: dict[str, int]
    looks: dict[str, int]
    rescues: dict[str, int]  # of what outlives an epoch
    stuck: dict[str, int]  # kinds of them, and hosts "named"
    violations: tuple[tuple[str, str], ...]
    digest: str
    story: tuple[str, ...]

    def report(self) -> str:
        """What a failure prints: seed, options, the end of the story and how to replay it."""
        broken = "\n".join(f"  {checker}: {text}" for checker, text in self.violations)
        story = "\n".join(self.story[-60:])
        stuck = " --stuck" if "stuck hosts" in self.options else " --drained" if "drained in place" in self.options else ""
        stuck = " --rescued" if "survivors" in self.options else stuck
        command = f"python -m tests.simulation.sim_run {self.seed} --story{stuck}"
        return f"seed {self.seed} ({self.options})\n{broken}\n{story}\nreplay: {command}"


def check_every_rule(results: Iterable[Result], *besides: str) -> None:
    """Nothing was broken, by the names of the rules and of `besides`."""
    for result in results:
        broken = [name for name, _ in result.violations]
        assert {*broken} <= {*NAMES, *besides, "replay"}, f"{broken} names what is no rule"
        assert not broken, result.report()


def run_seed(seed: int, keep_story: bool = False, stuck: bool = False, drained: bool = False, rescued: bool = False) -> Result:
    """Plays a seed; twice if it breaks a rule. `stuck`: hosts also get stuck; `drained`: in place; `rescued`: executors
    die often and arrays lie on few hosts; each of them changes the seed."""
    kind = {"stuck": stuck, "drained": drained, "rescued": rescued}
    first = Play(seed, keep_story, dense=keep_story or seed % DENSE_EVERY == 0, **kind).result()
    if not first.violations or keep_story:
        return first
    again = Play(seed, tracing=True, dense=True, **kind).result()
    if not again.violations:
        return replace(again, violations=(*first.violations, ("replay", "and nothing broke when the seed was run again")))
    return replace(again, violations=(*again.violations, *(found for found in first.violations if found not in again.violations)))


class Play:
    """The cluster and the clients of one seed, which draws its options."""

    def __init__(
        self, seed: int, tracing: bool, dense: bool, stuck: bool = False, drained: bool = False, rescued: bool = False
    ) -> None:
        self.seed = seed
        self.world = world = World(seed, tracing)
        draw = world.random
        islands = draw.choice([{"a": 2}, {"a": 2, "b": 2}, {"a": 3, "b": 1}, {"a": 1}, {"a": 2, "b": 1}])
        kinds = tuple(kind for kind in FAULT_KINDS if draw.random() < 0.65) if draw.random() < 0.9 else ()
        if stuck and seed % 4:  # most epochs have to live for as long as it takes to be named
            kinds = tuple(kind for kind in kinds if kind not in ("executor death", "host loss", "swapped launches"))
        devices = draw.choice([1, 1, 2])
        if drained:
            islands, devices = {"a": 2 + seed % 3, **({"b": 1} if seed % 5 == 0 else {})}, 1
            if seed % 2:  # nothing is lost there
                kinds = tuple(kind for kind in kinds if kind not in ("executor death", "host loss", "swapped launches"))
        if rescued:
            islands = {"a": 2 + seed % 3, **({"b": 1} if seed % 5 == 0 else {})}
            kinds = tuple(kind for kind in kinds if kind != "host loss" or seed % 4 == 0)
        window = draw.choice([2, 8, 64])
        memory = budget_of(seed) if not drained or seed % 3 == 0 else AMPLE
        self.cluster = Cluster(world, islands, devices, kinds, window, dense, memory, stuck, drained, rescued)
        self.clients: list[Client] = []
        for number in range(1, draw.randint(3, 5)):
            wanted = draw.choice([(), ("*",), ("a",), ("*",), ("a",), ("nowhere",)] if number > 1 else [("*",), ()])
            client = Client(self.cluster, number, wanted, draw.randint(40, 170) * (2 if drained or rescued else 1))
            self.clients.append(client)
            world.soon(lambda client=client: self.cluster.connect_client(client), 0.1, 60)  # type: ignore[misc]
            world.soon(client.act, 61, 80)
        self.cluster.other_copies.start(self.clients, Client)
        world.soon(self.cluster.trouble.strike, 30, 120)
        self.cluster.bystanders.start()
        self.options = (
            f"islands {islands}, devices {devices}, window {window}, memory {memory}, faults {', '.join(kinds) or 'none'}"
            f"{', stuck hosts' if stuck else ''}{', drained in place' if drained else ''}{', survivors' if rescued else ''}"
        )

    def issued(self) -> bool:
        return all(client.closed or client.budget <= 0 for client in self.clients)

    def answered(self) -> bool:
        return self.issued() and all(client.closed or not client.open_questions for client in self.clients)

    def run(self) -> None:
        world, cluster = self.world, self.cluster
        world.run_until(self.issued, 60 * SECOND_NS)
        cluster.heal()
        limit = world.now_ns + HEALED_WITHIN_NS
        for client in self.clients:
            client.budget = 0 if client.closed else 20
            client.act()
        world.run_until(self.issued, limit)
        for client in self.clients:
            if client.devices and not client.closed:
                client.read_everything()
        answered = world.run_until(self.answered, limit)
        for client in self.clients:
            world.look("progress")
            if not answered and not world.broken and not client.closed and client.open_questions:
                waiting = list(client.open_questions.items())[:3]
                world.violate("progress", f"client {client.number} still waits for {waiting}")
        if world.broken:
            return
        for client in self.clients:
            client.close()
        cluster.tick_ns = LATE_TICK_NS
        world.run_until(lambda: False, world.now_ns + 40 * SECOND_NS)

    def result(self) -> Result:
        """Plays it."""
        world, cluster, clients = self.world, self.cluster, self.clients
        self.run()
        cluster.end()
        return Result(
            self.seed, self.options, cluster.events, cluster.ticks, sum(client.values for client in clients),
            sum(client.answers for client in clients), sum(client.runs for client in clients), cluster.image_counts(),
            (cluster.spilled, cluster.restored, cluster.stuck), cluster.fused_launches, cluster.split_ranges,
            tuple(cluster.quotas.waited), cluster.quotas.refused, cluster.accounted,
            (cluster.inspector.answers, cluster.inspector.compared), dict(cluster.core.state.rows),
            cluster.faults.counts | cluster.absences.counts | cluster.restarts.counts | cluster.other_copies.counts
            | cluster.migrations.counts,
            dict(world.looks), cluster.rescues.counts, cluster.stuck_hosts.figures(),
            tuple(world.violations), world.trace.hexdigest(), tuple(world.story),
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="runs one seed of the simulation")
    parser.add_argument("seed", type=int)
    parser.add_argument("--story", action="store_true", help="print everything that happened near the end")
    parser.add_argument("--stuck", action="store_true", help="hosts also get stuck")
    parser.add_argument("--drained", action="store_true", help="hosts are drained within their island")
    parser.add_argument("--rescued", action="store_true", help="executors die often, and survivors keep arrays")
    options = parser.parse_args()
    result = run_seed(options.seed, keep_story=True, stuck=options.stuck, drained=options.drained, rescued=options.rescued)
    print(f"seed {result.seed}: {result.options}")
    print(f"events {result.events}, ticks {result.ticks}, values {result.values}, runs {result.runs}")
    print(f"fused launches {result.fused}, split {result.split}")
    print(f"answers {result.answers}, faults {result.faults}, stuck {result.stuck}")
    print(f"digest {result.digest}")
    if options.story or result.violations:
        print("\n".join(result.story[-400:] if options.story else ()))
    for checker, text in result.violations:
        print(f"{checker}: {text}")
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
