"""A controller that is killed and started again under a running script, which goes on with the numbers of plain arithmetic."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import wait_until
from tests.e2e.test_dropped_links import Linked, read_until, stepping

LOCAL = "127.0.0.1"


class Restartable(Linked):
    """Two hosts that reach the controller without a proxy."""

    hosts_at = LOCAL

    def kill_and_start_again(self) -> None:
        """SIGKILL; another life comes up on the same state directory."""
        controller = self.daemons["controller"]
        controller.kill()
        controller.wait(20)
        self.start_controller()


@pytest.fixture(scope="module")
def restartable() -> Iterator[Restartable]:
    with tempfile.TemporaryDirectory(prefix="pathways-test-") as folder:
        os.chmod(folder, 0o700)
        cluster = Restartable(1, 2, 1, Path(folder))
        try:
            cluster.up()
            cluster.join()
            yield cluster
        finally:
            cluster.stop()
            left = cluster.end_leftovers()
        assert not left, f"processes were left: {left}"


@pytest.mark.cluster
def test_a_script_goes_on_where_the_controller_was_killed(restartable: Restartable) -> None:
    before = (restartable.incarnations(), restartable.epoch())
    with stepping(restartable, LOCAL, 100) as lines:
        sessions = restartable.session_numbers()
        for step in (20, 60):
            read_until(lines, step)
            restartable.kill_and_start_again()
        read_until(lines, 80)
        assert restartable.session_numbers() == sessions
    wait_until(restartable.active, "both hosts to be ACTIVE still")
    assert (restartable.incarnations(), restartable.epoch()) == before
    restartable.check_leaks(set())
