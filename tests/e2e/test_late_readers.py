"""A restore in which one host's part, or that of two, takes far longer than its deadline.

It fails in time and names exactly the late hosts; the same session restores everything afterwards. Storage is asked for through
pathwaysutils (`make ecosystem` installs it).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cluster import Cluster, running_cluster
from tests.e2e.lines import Lines, stop

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
SCRIPT = str(Path(__file__).with_name("scripts") / "late_reader.py")
VALUES = np.arange(12, dtype=np.int32)
HOSTS = ["a0", "a1", "a2"]
# What a restore may take, and what is promised for its end: a second, and half of one for a machine that others use.
DEADLINE_S, PROMISED_S = 5, 1.5
WAIT_S = 50.0


@pytest.fixture(scope="module")
def three() -> Iterator[Cluster]:
    with running_cluster(islands=1, hosts=3, devices=1, PATHWAYS_WORKER_PYTHON_TIMEOUT_S=str(DEADLINE_S)) as running:
        yield running


class Reader:
    """The script, spoken with."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process, self._lines = process, Lines(process)

    def hear(self) -> dict[str, Any]:
        said = self._lines.next(WAIT_S)
        assert said is not None, "the script says nothing"
        found: dict[str, Any] = json.loads(said)
        return found

    def restore(self, late: Sequence[str]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(",".join(late or ["nobody"]) + "\n")
        self._process.stdin.flush()
        return self.hear()


@contextmanager
def reading(cluster: Cluster, *words: str) -> Iterator[Reader]:
    process = cluster.start(SCRIPT, *words, stdin=True)
    try:
        reader = Reader(process)
        assert reader.hear()["hosts"] == HOSTS
        yield reader
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(WAIT_S) == 0
    finally:
        stop(process)


def check_late(told: dict[str, Any], hosts: Sequence[str]) -> None:
    assert told.get("failed") == "TimedOutError", told
    assert set(re.findall(r"\ba\d\b", told["message"])) == set(hosts), told
    assert told["host"] in hosts
    assert DEADLINE_S - 0.5 < told["took_s"] < DEADLINE_S + PROMISED_S, told


def check_whole(told: dict[str, Any]) -> None:
    assert told.get("value") == VALUES.tolist(), told


@pytest.mark.parametrize("late", [["a1"], ["a0", "a2"]])
def test_calls_of_colocated_python_that_take_too_long_are_told_with_their_hosts(three: Cluster, late: list[str]) -> None:
    with reading(three, "python", str(DEADLINE_S)) as reader:
        check_whole(reader.restore([]))
        check_late(reader.restore(late), late)
        check_whole(reader.restore([]))


@contextmanager
def unreadable(chunks: Sequence[Path]) -> Iterator[None]:
    """Whoever opens one of these waits until it is over, as on a file server that is away."""
    kept = {chunk: chunk.read_bytes() for chunk in chunks}
    for chunk in chunks:
        chunk.unlink()
        os.mkfifo(chunk)
    try:
        yield
    finally:
        for chunk, data in kept.items():
            with suppress(OSError):  # nobody waits there
                os.close(os.open(chunk, os.O_WRONLY | os.O_NONBLOCK))
            chunk.unlink()
            chunk.write_bytes(data)


@pytest.mark.parametrize("late", [["a1"], ["a0", "a2"]])
def test_hosts_whose_part_of_a_restore_is_not_read_in_time_are_named(three: Cluster, tmp_path: Path, late: list[str]) -> None:
    with reading(three, "storage", str(tmp_path), str(DEADLINE_S)) as reader:
        check_whole(reader.restore([]))
        # A chunk per shard, and a shard per host, in their order.
        with unreadable([tmp_path / "x" / str(HOSTS.index(host)) for host in late]):
            check_late(reader.restore(late), late)
        check_whole(reader.restore([]))
