"""Whatever becomes of a test with a cluster, nothing of the cluster stays in the folder for temporary files."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster, running_cluster
from tests.e2e.faults.three_hosts import ThreeHosts, three_hosts


@pytest.mark.parametrize(("kind", "running"), [(Cluster, running_cluster), (ThreeHosts, three_hosts)])
@pytest.mark.parametrize("fault", ["up", "test", "down"])
def test_a_cluster_that_fails_leaves_no_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: type[Cluster], running: Any, fault: str
) -> None:
    """Without a process: what it starts and stops is played."""

    def played(name: str) -> Any:
        def play(cluster: Cluster) -> subprocess.CompletedProcess[str]:
            assert cluster.state.parent == tmp_path
            (cluster.state / "written").write_text(name)
            if name == fault:
                raise OSError(name)
            return subprocess.CompletedProcess([], 0, "", "")

        return play

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("up", "down"):
        monkeypatch.setattr(kind, name, played(name))
    monkeypatch.setattr(kind, "check_leaks", lambda *_: None)
    context: AbstractContextManager[Cluster] = running()

    def use() -> None:
        with context:
            if fault == "test":
                raise OSError(fault)

    with pytest.raises(OSError, match=fault):
        use()
    assert list(tmp_path.iterdir()) == []
