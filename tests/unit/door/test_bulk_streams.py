"""Fast moves where no worker is near, which the stand-in cluster never is: the same bits, as streams."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.unit.door.test_door_with_stock_jax import _close, _end, _start

HERE = Path(__file__).parent


def test_arrays_are_put_and_fetched_as_streams() -> None:
    cluster, there = _start([str(HERE / "fake_cluster.py"), "4"], JAX_PLATFORMS="cpu", FAKE_TOKEN="open")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "IFRT_", "PATHWAYS_"))}
    chosen = {"JAX_PLATFORMS": "proxy", "PATHWAYS_ADDRESS": f"grpc://{there['address']}", "PATHWAYS_TOKEN": "open"}
    try:
        client = subprocess.run(
            [sys.executable, str(HERE / "bulk_client.py")],
            env=clean | chosen, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert (client.stdout, client.stderr) == ("ok\n", "")
        _end(cluster)
    finally:
        cluster.kill()
        cluster.wait(10)
        for stream in (cluster.stdin, cluster.stdout):
            _close(stream)
