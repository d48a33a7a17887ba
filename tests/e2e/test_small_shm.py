"""A machine whose /dev/shm is as small as containers have it: bulk data goes through shared memory all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import ROOT, running_cluster
from tests.tools import needs

pytestmark = pytest.mark.cluster
SCRIPT = Path(__file__).with_name("scripts") / "small_shm.py"
SHM_BYTES = 64 << 20


def test_four_times_what_dev_shm_holds_is_put_and_moved_and_fetched_through_shared_memory() -> None:
    needs("a small /dev/shm", "unshare", "mount")
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = f'mount -t tmpfs -o size={SHM_BYTES} tmpfs /dev/shm && exec "$@"'
    command = ["unshare", *own, "--mount", "--propagation", "private", "sh", "-c", mount, "sh", sys.executable, __file__]
    done = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    shm, right, mapped = (line.split() for line in done.stdout.splitlines())
    assert shm == ["shm", str(SHM_BYTES), str(SHM_BYTES)], "nothing of it is used"
    assert right == ["right", "True"]
    assert mapped == ["mapped", "/memfd:pathways-segment"], "it is memory that the executor wrote"


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def main() -> int:
    """In the mount namespace: the whole cluster and a client of it."""
    with running_cluster(islands=2, hosts=1, devices=1) as cluster:
        done = cluster.run(str(SCRIPT), islands="all")
        print(done.stdout, end="", flush=True)
        print(done.stderr, file=sys.stderr)
        return done.returncode


if __name__ == "__main__":
    raise SystemExit(main())
