"""What the kernel says of processes, and stacks of one that keeps its interpreter to itself."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from pathways_common.process import condition

# Computes inside one call of C code that never lets go of the interpreter: no Python code of any thread runs meanwhile.
_GREEDY = """
import sys
from pathways_common.process.condition import keep_stacks
keep_stacks(2)
def keeps_the_interpreter():
    sys.stderr.write("ready\\n")
    sys.stderr.flush()
    sum(range(1 << 60))
keeps_the_interpreter()
"""


def until(check: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline_s, f"waited for {what}"
        time.sleep(0.01)


def test_a_process_that_keeps_the_interpreter_to_itself_still_writes_its_stacks(tmp_path: Path) -> None:
    output = tmp_path / "stderr"
    with output.open("wb") as stream, subprocess.Popen([sys.executable, "-c", _GREEDY], stderr=stream) as process:
        try:
            until(lambda: "ready" in output.read_text(), "the process")
            before = condition.look(process.pid)
            assert before is not None
            assert before.keeps_stacks
            used_ns = condition.cpu_ns(process.pid)
            os.kill(process.pid, condition.STACKS_SIGNAL)
            until(lambda: "keeps_the_interpreter" in output.read_text(), "its stacks")
            until(lambda: (now := condition.look(process.pid)) is not None and now.cpu_s > before.cpu_s, "it to compute")
            until(lambda: condition.cpu_ns(process.pid) > used_ns, "what it uses to be counted")
        finally:
            process.kill()
    assert condition.look(process.pid) is None
    assert condition.cpu_ns(process.pid) == 0


def test_a_stopped_process_is_seen_as_such_and_one_without_a_handler_is_not_to_be_asked() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            plain = condition.look(process.pid)
            assert plain is not None
            assert not plain.keeps_stacks
            assert condition.why_silent(plain, 1).startswith("keeps no stacks")
            process.send_signal(signal.SIGSTOP)
            until(lambda: (now := condition.look(process.pid)) is not None and now.stopped, "it to stop")
            stopped = condition.look(process.pid)
            assert stopped is not None
            assert condition.why_silent(stopped, 1) == "cannot answer: state T (stopped); SIGCONT lets it go on"
        finally:
            process.kill()
    assert condition.why_silent(None, 1) == "is gone"


def test_figures_of_this_process_are_those_that_the_kernel_shows() -> None:
    now = condition.look(os.getpid())
    assert now is not None
    kilobytes = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert kilobytes is not None
    assert abs(now.resident_bytes - int(kilobytes[1]) * 1024) < 64 << 20
    assert any(thread.id == os.getpid() for thread in now.threads)
    total, available = condition.memory_of_machine()
    assert 0 < available < total
