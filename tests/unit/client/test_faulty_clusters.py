"""A cluster with faults leaves nothing when it is asked for wrongly, and its scripts' lines end when their output does."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from pathways.testing import FaultyCluster, Lines


def test_a_wrong_argument_is_refused_before_anything_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ValueError, match="64Q") as refused:  # what it holds lives as long as its traceback
        FaultyCluster(device_memory="64Q")
    assert refused.value
    assert not list(tmp_path.iterdir())
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_who_waits_for_a_line_of_a_process_that_has_ended_hears_so_at_once() -> None:
    command = [sys.executable, "-c", "print('first'); print('last'); raise SystemExit(3)"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    lines = Lines(process)
    began_s = time.monotonic()
    assert [lines.next(60) for _ in range(4)] == ["first", "last", None, None]
    assert time.monotonic() - began_s < 30
    assert process.poll() == 3
    assert lines.drain() == []
