"""Stands in for `pathways-server`: lists as ACTIVE every host whose fake worker has left a file in the state directory."""

from __future__ import annotations

import os
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
from pathways_proto.v1 import cluster_pb2, cluster_pb2_grpc


class _Clusters(cluster_pb2_grpc.ClustersServicer):  # type: ignore[misc]
    def __init__(self, state: Path) -> None:
        self._state = state

    def GetStatus(self, request: Any, context: Any) -> cluster_pb2.GetStatusResponse:  # noqa: N802
        token = (self._state / "token").read_text().strip()
        if dict(context.invocation_metadata()).get("authorization") != f"Bearer {token}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token was sent: set PATHWAYS_TOKEN")
        answer = cluster_pb2.GetStatusResponse(pathways_version="0.1.0", uptime_seconds=75)
        islands: dict[str, cluster_pb2.IslandStatus] = {}
        for path in sorted(self._state.glob("joined-*")):
            _, island, host = path.name.split("-")
            if island not in islands:
                islands[island] = answer.islands.add(name=island, state="ACTIVE", epoch=1, topology=[2, 1], device_kind="fast")
            islands[island].hosts.add(
                name=host, state="ACTIVE", device_count=1, pid=int(path.read_text()), coordinates=[int(host[1:]), 0],
                late_seconds=1.5 * int(host[1:]),
            )  # fmt: skip
        answer.sessions.add(session_number=3, client="me@here train.py", islands=["a"], programs=2)
        return answer


def main() -> int:
    options = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
    if os.environ.get("FAKE_CONTROLLER") == "dies":
        sys.stderr.write("the journal cannot be opened\n")
        return 4
    server = grpc.server(ThreadPoolExecutor(4))
    cluster_pb2_grpc.add_ClustersServicer_to_server(_Clusters(Path(options["--state-dir"])), server)
    port = server.add_insecure_port(options["--listen"])
    server.start()
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.append(number))
    print(f"listening grpc://127.0.0.1:{port}", flush=True)
    while not stopping:
        time.sleep(0.02)
    server.stop(0)
    return 0
