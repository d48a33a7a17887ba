"""A process is known by pid and start time, ends when asked or forced, and dies with its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from pathways_common.process.child import alive, start_time, terminate

_SLEEP = "import time; time.sleep(60)"


def _wait_until(condition: object, timeout_s: float = 60.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.01)
    return False


def test_a_process_is_alive_under_its_own_start_time_only() -> None:
    started = start_time(os.getpid())
    assert started is not None
    assert alive(os.getpid(), started)
    assert not alive(os.getpid(), started + 1)
    assert not alive(os.getpid(), None)


def test_terminate_ends_a_process_and_leaves_a_stranger_alone() -> None:
    child = subprocess.Popen([sys.executable, "-c", _SLEEP])
    started = start_time(child.pid)
    assert started is not None
    assert not terminate(child.pid, started + 1, 1.0)
    assert child.poll() is None
    assert terminate(child.pid, started, 5.0)
    assert child.wait(60) == -15
    assert not terminate(child.pid, started, 1.0)


def test_terminate_forces_a_process_that_ignores_the_request() -> None:
    program = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); " + _SLEEP
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert terminate(child.pid, start_time(child.pid), 0.2)
        assert child.wait(60) == -9


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", _SLEEP])
    started = start_time(child.pid)
    child.kill()
    assert _wait_until(lambda: not alive(child.pid, started))
    child.wait(60)


def test_a_child_dies_with_its_parent() -> None:
    imports = "import os; from pathways_common.process.child import die_with_parent"
    grandchild = f"{imports}; die_with_parent(); print(os.getpid(), flush=True); {_SLEEP}"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {grandchild!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        pid = int(child.stdout.readline())
        started = start_time(pid)
        assert alive(pid, started)
        child.kill()
        assert _wait_until(lambda: not alive(pid, started))
