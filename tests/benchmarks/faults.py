"""Detection and recovery: how soon a client hears of a fault, and how soon its work goes on, beside plain JAX, Ray and Monarch.

`run` measures ours and plain JAX; `peers` Ray and Monarch, in an environment of their own under build/peers, and only when asked
for; `reform` what forming an island again costs by what it held.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks.claims import Claim, figure_claim, number
from tests.benchmarks.fault_peers import PARENT
from tests.benchmarks.faulty import NOTHING, Held, Seen, abort, faulty, kill, kill_daemon, starve, stop_daemon, suspend
from tests.benchmarks.report import Section, Table
from tests.benchmarks.statistics_of_pairs import interval_of
from tests.cluster import ROOT, local_environment
from tests.e2e.faults.three_hosts import STUCK_AFTER_S

PEERS = str(Path(__file__).with_name("fault_peers.py"))
ENVIRONMENT = ROOT / "build/peers"
PACKAGES = ("ray", "torchmonarch")
KILLED_S, STUCK_S = 0.2, STUCK_AFTER_S + 1.0
GIB = 1 << 30

Fault = Callable[..., Any]
# Within the first four losses of an island the pause before it is formed again is a quarter of a second at most.
SAMPLES_OF_A_CLUSTER = 4
# What happens, and how often: with fewer than 15 samples a bar is not judged.
FAULTS: tuple[tuple[str, Fault, int, float | None], ...] = (
    ("executor killed (SIGKILL)", kill, 15, KILLED_S),
    ("executor aborted (SIGABRT)", abort, 3, None),
    ("executor stopped (SIGSTOP)", suspend, 15, STUCK_S),
    ("a member never gets its launches", starve, 15, STUCK_S),
    ("daemon stopped (SIGSTOP)", stop_daemon, 15, STUCK_S),
    ("daemon killed and started again", kill_daemon, 3, None),
)
# With samples.
HELD = (
    *((NOTHING, 4), (Held(lost_bytes=GIB // 4), 4), (Held(lost_bytes=GIB), 4)),
    *((Held(kept_bytes=GIB // 4), 4), (Held(kept_bytes=GIB // 2), 4), (Held(executables=25), 4), (Held(executables=100), 4)),
)

TEXT = f"""An island of two hosts with a device each; a stock client keeps eight gangs under way and one host gets the fault.
*Seen*: until the client's read raises. *Working again*: until a gang of both hosts, compiled before, has given its value; nothing
is done for that but calling it again. *Named*: the error is typed and of the right host. The deadline for who is stuck
is {STUCK_AFTER_S} s here (10 by default). Daemons come back when they go on or are started again. No
more than {SAMPLES_OF_A_CLUSTER} samples are of one cluster, since an island that is lost again within 15 s is formed again with a
pause, which doubles each time.

*Plain JAX* is two processes over gloo in an all-reduce; the survivor's error counts, and *working again* adds a start of both
processes up to their 20th all-reduce, by whoever watches them."""
REFORM_TEXT = """An executor of two is killed while the island holds arrays, or has run so many programs, each different. *Working
again*: the first gang after it. *All ran again*: until each program has run once more, with its value checked, and what was kept
is used. Arrays over both hosts are lost and freed, those of the other host go into the store of its daemon and come back when
they are used (of 1 GiB two cores do not put all there within the 2 s of `rescue_s`); executables are loaded again from what
the daemons keep."""
PEER_TEXT = """An actor is in a call when its process gets the signal; the caller waits. *Working again* adds a new actor of as
many processes and its first answer. *Named*: the error has the pid of the process or its place
in the group. These actors are plain Python: they have no XLA group to form. Ray {ray}, torchmonarch {torchmonarch}."""
HEAD = ("fault", "samples", "seen after, s", "working again after, s", "named")


def run(quick: bool) -> Section:
    seen = {name: taken(fault, 1 if quick else samples, name=name) for name, fault, samples, _ in FAULTS}
    theirs = {what: of_peer("jax", what, 1 if quick or what == "stop" else 3) for what in ("kill", "stop")}
    return section(seen, theirs)


def taken(fault: Fault, samples: int, held: Held = NOTHING, name: str = "") -> list[Seen]:
    """Of a few at a time on one cluster: an island that is lost again and again is formed again later each time.

    Of one that is aborted, one at a time: the second would be the program's second, which is not run any more.
    """
    found: list[Seen] = []
    while len(found) < samples:
        with faulty() as ours:
            for _ in range(min(1 if fault is abort else SAMPLES_OF_A_CLUSTER, samples - len(found))):
                found.append(ours.sample(fault, held))
                print(f"{name}: {found[-1].detected_s:.2f} s, {found[-1].again_s:.2f} s", file=sys.stderr, flush=True)
    return found


def section(seen: dict[str, list[Seen]], jax: dict[str, list[dict[str, Any]]]) -> Section:
    claims: list[Claim] = []
    rows = []
    for name, _, _, bar in FAULTS:
        detected = [each.detected_s for each in seen[name]]
        again = [each.again_s for each in seen[name]]
        right = sum(each.right for each in seen[name])
        claims.append(figure_claim(f"{name}: seen after", detected, "s", bar, at_least=False))
        rows.append((name, str(len(detected)), _spread(detected), _spread(again), f"{right} of {len(detected)}"))
    every = [1.0 if each.right else 0.0 for samples in seen.values() for each in samples]
    claims.append(figure_claim("errors that name the right host, of all", [sum(every) / len(every)] * len(every), "", 1.0))
    kinds = {"kill": "plain JAX: process killed (SIGKILL)", "stop": "plain JAX: process stopped (SIGSTOP)"}
    rows += [_peer_row(kinds[what], samples) for what, samples in jax.items()]
    data = {"seen": {name: [each._asdict() for each in samples] for name, samples in seen.items()}, "jax": jax}
    words = [f"Plain JAX said: {_said(samples)}" for samples in jax.values()]
    return Section(
        "faults", "Faults: seen, named, working again", "\n\n".join([TEXT, *words]), claims, [Table(HEAD, rows)], data=data
    )


def reform(quick: bool) -> Section:
    return reform_section({held: taken(kill, 1 if quick else samples, held, str(held)) for held, samples in HELD})


def reform_section(found: dict[Held, list[Seen]]) -> Section:
    rows = []
    for held, samples in found.items():
        figures = [_spread([each.again_s for each in samples]), _spread([each.all_again_s for each in samples])]
        sizes = [f"{size / GIB:g} GiB" for size in (held.lost_bytes, held.kept_bytes)]
        rows.append((*sizes, str(held.executables), str(len(samples)), *figures))
    nothing = found[NOTHING]

    def more(held: Held, figure: Callable[[Seen], float], times: float = 1) -> list[float]:
        return [times * (figure(sample) - figure(without)) for sample, without in zip(found[held], nothing, strict=False)]

    def again(sample: Seen) -> float:
        return sample.again_s

    def all_again(sample: Seen) -> float:
        return sample.all_again_s

    claims = [
        figure_claim("forming again, more per GiB of arrays that are lost", more(Held(lost_bytes=GIB), again), "s"),
        figure_claim("forming again, more per GiB of arrays that are kept", more(Held(kept_bytes=GIB // 2), again, 2), "s"),
        figure_claim(
            "until they were used, more per GiB of arrays that are kept", more(Held(kept_bytes=GIB // 2), all_again, 2), "s"
        ),
        figure_claim("until all ran again, more per 100 executables", more(Held(executables=100), all_again), "s"),
    ]
    head = ("arrays lost", "arrays kept", "executables", "samples", "working again after, s", "all ran again after, s")
    data = {", ".join(map(str, held)): [each._asdict() for each in samples] for held, samples in found.items()}
    return Section("reform", "What forming an island again costs", REFORM_TEXT, claims, [Table(head, rows)], data=data)


def peers(quick: bool) -> Section:
    python = python_of_peers()
    version = "import importlib.metadata as m, sys; print(m.version(sys.argv[1]))"
    versions = {
        name: subprocess.run([python, "-c", version, name], capture_output=True, text=True, check=True, timeout=60).stdout.strip()
        for name in PACKAGES
    }
    counts = {("ray", "kill"): 15, ("ray", "stop"): 1, ("monarch", "kill"): 3, ("monarch", "stop"): 1}
    rows, words, data = [], [], {}
    for (peer, what), samples in counts.items():
        found = of_peer(peer, what, 1 if quick else samples, python)
        name = f"{peer.capitalize()}: {'killed (SIGKILL)' if what == 'kill' else 'stopped (SIGSTOP)'}"
        rows.append(_peer_row(name, found))
        words.append(f"{name}: {_said(found)}")
        data[f"{peer} {what}"] = found
    text = "\n\n".join([PEER_TEXT.format(**versions), *words])
    return Section("fault_peers", "The same faults in Ray and Monarch", text, (), [Table(HEAD, rows)], data=data)


def of_peer(peer: str, what: str, samples: int, python: str = sys.executable) -> list[dict[str, Any]]:
    """What a peer's script says, sample by sample."""
    environment = local_environment(1) | {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "PATH": os.environ["PATH"]}
    environment |= {PARENT: str(os.getpid())}
    done = subprocess.run(
        [python, PEERS, peer, what, str(samples)], env=environment, stdout=subprocess.PIPE, text=True, timeout=280, check=False
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or len(found) != samples:
        raise SystemExit(f"{peer} {what} gave {len(found)} of {samples} samples and ended with {done.returncode}")
    return found


def python_of_peers() -> str:
    """The interpreter of the peers' environment, which is made when it is missing."""
    python = ENVIRONMENT / "bin/python"
    if not (ENVIRONMENT / ".installed").exists():
        print(f"installing {' and '.join(PACKAGES)} into {ENVIRONMENT}", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True, timeout=120)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PACKAGES], check=True, timeout=900)
        (ENVIRONMENT / ".installed").touch()
    return str(python)


def _peer_row(name: str, samples: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    detected = [each["detected_s"] for each in samples if each["detected_s"] is not None]
    again = [each["again_s"] for each in samples]
    named = sum(re.search(rf"\b{re.escape(each['victim'])}\b", each["error"]) is not None for each in samples)
    if not detected:
        return name, str(len(samples)), samples[0]["error"], "-", "-"
    return name, str(len(samples)), _spread(detected), _spread(again), f"{named} of {len(samples)}"


def _said(samples: Sequence[dict[str, Any]]) -> str:
    """The beginning of an error, on one line."""
    return "`" + " ".join(samples[0]["error"].replace("`", "'").split())[:300] + "`"


def _spread(values: Sequence[float]) -> str:
    interval = interval_of(values)
    return f"{number(interval.median)} ({number(min(values))} to {number(max(values))})"
