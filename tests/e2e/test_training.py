"""Scripts that know nothing of us give, on a cluster, what plain local JAX gives: to the last bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import ROOT, Cluster, local_environment

pytestmark = pytest.mark.cluster
EXAMPLES = ROOT / "examples"
GANGS = str(Path(__file__).with_name("scripts") / "gangs.py")


def test_hello_runs_unmodified_and_shows_island_and_hosts(cluster: Cluster) -> None:
    done = cluster.run(str(EXAMPLES / "hello.py"))
    assert done.returncode == 0, done.stderr
    *devices, total = done.stdout.splitlines()
    assert [line.split()[-1] for line in devices] == ["a0", "a1"]
    assert total == "sum 16000.0 expected 16000"


def test_training_on_two_hosts_is_bit_identical_to_two_local_devices(cluster: Cluster, tmp_path: Path) -> None:
    script = [str(EXAMPLES / "train_lm.py"), "--steps", "20", "--evaluate-every", "10", "--losses-out"]
    done = cluster.run(*script, str(tmp_path / "cluster.json"))
    assert done.returncode == 0, done.stderr
    environment = local_environment(devices=2)
    subprocess.run([sys.executable, *script, str(tmp_path / "local.json")], env=environment, timeout=120, check=True)
    expected = json.loads((tmp_path / "local.json").read_text())
    assert len(expected["training"]) == 20
    assert json.loads((tmp_path / "cluster.json").read_text()) == expected


def test_two_clients_at_once_each_get_exact_results(cluster: Cluster) -> None:
    clients = [cluster.start(GANGS, "300", str(start)) for start in (0, 1000)]
    for client, expected in zip(clients, (300.0, 1300.0), strict=True):
        out, err = client.communicate(timeout=120)
        assert client.returncode == 0, err
        assert f"result [{expected}, {expected}]" in out


def test_nothing_but_the_script_speaks_on_its_output(cluster: Cluster) -> None:
    done = cluster.run(GANGS, "5", "0")
    assert done.stdout == "devices 2\nresult [5.0, 5.0]\n"
    assert done.stderr == ""


def test_exit_code_is_that_of_the_script(cluster: Cluster, tmp_path: Path) -> None:
    script = tmp_path / "exits.py"
    script.write_text("import jax, sys\nassert jax.device_count() == 2\nsys.exit(7)\n")
    assert cluster.run(str(script)).returncode == 7
