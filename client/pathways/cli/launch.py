"""Starts the daemons of a local cluster as child processes, each with a log file, and ends them.

They run in sessions of their own, so that Ctrl-C reaches the command alone, which then stops them in order. Unless they are to
stay, the kernel ends them should the command be killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pathways_common.process.child import start_time

GRACE_S = 8.0
_TAIL_BYTES = 16384
_CLIENT_ONLY = (
    "JAX_", "IFRT_PROXY_", "PATHWAYS_ADDRESS", "PATHWAYS_TOKEN", "PATHWAYS_TENANT", "PATHWAYS_ISLANDS", "PATHWAYS_STATE_DIR"
)  # fmt: skip


@dataclass(slots=True)
class Daemon:
    """One child process."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path
    started: int | None

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def tail(self, lines: int = 12) -> str:
        """The end of its log."""
        return tail(self.log, lines)


def daemon_environment() -> dict[str, str]:
    """This environment without what is meant for JAX programs or names some other cluster."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_CLIENT_ONLY)}


def spawn(name: str, module: str, arguments: Sequence[str], log: Path, environment: dict[str, str], stay: bool) -> Daemon:
    """Starts `module:main` with the interpreter of this command. Its stdout and stderr go to `log`, which is written anew."""
    leash = "" if stay else f"from pathways_common.process.child import die_with_parent; die_with_parent({os.getpid()}); "
    program = f"{leash}from {module} import main; raise SystemExit(main())"
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            # -P: nothing in the current directory may become a module of the daemon.
            [sys.executable, "-P", "-c", program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            env={**environment, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    return Daemon(name, process, log, start_time(process.pid))


def stop(groups: Sequence[Sequence[Daemon]], impatient: Callable[[], bool], grace_s: float = GRACE_S) -> None:
    """Ends the groups one after the other: SIGTERM, and SIGKILL after the grace, or at once when the user is impatient."""
    for group in groups:
        running = [daemon for daemon in group if daemon.exit_code is None]
        for daemon in running:
            _signal(daemon, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while (running := [daemon for daemon in running if daemon.exit_code is None]) and time.monotonic() < deadline:
            if impatient():
                break
            time.sleep(0.02)
        for daemon in running:
            _signal(daemon, signal.SIGKILL)
        for daemon in running:
            with suppress(subprocess.TimeoutExpired):
                daemon.process.wait(timeout=5.0)


def _signal(daemon: Daemon, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        daemon.process.send_signal(number)


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a file; empty if there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = stream.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


def how_it_ended(exit_code: int) -> str:
    """An exit code in words."""
    if exit_code >= 0:
        return f"ended with exit code {exit_code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-exit_code).name}"
    return f"was ended by signal {-exit_code}"
