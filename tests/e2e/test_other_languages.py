"""Clients in Node.js and C++ work on a real cluster, also with a program that Python registered; ports say what they serve."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from pathways_common.rpc.channels import parse_address

from tests.cluster import ROOT, Cluster
from tests.tools import needs

pytestmark = pytest.mark.cluster
SCRIPTS = Path(__file__).with_name("scripts")
BUILD = ROOT / "build"
NAME = "examples/double"


def done(command: list[str], timeout_s: float, cwd: Path = ROOT, **environment: str) -> str:
    """Runs to the end; its output."""
    finished = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert finished.returncode == 0, f"{' '.join(command)} ended with {finished.returncode}:\n{finished.stdout}{finished.stderr}"
    return finished.stdout


@pytest.fixture(scope="module")
def node_example() -> list[str]:
    """In a folder of its own, as deep as the example's, so that packages stay out of the tree."""
    needs("the example in Node.js", "node", "npm")
    folder = BUILD / "node"
    folder.mkdir(parents=True, exist_ok=True)
    for path in (ROOT / "examples/node").iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    quiet = ["--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel", "error"]
    done(["npm", "install", *quiet], 180, folder)
    return ["node", str(folder / "example.js")]


@pytest.fixture(scope="module")
def cpp_example() -> list[str]:
    needs("the example in C++", "make", "g++", "pkg-config", "protoc", "grpc_cpp_plugin")
    out = BUILD / "cpp"
    # What is compiled runs for a second, what compiles it for many: nothing is optimized.
    done(["make", "-s", "-j2", f"BUILD={out}", str(out / "example")], 300, ROOT / "examples/cpp", CXXFLAGS="-O0 -Wall -Wextra")
    return [str(out / "example")]


@pytest.fixture(scope="module")
def registered(cluster: Cluster) -> str:
    """The version under which a Python client, which has ended since, registered its program."""
    ended = cluster.run(str(SCRIPTS / "register_double.py"), NAME)
    assert ended.returncode == 0, ended.stderr + cluster.logs()
    return ended.stdout.split()[-1]


def run_example(command: list[str], cluster: Cluster) -> list[str]:
    out = done([*command, NAME], 120, PATHWAYS_ADDRESS=cluster.address, PATHWAYS_STATE_DIR=str(cluster.state), PATHWAYS_TOKEN="")
    return out.splitlines()


def test_node_runs_programs_of_its_own_and_one_by_name(cluster: Cluster, node_example: list[str], registered: str) -> None:
    lines = run_example(node_example, cluster)
    assert lines[1:] == [
        "add_and_sum on devices 0,1: y = 1..8, total = 36 on both",
        "65536 numbers went to the hosts and came back, straight, under tickets",
        "text that does not parse is refused, and the session goes on",
        "work that had not begun was cancelled",
        f"program {NAME}, version {registered}: 2 x + 1 on 2 devices",
        "goodbye",
    ]


def test_cpp_runs_programs_of_its_own_and_one_by_name(cluster: Cluster, cpp_example: list[str], registered: str) -> None:
    lines = run_example(cpp_example, cluster)
    assert lines[1:] == [
        "add_and_sum of 8 numbers on two devices is right",
        "add_and_sum of 65536 numbers on two devices is right",
        f"program {NAME}, version {registered}: 2 x + 1 on 2 devices",
        "goodbye",
    ]


def test_a_client_with_a_wrong_token_gets_one_sentence(cluster: Cluster, cpp_example: list[str]) -> None:
    environment = os.environ | {"PATHWAYS_ADDRESS": cluster.address, "PATHWAYS_TOKEN": "wrong"}
    ended = subprocess.run(cpp_example, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("the token is wrong: ")


def served(address: str) -> set[str]:
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        answer = next(iter(stub.ServerReflectionInfo(iter([request]), timeout=10)))
        return {service.name for service in answer.list_services_response.service}


def healthy(address: str, service: str) -> bool:
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=10)
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


def test_controller_and_workers_say_what_they_serve_and_that_they_are_well(cluster: Cluster) -> None:
    controller = parse_address(cluster.address)
    assert {"pathways.v1.Sessions", "pathways.v1.Clusters", "grpc.health.v1.Health"} <= served(controller)
    assert all(healthy(controller, name) for name in ("", "pathways.v1.Sessions", "pathways.v1.Clusters"))
    for host in cluster.status().islands[0].hosts:
        assert {"pathways.v1.Data", "grpc.health.v1.Health"} <= served(host.data_address)
        assert healthy(host.data_address, "pathways.v1.Data")
