"""Runs every feature script on a cluster and on plain local JAX and compares what they returned, bit by bit.

Scripts share one process per side unless they ask for an environment (`ENVIRONMENT`) or for all islands (`ISLANDS`). A
script with `expected()` is compared with that instead of a local run; `ULPS_MAX` says by how many units in the last place
floating-point results may differ (0 unless stated). The local side runs beside the cluster's, one process at a time. The last
line is `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.cluster import Cluster, end_on_sigterm, local_environment, running_cluster
from tests.conformance.compare import differences
from tests.conformance.side import encode, load

SIDE = Path(__file__).with_name("side.py")
FEATURES = Path(__file__).with_name("features")
ISLANDS, HOSTS_PER_ISLAND = 2, 2
GROUP_TIMEOUT_S = 240.0


@dataclass(frozen=True)
class Feature:
    """One script and what it asks for."""

    name: str
    path: Path
    module: ModuleType

    @property
    def islands(self) -> str:
        return str(getattr(self.module, "ISLANDS", ""))

    @property
    def environment(self) -> dict[str, str]:
        return dict(getattr(self.module, "ENVIRONMENT", {}))

    @property
    def ulps_max(self) -> int:
        return int(getattr(self.module, "ULPS_MAX", 0))

    @property
    def stated(self) -> Any:
        """What `expected()` gives, encoded; None where plain local JAX says what is right."""
        return encode(self.module.expected()) if hasattr(self.module, "expected") else None


Outcomes = dict[str, dict[str, Any]]


def groups(features: Sequence[Feature]) -> list[list[Feature]]:
    """Scripts that can share a process."""
    shared: dict[tuple[str, str], list[Feature]] = {}
    for feature in features:
        shared.setdefault((feature.islands, str(feature.environment)), []).append(feature)
    return list(shared.values())


def read(output: Path, features: Sequence[Feature], why_missing: str) -> Outcomes:
    lines = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    outcomes: Outcomes = {line["feature"]: line for line in lines}
    return {feature.name: outcomes.get(feature.name, {"error": why_missing, "seconds": 0.0}) for feature in features}


def run_locally(features: Sequence[Feature], folder: Path, python: str = sys.executable) -> Outcomes:
    if not features:
        return {}
    devices = HOSTS_PER_ISLAND * (ISLANDS if features[0].islands else 1)
    output = folder / "local.jsonl"
    output.unlink(missing_ok=True)
    command = [python, str(SIDE), str(output), *(str(feature.path) for feature in features)]
    environment = local_environment(devices) | features[0].environment
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=GROUP_TIMEOUT_S, check=False)
    return read(output, features, f"the local process ended with {done.returncode}: {done.stderr[-500:]}")


def run_on(cluster: Cluster, features: Sequence[Feature], folder: Path) -> Outcomes:
    output = folder / "cluster.jsonl"
    output.unlink(missing_ok=True)
    words = [str(SIDE), str(output), *(str(feature.path) for feature in features)]
    try:
        done = cluster.run(*words, islands=features[0].islands, timeout_s=GROUP_TIMEOUT_S, **features[0].environment)
        why_missing = f"the process on the cluster ended with {done.returncode}: {done.stderr[-500:]}"
    except AssertionError as error:
        why_missing = f"did not end: {error}"
    return read(output, features, why_missing)


def verdict(feature: Feature, got: dict[str, Any], local: dict[str, Any] | None) -> str:
    """Empty when right, else what differs."""
    if "error" in got:
        return f"on the cluster: {got['error'].strip()}"
    if feature.stated is not None:
        return "; ".join(differences(feature.stated, got["values"], feature.ulps_max))
    assert local is not None
    if "error" in local:
        return f"on local JAX: {local['error'].strip()}"
    return "; ".join(differences(local["values"], got["values"], feature.ulps_max))


def need_local(group: Sequence[Feature]) -> list[Feature]:
    return [feature for feature in group if feature.stated is None]


def compare_all(
    features: Sequence[Feature], locally: Sequence[Future[Outcomes]], cluster: Cluster | None, folder: Path
) -> dict[str, str]:
    """Verdicts by name; `locally`: what plain JAX says, group by group. Without a cluster the local side is run once more, which
    tests the scripts and their determinism."""
    verdicts = {}
    for group, coming in zip(groups(features), locally, strict=True):
        if cluster is None:
            local, group = coming.result(), need_local(group)
            got = run_locally(group, folder)
        else:
            got = run_on(cluster, group, folder)
            local = coming.result()
        for feature in group:
            problem = verdict(feature, got[feature.name], local.get(feature.name))
            verdicts[feature.name] = problem
            print(f"{'failed' if problem else 'passed'}  {got[feature.name]['seconds']:6.2f} s  {feature.name}", flush=True)
            if problem:
                print("        " + problem[-1500:].replace("\n", "\n        "), flush=True)
    return verdicts


@contextmanager
def one_beside() -> Iterator[ThreadPoolExecutor]:
    """A thread for local runs. With the block it begins no other one, and what it is at is not waited for: a cluster is."""
    beside = ThreadPoolExecutor(1)
    try:
        yield beside
    finally:
        beside.shutdown(wait=False, cancel_futures=True)


def use_transport(cluster: Cluster, name: str) -> None:
    """Doors of this cluster's clients are served by it."""
    if name:
        cluster.environment["PATHWAYS_IFRT_TRANSPORT"] = name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="only these scripts")
    parser.add_argument(
        "--local-only", action="store_true", help="no cluster: only check that the scripts run and repeat themselves"
    )
    parser.add_argument("--ifrt-transport", default="", choices=["", "grpc", "http2"], help="what serves the doors' clients")
    parser.add_argument("--half", action="store_true", help="only every second script, in the order of their names")
    options = parser.parse_args()
    end_on_sigterm()
    paths = [path for path in sorted(FEATURES.glob("*.py")) if not options.names or path.stem in options.names]
    paths = paths[:: 2 if options.half else 1]
    features = [Feature(path.stem, path, load(path)) for path in paths]
    with tempfile.TemporaryDirectory() as folder, one_beside() as beside:
        locally = [beside.submit(run_locally, need_local(group), Path(folder)) for group in groups(features)]
        if options.local_only:
            for coming in locally:
                coming.result()  # the second run uses the same file
            verdicts = compare_all(features, locally, None, Path(folder))
        else:
            with running_cluster(ISLANDS, HOSTS_PER_ISLAND, 1) as cluster:
                use_transport(cluster, options.ifrt_transport)
                verdicts = compare_all(features, locally, cluster, Path(folder))
    failed = sum(bool(problem) for problem in verdicts.values())
    print(f"{len(verdicts) - failed} passed, {failed} failed")
    return 1 if failed or not verdicts else 0


if __name__ == "__main__":
    raise SystemExit(main())
