"""`pw.fetch` and `pw.put` on a real cluster: every bit is NumPy's, and nothing stays of a killed client."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.cluster import Cluster, running_cluster, wait_until
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster
SCRIPTS = Path(__file__).with_name("scripts")


def test_what_is_fetched_and_put_is_what_numpy_has_and_a_killed_client_leaves_nothing() -> None:
    with running_cluster(islands=2, hosts=1, devices=4) as cluster:
        for script in ("bulk_reads.py", "bulk_puts.py"):
            checks = re.findall(r"^def ([a-z]+(?:_[a-z]+){3,})\(\)", (SCRIPTS / script).read_text(), re.MULTILINE)
            assert len(checks) > 6
            done = cluster.run(str(SCRIPTS / script), islands="all")
            assert done.returncode == 0, done.stdout + done.stderr + cluster.logs()
            assert done.stdout.splitlines() == [f"ok {name}" for name in checks], done.stderr
            assert script == "bulk_reads.py" or done.stderr == "", "JAX writes about the callback that fails"
            cluster.check_leaks(set())
        _killed_while_it_reads(cluster)
        _lost_with_its_host(cluster)


def _killed_while_it_reads(cluster: Cluster) -> None:
    process = cluster.start(str(SCRIPTS / "bulk_loop.py"), "read", islands="all")
    heard = Lines(process)
    try:
        assert heard.next(90) == "reading"
        os.killpg(process.pid, signal.SIGKILL)  # `pathways run` and the script
        cluster.check_leaks(set())
        wait_until(lambda: not _segments(cluster), "segments of a client that was killed to be gone from the cluster")
    finally:
        stop(process)


def _lost_with_its_host(cluster: Cluster) -> None:
    process = cluster.start(str(SCRIPTS / "bulk_loop.py"), "lose", islands="all", stdin=True)
    heard = Lines(process)
    try:
        assert heard.next(90) == "there"
        for executor in cluster.executors("a0"):
            executor.kill()
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        said = heard.next(90)
        assert said in ("BufferLostError a0", "SliceLostError a0"), f"{said}{cluster.logs()}"
        assert heard.next(90) == "b0 as it was"
    finally:
        stop(process)


def _segments(cluster: Cluster) -> list[str]:
    """Descriptors of segments that processes of the cluster have."""
    found = []
    for process in cluster.processes():
        for entry in Path(f"/proc/{process.pid}/fd").glob("*"):
            try:
                target = str(entry.readlink())
            except OSError:
                continue
            found += [f"{process.pid} {target}"] if "pathways-segment" in target else []
    return found
