"""Reported bytes are real bytes: what executors and daemons grew by, shared pages counted once, is what `pathways buffers` says.

glibc is told to give freed blocks of arrays back at once, as a trim does.
"""

from __future__ import annotations

import psutil
import pytest
from pathways_proto.v1 import cluster_pb2

from tests.cluster import ROOT, Cluster, running_cluster, wait_until
from tests.e2e.lines import Lines, stop

pytestmark = [pytest.mark.cluster, pytest.mark.alone]
MIB = 1 << 20
# Stage, and what is held after it in MiB by arithmetic: 64 arrays of 16; eight halves beside them; as much after donations and
# failures; then 32 of the arrays.
STAGES = (("puts", 1024), ("slices", 1024 + 64), ("donations", 1024 + 64), ("failures", 1024 + 64), ("frees", 512))


def real_bytes(cluster: Cluster) -> dict[str, int]:
    """Of workers and their executors, by process; a page that several of them share counts once."""
    found: dict[str, int] = {}
    for process in cluster.processes():
        try:
            words = process.cmdline()
            if any("pathways_worker" in word for word in words):
                name = next(word for word in words if "pathways_worker" in word)
                found[f"{name} {process.pid}"] = process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return found


def settled(cluster: Cluster) -> dict[str, int]:
    """The same when nothing grows any more: every host has its spare executor, which has loaded what it needs."""
    wait_until(lambda: all(len(cluster.executors(host)) == 2 for host in ("a0", "a1")), "spare executors to start", 60.0)
    last = [0] * 20
    found: dict[str, int] = {}

    def still() -> bool:
        found.clear()
        found.update(real_bytes(cluster))
        last.append(sum(found.values()))
        del last[0]
        return max(last) - min(last) < MIB

    wait_until(still, "the processes to stop growing", 60.0)
    return found


def reported_bytes(cluster: Cluster) -> int:
    (session,) = cluster.ask("ListBuffers", cluster_pb2.ListBuffersRequest()).sessions
    assert sum(device.live_bytes for device in session.devices) == session.live_bytes
    assert sum(host.live_bytes for island in cluster.status().islands for host in island.hosts) == session.live_bytes
    return int(session.live_bytes)


def test_a_gibibyte_of_arrays_is_reported_within_a_tenth_of_what_processes_grew_by() -> None:
    with running_cluster(islands=1, hosts=2, devices=1, MALLOC_MMAP_THRESHOLD_="65536") as cluster:
        process = cluster.start(str(ROOT / "tests" / "e2e" / "scripts" / "memory.py"), stdin=True)
        lines = Lines(process)
        try:
            assert lines.next(90) == "warm"
            assert process.stdin is not None
            wait_until(lambda: reported_bytes(cluster) < MIB, "the arrays of the warm-up to be freed")
            before = settled(cluster)
            for stage, held_mib in STAGES:
                process.stdin.write(f"{stage}\n")
                process.stdin.flush()
                assert lines.next(120) == stage
                reported = [0]

                def told(reported: list[int] = reported, held_mib: int = held_mib) -> bool:
                    reported[0] = reported_bytes(cluster)
                    return held_mib * MIB <= reported[0] < (held_mib + 1) * MIB

                wait_until(told, f"{held_mib} MiB to be reported after {stage}")
                now: dict[str, int] = {}

                def follows(now: dict[str, int] = now, reported: list[int] = reported) -> bool:
                    now.update(real_bytes(cluster))
                    return abs(sum(now.values()) - sum(before.values()) - reported[0]) <= reported[0] / 10

                try:
                    wait_until(follows, f"real memory to follow after {stage}")
                finally:
                    grown = {name: round((size - before.get(name, 0)) / MIB, 1) for name, size in now.items()}
                    print(f"{stage}: reported {reported[0] / MIB:.1f} MiB, grown by {sum(grown.values()):.1f} MiB: {grown}")
            process.stdin.close()
            process.wait(60)
        finally:
            stop(process)
