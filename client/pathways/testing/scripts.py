"""Scripts against a cluster, as a user runs them: `pathways run -- python ...`, with their output line by line and deadlines."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import parse_address
from pathways_proto.v1 import cluster_pb2, cluster_pb2_grpc

PATHWAYS = str(Path(sys.executable).with_name("pathways"))
_EXIT_S = 1.0
# What would choose JAX's devices, or find another cluster, in a process that inherits our environment.
_FOREIGN = ("JAX_", "XLA_", "IFRT_", "PATHWAYS_")


def plain_environment() -> dict[str, str]:
    """Ours without what is meant for JAX or names a cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """Polls; raises AssertionError that says what was waited for."""
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline_s, f"waited {timeout_s} s for {what}"
        time.sleep(0.05)


class Scripts:
    """Runs scripts against one cluster and asks it how it is. `state` is its state directory, `address` what clients dial."""

    def __init__(self, address: str, state: Path, environment: Mapping[str, str], folder: Path | None = None) -> None:
        """`folder`: where scripts run; else where we do."""
        self.address = address
        # Where the controller is asked how it is.
        self.direct = address
        self.state = state
        self.environment = dict(environment)
        self.folder = folder
        # What runs them; beside it is the command `pathways` of the same environment.
        self.python = sys.executable

    def command(self, *words: str) -> list[str]:
        """`pathways run --address ... -- python WORDS`."""
        pathways = str(Path(self.python).with_name("pathways"))
        return [pathways, "run", "--address", self.address, "--", self.python, *words]

    def start(self, *words: str, islands: str = "", stdin: bool = False, **environment: str) -> subprocess.Popen[str]:
        """Starts it in a process group of its own, as a shell starts a command; `stdin`: with a pipe to it."""
        chosen = {"PATHWAYS_ISLANDS": islands} if islands else {}
        return subprocess.Popen(
            self.command(*words),
            env=self.environment | chosen | environment,
            cwd=self.folder,
            stdin=subprocess.PIPE if stdin else None,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(
        self, *words: str, islands: str = "", timeout_s: float = 120.0, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """The same, to its end; AssertionError with the output and the logs if that takes longer than the timeout."""
        process = self.start(*words, islands=islands, stdin=False, **environment)
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=20)
            raise AssertionError(f"the script took longer than {timeout_s} s:\n{out}{err}{self.logs()}") from None
        finally:
            if process.poll() is None:
                process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def status(self) -> cluster_pb2.GetStatusResponse:
        """Islands, hosts and sessions."""
        answer: cluster_pb2.GetStatusResponse = self.ask("GetStatus", cluster_pb2.GetStatusRequest())
        return answer

    def ask(self, method: str, request: Any, timeout_s: float = 30, token: str | None = None) -> Any:
        """A call of the Clusters service, with the cluster's token unless another one is given."""
        token = (self.state / "token").read_text().strip() if token is None else token
        with grpc.insecure_channel(parse_address(self.direct), options=[("grpc.enable_http_proxy", 0)]) as channel:
            stub = cluster_pb2_grpc.ClustersStub(channel)
            return getattr(stub, method)(request, metadata=bearer(token), timeout=timeout_s)

    def logs(self, lines: int = 15) -> str:
        """The ends of all logs, for a failure's message."""
        ends = []
        for path in sorted((self.state / "logs").glob("*.log")):
            ends.append(f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-lines:]))
        return "\n" + "\n".join(ends)


class Lines:
    """Lines of a process's output as they come. It is read all the time: a full pipe would stop the script."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        # None: its end.
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._process = process
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            for line in self._process.stdout:
                self._lines.put(line.strip())
        finally:
            self._lines.put(None)

    def next(self, timeout_s: float) -> str | None:
        """None when no line comes in time, and at once when none can come: the output has ended."""
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if line is None:
            self._lines.put(None)
            with suppress(subprocess.TimeoutExpired):  # its code comes a moment later
                self._process.wait(min(timeout_s, _EXIT_S))
        return line

    def drain(self) -> list[str]:
        """Everything up to the first half second of silence."""
        lines = []
        while (line := self.next(0.5)) is not None:
            lines.append(line)
        return lines


def end_script(process: subprocess.Popen[str]) -> None:
    """Ends a script: asks, waits, kills."""
    process.terminate()
    try:
        process.wait(20)
    finally:
        process.kill()
