"""`pathways run`: an unmodified script against a cluster. The exit code is the script's, and nothing is left behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import click
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_common.rpc.channels import parse_address

import pathways.startup
from pathways.cli.cluster import LocalCluster, Shape, living_processes
from pathways.cli.faults import Refusal
from pathways.cli.interpreter import NOT_EXECUTABLE, check_command
from pathways.cli.options import DEVICES, HOSTS, ISLANDS, address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.signals import Interrupts

_INTERRUPT_DELAY_S = 0.5
_TERM_GRACE_S = 10.0
_SECOND_GRACE_S = 5.0
_PLATFORMS = frozenset({"proxy", "cpu", "gpu", "cuda", "rocm", "tpu", "oneapi", "metal", "mps", "interpreter"})


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@address_option
@click.option(
    "--islands", type=ISLANDS, help="Start a cluster for this run with so many islands; more than 1: the script sees all."
)
@click.option("--hosts", type=HOSTS, help="Start a cluster for this run with so many hosts in each island.")
@click.option("--devices", type=DEVICES, help="Start a cluster for this run with so many devices on each host.")
@state_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def run(
    address: str | None, islands: int | None, hosts: int | None, devices: int | None, state: StateDir, command: tuple[str, ...]
) -> int:
    """Run an unmodified JAX script: pathways run -- python script.py ARGS.

    Uses the cluster of --address, $PATHWAYS_ADDRESS or `pathways up`; without one, or with --islands, --hosts or --devices,
    starts one on this machine for the time of the run.
    """
    if not command:
        raise click.UsageError("no command; write `pathways run -- python script.py ARGS`")
    own = islands is not None or hosts is not None or devices is not None
    if own and address:
        raise click.UsageError(
            "--address names a cluster that runs, --islands, --hosts and --devices start one: give one or the other"
        )
    _check_platforms(os.environ.get("JAX_PLATFORMS", ""))
    check_command(command, os.environ)
    found = None if own else _known_address(address, state)
    with Interrupts() as interrupts:
        if found is not None:
            with Controller(found, find_token(state)) as controller:
                controller.status()  # its sentence, before the script gets to work
            return _run(command, script_environment(os.environ, found, state.path / "token", False), interrupts)
        return _run_alone(Shape(islands or 1, hosts or 1, devices or 1), command, interrupts)


def _run_alone(shape: Shape, command: Sequence[str], interrupts: Interrupts) -> int:
    directory = Path(tempfile.mkdtemp(prefix="pathways-"))
    cluster = LocalCluster(shape, StateDir(directory), interrupts)
    try:
        seconds = cluster.start()
        if sys.stderr.isatty():
            sys.stderr.write(f"pathways: {shape.islands} x {shape.hosts} hosts, up in {seconds:.1f} s\n")
        base = {name: value for name, value in os.environ.items() if not name.startswith(("PATHWAYS_TOKEN", "PATHWAYS_TENANT"))}
        environment = script_environment(base, cluster.address, directory / "token", shape.islands > 1)
        return _run(command, environment, interrupts)
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)


def script_environment(environment: Mapping[str, str], address: str, token_file: Path, all_islands: bool) -> dict[str, str]:
    """What the script sees: where the cluster is, and the start-up hook."""
    result = dict(environment)
    hook = str(Path(pathways.startup.__file__).parent)
    result["JAX_PLATFORMS"] = "proxy,cpu"
    result["PATHWAYS_ADDRESS"] = f"grpc://{parse_address(address)}"
    # A door of somebody else's would be used before the cluster that was asked for.
    result.pop("JAX_BACKEND_TARGET", None)
    if not any(name in environment for name in ("PATHWAYS_TOKEN", "PATHWAYS_TOKEN_FILE")) and token_file.exists():
        result["PATHWAYS_TOKEN_FILE"] = str(token_file)
    if all_islands:
        result["PATHWAYS_ISLANDS"] = "all"
    result["PATHWAYS_STARTUP_HOOK"] = hook
    result["PYTHONPATH"] = os.pathsep.join([hook, *filter(None, [environment.get("PYTHONPATH")])])
    return result


def _known_address(address: str | None, state: StateDir) -> str | None:
    if address or os.environ.get("PATHWAYS_ADDRESS"):
        return find_address(address, state)
    cluster = state.read_cluster() or {}
    # What a killed `pathways up` left behind is no cluster.
    return find_address(None, state) if cluster.get("ready") and any(living_processes(cluster)) else None


def _check_platforms(platforms: str) -> None:
    for name in filter(None, (part.strip().lower() for part in platforms.split(","))):
        if name not in _PLATFORMS:
            raise Refusal(f"JAX_PLATFORMS names {name!r}, which is no platform; unset it, `pathways run` sets it to proxy,cpu")


def _run(command: Sequence[str], environment: Mapping[str, str], interrupts: Interrupts) -> int:
    interrupts.check()
    try:
        process = subprocess.Popen(command, env=dict(environment))
    except OSError as error:
        raise Refusal(f"{command[0]} could not be started ({error.strerror})", NOT_EXECUTABLE) from None
    seen = 0
    interrupt_at = kill_at = float("inf")
    while True:
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout=0.05)
            return code if code >= 0 else 128 - code
        while seen < interrupts.count:
            seen += 1
            if seen == 1 and interrupts.first == signal.SIGINT:
                interrupt_at = _when_to_interrupt()
            else:
                kill_at = min(kill_at, _end(process, seen, interrupts.first))
        if time.monotonic() >= interrupt_at:
            interrupt_at = float("inf")
            process.send_signal(signal.SIGINT)
        if time.monotonic() >= kill_at:
            process.kill()


def _when_to_interrupt() -> float:
    """When the first Ctrl-C is to be passed on to the script (monotonic seconds).

    Never from a terminal, which sends it to the script as well; a second one would hit the script while it cleans up. Otherwise
    soon, but not at once, in case the whole process group got it.
    """
    return float("inf") if _in_foreground() else time.monotonic() + _INTERRUPT_DELAY_S


def _end(process: subprocess.Popen[bytes], count: int, number: int) -> float:
    """Asks the script to end, at the third signal without asking; returns when it is to be killed (monotonic seconds)."""
    if count > 2:
        return time.monotonic()
    if count == 1:
        process.send_signal(number)
        return time.monotonic() + _TERM_GRACE_S
    process.terminate()
    return time.monotonic() + _SECOND_GRACE_S


def _in_foreground() -> bool:
    """Whether a Ctrl-C typed at the terminal goes to this process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
