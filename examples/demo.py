"""What `make run` does: a cluster of 2 islands x 2 hosts on this machine, training on it, the same training on local JAX.

The two runs must agree to the last bit; the exit code says whether they did. Whatever happens, the cluster is stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

SCRIPT = Path(__file__).with_name("train_lm.py")
PATHWAYS = str(Path(sys.executable).with_name("pathways"))
HOSTS_PER_ISLAND = 2
READY_TIMEOUT_S = 150


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def run(command: list[str], environment: dict[str, str], timeout_s: float | None = None) -> None:
    """Runs it with our terminal; raises SystemExit with one sentence when it fails."""
    try:
        code = subprocess.run(command, env=environment, timeout=timeout_s, check=False).returncode
    except subprocess.TimeoutExpired:
        raise SystemExit(
            f"`{Path(command[0]).name} {command[1]}` took longer than {timeout_s} s; the logs are in the state directory"
        ) from None
    if code:
        raise SystemExit(f"`{Path(command[0]).name} {command[1]}` ended with exit code {code}")


def plain_environment() -> dict[str, str]:
    """Ours without whatever would choose JAX's devices."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "PATHWAYS_", "IFRT_"))}


def train_on_cluster(state: Path, arguments: list[str], losses: Path) -> None:
    environment = plain_environment() | {"PATHWAYS_STATE_DIR": str(state)}
    port = free_port()
    up = [PATHWAYS, "up", "--islands", "2", "--hosts", str(HOSTS_PER_ISLAND), "--devices", "1", "--port", str(port)]
    train = [PATHWAYS, "run", "--address", f"grpc://127.0.0.1:{port}", "--", sys.executable, str(SCRIPT), *arguments]
    down = [PATHWAYS, "down", "--state-dir", str(state)]
    try:
        run([*up, "--detach", "--state-dir", str(state)], environment, READY_TIMEOUT_S)
        run([*train, "--losses-out", str(losses)], environment | {"PATHWAYS_ISLANDS": "all"})
    except BaseException:
        subprocess.run(down, env=environment, timeout=READY_TIMEOUT_S, check=False)
        raise
    run(down, environment, READY_TIMEOUT_S)


def train_locally(arguments: list[str], losses: Path) -> None:
    environment = plain_environment() | {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": str(HOSTS_PER_ISLAND)}
    run([sys.executable, str(SCRIPT), *arguments, "--losses-out", str(losses)], environment)


def compare(ours: Path, local: Path) -> bool:
    """True when every loss has the same bits on both sides; prints the verdict."""
    ours_losses, local_losses = json.loads(ours.read_text()), json.loads(local.read_text())
    for name, expected in local_losses.items():
        got = ours_losses[name]
        different = [index for index, pair in enumerate(zip(got, expected, strict=False)) if pair[0] != pair[1]]
        if len(got) != len(expected):
            print(f"NOT identical: {len(got)} {name} losses on the cluster, {len(expected)} locally")
            return False
        if different:
            first = different[0]
            print(f"NOT identical: {name} loss {first} is {got[first]} on the cluster and {expected[first]} locally")
            return False
        print(f"bit-identical: all {len(got)} {name} losses, {HOSTS_PER_ISLAND} hosts and local JAX with as many devices")
    return True


def stop(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit("stopped")


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    arguments = sys.argv[1:]
    started_s = time.monotonic()
    state = Path(tempfile.mkdtemp(prefix="pathways-demo-"))
    try:
        print("== on the cluster: 2 islands x 2 hosts; one island trains, the other evaluates", flush=True)
        train_on_cluster(state, arguments, state / "cluster.losses")
        print("\n== on plain local JAX with 2 devices, same script, same seed", flush=True)
        train_locally(arguments, state / "local.losses")
        print(flush=True)
        same = compare(state / "cluster.losses", state / "local.losses")
    except (SystemExit, KeyboardInterrupt) as reason:
        print(f"\nThe demonstration stopped: {reason or 'interrupted'}. Logs are in {state / 'logs'}.", file=sys.stderr)
        return 1
    shutil.rmtree(state, ignore_errors=True)
    print(f"took {time.monotonic() - started_s:.0f} s")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
