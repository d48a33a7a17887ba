"""What a user gets wrong, on a real cluster: one clear sentence each, no traceback of ours, and a failing exit code."""

from __future__ import annotations

import platform
import shutil
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import grpc
import pytest
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import parse_address
from pathways_proto.v1 import sessions_pb2, sessions_pb2_grpc

from tests.cluster import PATHWAYS, Cluster, free_port, plain_environment

pytestmark = pytest.mark.cluster


def _pathways(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PATHWAYS, *words], env=plain_environment() | environment, capture_output=True, text=True, timeout=120, check=False
    )


def _python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env=plain_environment() | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence on stderr of a command."""
    assert done.returncode != 0
    lines = done.stderr.splitlines()
    assert lines, "a sentence on stderr"
    assert lines[0].startswith("pathways: ")
    assert "Traceback" not in done.stderr
    return lines[0]


def _raised(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of a plain script that raised."""
    assert done.returncode != 0
    assert "pathways/_door.py" not in done.stderr.splitlines()[-2]
    return done.stderr.splitlines()[-1]


def _run(cluster: Cluster, program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    words = ("run", "--address", cluster.address, "--", sys.executable, "-c", program)
    return _pathways(*words, **({"PATHWAYS_STATE_DIR": str(cluster.state)} | environment))


def test_unknown_platform_is_named(cluster: Cluster) -> None:
    done = _run(cluster, "import jax; jax.devices()", JAX_PLATFORMS="prox")
    assert "JAX_PLATFORMS names 'prox', which is no platform" in _sentence(done)


def test_wrong_address_is_named(cluster: Cluster) -> None:
    assert "is not an address; write grpc://HOST:PORT" in _sentence(_pathways("status", "--address", "http://x"))
    done = _python("import pathways as pw; pw.connect('nowhere')")
    assert "'nowhere' is not an address; write grpc://HOST:PORT" in _raised(done)


def test_controller_that_is_not_up() -> None:
    address = f"grpc://127.0.0.1:{free_port()}"
    assert f"no controller answers at {address}" in _sentence(
        _pathways("run", "--address", address, "--", sys.executable, "-c", "1")
    )
    assert f"no session with the controller at {address}" in _raised(_python(f"import pathways as pw; pw.connect('{address}')"))
    plain = _python("import jax; jax.devices()", JAX_PLATFORMS="proxy", PATHWAYS_ADDRESS=address)
    assert f"no session with the controller at {address}" in _raised(plain)


def test_port_where_something_else_listens() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = _pathways("up", "--port", str(port))
    assert f"port {port} is in use; choose another with --port" in _sentence(done)


def test_no_token_and_a_wrong_token(cluster: Cluster, tmp_path: Path) -> None:
    elsewhere = {"PATHWAYS_STATE_DIR": str(tmp_path)}
    assert "no token was sent: set PATHWAYS_TOKEN" in _sentence(_run(cluster, "1", **elsewhere))
    assert "the token is wrong" in _sentence(_run(cluster, "1", PATHWAYS_TOKEN="nonsense"))
    done = _python(f"import pathways as pw; pw.connect('{cluster.address}')", **elsewhere)
    assert "no token was sent: set PATHWAYS_TOKEN" in _raised(done)


def test_version_that_does_not_match(cluster: Cluster) -> None:
    token = (cluster.state / "token").read_text().strip()
    hello = sessions_pb2.ClientFrame(hello=sessions_pb2.Hello(pathways_version="99.0.0", client="a test"))
    with grpc.insecure_channel(parse_address(cluster.address), options=[("grpc.enable_http_proxy", 0)]) as channel:
        call = sessions_pb2_grpc.SessionsStub(channel).Connect(iter([hello]), metadata=bearer(token), timeout=30)
        failure = next(call).refused.failure
        call.cancel()
    assert failure.reason == "VERSION_MISMATCH"
    assert failure.message.startswith("the client has pathways 99.0.0 (protocol 1) and the controller has ")
    assert "have the controller upgraded to 99.0.0" in failure.message
    # A table of both sides, and of the workers.
    assert [line.split()[0] for line in failure.message.splitlines()[2:]] == ["client", "controller", "worker"]


def test_host_that_is_not_there_in_time(tmp_path: Path) -> None:
    # No executor starts within this time, so the wait for one has to end.
    text = _sentence(_pathways("up", "--port", "0", "--timeout", "0.2", "--state-dir", str(tmp_path)))
    assert "within 0.2 s; " in text
    assert not (tmp_path / "cluster.json").exists()


def test_jax_already_initialised_before_connect(cluster: Cluster) -> None:
    done = _python(f"import jax; jax.devices(); import pathways as pw; pw.connect('{cluster.address}')", JAX_PLATFORMS="cpu")
    assert "call pw.connect() before the first JAX call" in _raised(done)


def test_python_that_lacks_our_package(cluster: Cluster, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True, timeout=60)
    python = shutil.which("python", path=str(tmp_path / "bare" / "bin"))
    assert python is not None
    done = _pathways("run", "--address", cluster.address, "--", python, "script.py")
    assert f"{python} (Python " in _sentence(done)
    assert f"has no package `pathways`: run the script with {sys.executable}" in _sentence(done)


@pytest.mark.parametrize("arguments", ["", "'127.0.0.1:1', 1, 0"])
def test_jax_distributed_initialize_in_the_script(cluster: Cluster, arguments: str) -> None:
    done = _run(cluster, f"import jax; jax.distributed.initialize({arguments})")
    assert done.returncode == 1
    assert "jax.distributed.initialize() has no place in a script" in _sentence(done)


def test_island_that_does_not_exist(cluster: Cluster) -> None:
    done = _run(cluster, "import jax; jax.devices()", PATHWAYS_ISLANDS="zz")
    assert "zz" in _sentence(done)


def test_connect_in_a_script_and_back_to_local_jax(cluster: Cluster) -> None:
    program = f"""
import pathways as pw
with pw.connect("{cluster.address}") as connection:
    import jax, jax.numpy as jnp
    assert jax.device_count() == connection.device_count == 2
    assert jax.devices()[1].host_name == "a1"
    assert float(jnp.arange(4.0).sum()) == 6.0
    print(connection.versions)
assert jax.devices()[0].platform == "cpu" and not hasattr(jax.devices()[0], "host_name")
assert float(jnp.arange(4.0).sum()) == 6.0
"""
    done = _python(program, PATHWAYS_STATE_DIR=str(cluster.state))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    # One line compares client, door, controller and workers; all are of this installation, and the controller has no JAX.
    (line,) = done.stdout.splitlines()
    parts = dict(part.split(": ") for part in line.split("; "))
    assert list(parts) == ["client and door, worker a0, worker a1", "controller"], line
    installed = {name: version(name) for name in ("pathways", "jax", "jaxlib")} | {"python": platform.python_version()}
    for names, words in parts.items():
        told = dict(word.split(" ") for word in words.split(", "))
        known = installed if "client" in names else {name: installed[name] for name in ("pathways", "python")}
        assert {name: number for name, number in told.items() if name != "protocol"} == known
