"""The counter of processes that were killed for want of memory, as both generations of control groups write it."""

from __future__ import annotations

from pathlib import Path

from pathways_worker.shell.out_of_memory import kills


def test_the_counter_of_the_own_group_is_read(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("0::/jobs/one\n")
    events = tmp_path / "jobs" / "one" / "memory.events"
    events.parent.mkdir(parents=True)
    events.write_text("low 0\nhigh 7\nmax 3\noom 2\noom_kill 5\n")
    assert kills(tmp_path, own) == 5


def test_older_groups_are_understood(tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("7:cpu,cpuacct:/\n4:memory:/jobs/one\n0::/\n")
    control = tmp_path / "memory" / "jobs" / "one" / "memory.oom_control"
    control.parent.mkdir(parents=True)
    control.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
    assert kills(tmp_path, own) == 2


def test_where_nothing_says_nobody_was_killed(tmp_path: Path) -> None:
    assert kills(tmp_path, tmp_path / "missing") == 0
    own = tmp_path / "cgroup"
    own.write_text("0::/gone\n")
    assert kills(tmp_path, own) == 0
    assert kills() >= 0
