"""Runs a test in a fork of this process, which has imported what comes from elsewhere and nothing of the project.

Imports cost more than most tests that mutants name. What the fork imports of the project comes from the tree that it is given.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# What tests and the project import of others' packages; what is not here is imported by each fork that wants it.
FOREIGN = ("pytest", "numpy", "psutil", "multiprocessing.pool", "grpc.aio", "google.protobuf.json_format")


@dataclass(frozen=True)
class Ended:
    """How a fork ended: by itself with a code, or by force since its time was over; and what it wrote."""

    code: int
    late: bool
    output: str


def import_foreign() -> None:
    """Before the first fork."""
    for name in FOREIGN:
        importlib.import_module(name)
    gc.freeze()  # forks share it as long as they do not touch it
    strange = [name for name in sys.modules if name.partition(".")[0].startswith("pathways")]
    assert not strange, f"forks would have {strange} of this tree"


def run_pytest(tree: Path, output: Path, packages: Sequence[str], words: Sequence[str], timeout_s: float) -> Ended:
    """pytest with these words, in a fork that lies in this tree and finds these packages in it."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        _become_pytest(tree, output, packages, words)
    poller = select.poll()
    handle = os.pidfd_open(pid)
    try:
        poller.register(handle, select.POLLIN)
        late = not poller.poll(timeout_s * 1000)
    finally:
        os.close(handle)
    if late:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return Ended(os.waitstatus_to_exitcode(status), late, output.read_text(errors="replace"))


def _become_pytest(tree: Path, output: Path, packages: Sequence[str], words: Sequence[str]) -> None:
    """Never returns: what this process did before it forked is not to go on twice."""
    code = 1
    try:
        with output.open("wb") as stream, open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        os.chdir(tree)
        found = [str(tree), *(str(tree / package) for package in packages)]
        sys.path[:] = [*found, *sys.path[1:]]
        os.environ["PYTHONPATH"] = os.pathsep.join(found)
        import pytest

        code = int(pytest.main(list(words)))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
