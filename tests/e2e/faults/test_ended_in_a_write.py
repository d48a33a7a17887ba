"""A real controller that ends in the middle of a write: what was durable is there when it is started again, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster import PATHWAYS, plain_environment

FAULTS = Path(__file__).parent
WAIT_S = 60


@contextmanager
def controller(environment: dict[str, str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """One life, and where it listens."""
    command = [sys.executable, "-m", "pathways_server.main", "--listen", "127.0.0.1:0", "--metrics-port", "-1"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split()[1]
        finally:
            process.kill()


def asked(environment: dict[str, str], address: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [PATHWAYS, "tenants", *words, "--address", address]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize(("point", "durable"), [("COMMIT", False), ("COMMITTED", True)])
def test_a_tenant_is_there_whole_or_not_at_all(tmp_path: Path, point: str, durable: bool) -> None:
    armed = tmp_path / "armed"
    environment = plain_environment() | {"PATHWAYS_STATE_DIR": str(tmp_path)}
    with controller(environment | {"PYTHONPATH": str(FAULTS), "ENDS_AT_WRITE": f"{point}:{armed}"}) as (process, address):
        kept = asked(environment, address, "add", "before", "--weight", "3")
        assert kept.returncode == 0, kept.stderr
        armed.touch()
        told = asked(environment, address, "add", "during", "--weight", "4")
        assert told.returncode != 0, "it was acknowledged by a controller that ended"
        assert process.wait(WAIT_S) == -signal.SIGKILL
    with controller(environment) as (_, address):
        listed = asked(environment, address, "list").stdout
        assert "before" in listed
        assert ("during" in listed) == durable, listed
        again = asked(environment, address, "add", "during")
        assert (again.returncode != 0) == durable, "half of it was there"
        lines = asked(environment, address, "audit").stdout
        assert lines.count("during") == 1, lines
