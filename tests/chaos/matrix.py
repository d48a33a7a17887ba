"""Every fault in every phase of a program's life, from many seeds, with real processes: `make chaos`.

    python tests/chaos/matrix.py                                  # all, 20 seeds each: hours
    python tests/chaos/matrix.py --seeds 1 --kinds "executor killed" --phases idle reading

A seed draws the host and the moment. Held after every trial: values are those of numpy; an error is of a kind that the fault may
cause and names the host; the same work gives its value afterwards; every host is ACTIVE again; an epoch ends only by a fault of a
host. At the end, and whenever a client is gone: nothing of closed sessions is left anywhere. Results are added to
build/chaos/results.json, and the table of all of them is printed and kept beside it. It ends with 1 if anything was broken.
Those that are to stay go to docs by published.py; `--missing` leaves out what has held in either.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pathways.testing import FaultyCluster, Lines, cluster, wait_until
from pathways_proto.v1 import cluster_pb2

from tests.chaos import published
from tests.chaos.kinds import KEEPALIVE_S, KINDS, SETTINGS, SILENT, Kind
from tests.cluster import ROOT, end_on_sigterm

CLIENT_SCRIPT = str(Path(__file__).with_name("phases.py"))
FOLDER = ROOT / "build/chaos"
RESULTS = "results.json"
# Names of phases.PHASES, and how long after it is entered a fault may come.
PHASES = {
    "compiling": 0.3,
    "loading": 0.15,
    "uploading": 0.15,
    "queued": 1.2,
    "granted": 0.2,
    "in a collective": 0.3,
    "transferring": 0.3,
    "reading": 0.15,
    "idle": 0.4,
    "training": 1.0,
}
ELASTIC = "training"  # under pw.elastic, which goes on whatever becomes of hosts
ANSWER_S, ROUND_S = 45.0, 60.0
# Each of the 60 steps of a training, and each of its 12 snapshots, waits for one or two rounds of 0.4 s over a slow link.
SLOW = ("link of a host slow (0.2 s)", ELASTIC)
SLOW_ANSWER_S = 90.0


class Trial(NamedTuple):
    """One fault in one phase. `broken`: the rule that did not hold; empty if all did."""

    kind: str
    phase: str
    seed: int
    ended: str
    again_s: float
    broken: str


class Client:
    """The script, started by `pathways run` through the link of clients; on all devices, or on a slice."""

    def __init__(self, running: FaultyCluster, on_slice: bool = False) -> None:
        self.process = running.start(CLIENT_SCRIPT, "slice" if on_slice else "all", stdin=True)
        self._lines = Lines(self.process)
        self.hear("ready")

    def ask(self, phase: str, seed: int) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"phase": phase, "seed": seed}) + "\n")
        self.process.stdin.flush()

    def hear(self, key: str, within_s: float = ANSWER_S) -> dict[str, Any]:
        line = self._lines.next(within_s)
        assert line is not None, f"the client did not tell {key!r} in {within_s:.0f} s or to its end (exit {self.process.poll()})"
        found: dict[str, Any] = json.loads(line)
        assert key in found, found
        return found

    def end(self, number: signal.Signals) -> None:
        """As a terminal does it: to all of its processes, or SIGKILL to the script alone, which leaves its door behind."""
        if number == signal.SIGINT:
            os.killpg(self.process.pid, number)
        else:
            for pid in _scripts(self.process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        self.process.wait(60)


def _scripts(pid: int) -> list[int]:
    """The script among the children of `pathways run`."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            with suppress(OSError):
                words = Path(f"/proc/{child}/cmdline").read_bytes().decode(errors="replace")
                if "phases.py" in words and "pathways_door" not in words:
                    found.append(child)
    return found


def answer_s(kind: Kind, phase: str) -> float:
    """How long work of a phase may take under a fault."""
    return SLOW_ANSWER_S if (kind.name, phase) == SLOW else ANSWER_S


def trial(running: FaultyCluster, client: Client, kind: Kind, phase: str, seed: int) -> Trial:
    """Raises AssertionError where something does not come in time."""
    draw = random.Random(f"{kind.name} {phase} {seed}")
    host, delay_s = draw.choice(running.hosts), draw.uniform(0, PHASES[phase])
    island = host[0]
    epoch = running.epoch(island)
    client.ask(phase, seed)
    client.hear("entered")
    time.sleep(delay_s)  # the moment that was drawn
    began_s = time.monotonic()
    if kind.client_ends:
        client.end(signal.SIGINT if "Ctrl-C" in kind.name else signal.SIGKILL)
        wait_until(lambda: not running.status().sessions, "the session of a client that is gone to be closed", 60)
        nothing_left(running)
        broken = "" if running.epoch(island) == epoch else "an epoch ended with a client"
        return Trial(kind.name, phase, seed, "gone", time.monotonic() - began_s, broken)
    with kind.strike(running, host):
        found = client.hear("ended", answer_s(kind, phase))
    again = client.hear("again", answer_s(kind, phase))
    again_s = time.monotonic() - began_s
    if kind.on_slice:
        client.end(signal.SIGINT)
        running.revive(host)
        nothing_left(running)
    if kind.loses_host:  # work that ended before the fault says nothing of when it was noticed
        wait_until(lambda: running.epoch(island) > epoch, "the end of an epoch to be noticed", ROUND_S)
    running.whole(ROUND_S)
    broken = _judge(kind, phase, host, found, again, running.epoch(island) - epoch)
    return Trial(kind.name, phase, seed, found["ended"], again_s, broken)


def _judge(kind: Kind, phase: str, host: str, found: dict[str, Any], again: dict[str, Any], epochs: int) -> str:
    ended = found["ended"]
    if ended != "right" and phase == ELASTIC:
        return f"it does not go on by itself: {ended}: {found['message']}"
    if ended != "right" and ended not in kind.errors:
        return f"it ended with {ended}: {found['message']}"
    if ended in ("SliceLostError", "BufferLostError") and found["host"] != host:
        return f"{found['host'] or 'nobody'} was named for {host}: {found['message']}"
    if kind.silent and ended in ("SliceLostError", "BufferLostError"):
        silent = re.search(SILENT, found["message"])
        if silent is None or not float(SETTINGS["STUCK_AFTER_S"]) <= float(silent.group(1)):
            return f"it was not lost for its silence: {found['message']}"
    if again["again"] != "right":
        return f"it did not work again: {again['again']} {again['message']}"
    if epochs and not kind.errors and not kind.forms_anew:
        return "an epoch ended though no host was lost"
    return ""


def nothing_left(running: FaultyCluster) -> None:
    """Nothing of closed sessions is on any host or in the controller."""

    def clean() -> bool:
        found = running.ask("FindLeaks", cluster_pb2.FindLeaksRequest(), timeout_s=20)
        return not (found.leaks or found.left_out or found.late_hosts or found.lost_hosts)

    wait_until(clean, "what closed sessions had to be gone", 40)


@contextmanager
def chaotic_cluster(islands: int = 1, devices: int = 1) -> Iterator[FaultyCluster]:
    """Two hosts in each island, with short deadlines."""
    settings = {f"PATHWAYS_SERVER_{name}": value for name, value in SETTINGS.items()} | {"PATHWAYS_KEEPALIVE_S": str(KEEPALIVE_S)}
    os.environ.update(settings)
    try:
        with cluster(islands=islands, hosts=2, devices=devices) as running:
            running.environment |= {"PATHWAYS_KEEPALIVE_S": str(KEEPALIVE_S)}
            yield running
    finally:
        for name in settings:
            os.environ.pop(name, None)


def _shape(kind: Kind) -> tuple[int, int]:
    """How many islands, and devices a host. A slice has two devices, so that its work is of more than one."""
    return kind.islands, 2 if kind.on_slice else 1


def play(wanted: list[tuple[Kind, str, int]], until_s: float) -> Iterator[Trial]:
    """All of them on one cluster of each shape; a cluster or client that something broke is replaced."""
    wanted.sort(key=lambda each: _shape(each[0]))
    while wanted and time.monotonic() < until_s:
        shape = _shape(wanted[0][0])
        with chaotic_cluster(*shape) as running:
            client = Client(running, wanted[0][0].on_slice)
            while wanted and _shape(wanted[0][0]) == shape and time.monotonic() < until_s:
                kind, phase, seed = wanted.pop(0)
                try:
                    yield trial(running, client, kind, phase, seed)
                except (AssertionError, subprocess.TimeoutExpired) as error:
                    yield Trial(kind.name, phase, seed, "", 0.0, f"{str(error)[:2000]}{running.logs(6)[:4000]}")
                    client.process.kill()
                    break
                if kind.client_ends or kind.on_slice:
                    client = Client(running, kind.on_slice)
            else:
                client.end(signal.SIGINT)
                wait_until(lambda: not running.status().sessions, "the last session to be closed", 60)
                nothing_left(running)


def kept_trials() -> list[Trial]:
    path = FOLDER / RESULTS
    return [Trial(*each) for each in json.loads(path.read_text())] if path.exists() else []


def keep(trials: Sequence[Trial]) -> list[Trial]:
    """Adds them to what is kept; a trial that was repeated replaces the earlier one."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = {(each.kind, each.phase, each.seed): each for each in [*kept_trials(), *trials]}
    (FOLDER / RESULTS).write_text(json.dumps(list(found.values()), indent=0))
    (FOLDER / "table.md").write_text("\n".join(table(list(found.values()))) + "\n")
    return list(found.values())


def table(trials: Sequence[Trial]) -> list[str]:
    """Of these trials, in the order of kinds and phases."""
    return published.table(published.add({}, trials), [kind.name for kind in KINDS], PHASES)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [kind.name for kind in KINDS]
    parser.add_argument("--seeds", default="20", help="how many, or FIRST-LAST (default 20)")
    parser.add_argument("--kinds", nargs="+", choices=names, default=names, metavar="KIND", help=", ".join(names))
    parser.add_argument(
        "--phases", nargs="+", choices=list(PHASES), default=list(PHASES), metavar="PHASE", help=", ".join(PHASES)
    )
    parser.add_argument("--minutes", type=float, default=600, help="begins no trial after so long")
    parser.add_argument("--missing", action="store_true", help="leaves out what has held already, kept or published")
    return parser.parse_args()


def _known() -> set[tuple[str, str, int]]:
    """What has held already, here or published; what was broken is played again."""
    cells = published.add(published.load(), kept_trials())
    return {
        (kind, phase, seed)
        for kind, phases in cells.items()
        for phase, seeds in phases.items()
        for seed, again_s in seeds.items()
        if again_s is not None
    }


def main() -> int:
    options = parse()
    end_on_sigterm()
    first, _, last = options.seeds.rpartition("-")
    seeds = range(int(first or 1), int(last) + 1)
    trials: list[Trial] = []
    kinds = [kind for kind in KINDS if kind.name in options.kinds]
    known = _known() if options.missing else set()
    wanted = [
        (kind, phase, seed)
        for seed in seeds
        for kind in kinds
        for phase in options.phases
        if (kind.name, phase, seed) not in known
    ]
    # An island that is lost again and again is formed again later each time, so losses are spread.
    random.Random("order").shuffle(wanted)
    for each in play(wanted, time.monotonic() + 60 * options.minutes):
        trials.append(each)
        words = each.broken or f"{each.ended}, its value after {each.again_s:.1f} s"
        print(f"{each.kind}, {each.phase}, seed {each.seed}: {words}", flush=True)
        keep([each])
    kept = keep(trials)
    print("\n".join(table(kept)))
    broken = sum(bool(each.broken) for each in trials)
    print(f"{len(trials)} trials, {broken} broken; all that is kept: {FOLDER / 'table.md'}")
    return 1 if broken else 0


if __name__ == "__main__":
    raise SystemExit(main())
