"""The fixture `pathways_cluster`: a cluster with faults to order, for tests of users.

    @pytest.mark.pathways_cluster(hosts=2)
    def test_training_survives_a_lost_host(pathways_cluster): ...

Tests that want the same shape share a cluster, which must be whole again within a minute after each; if it is not, the next test
gets a new one. pytest loads this module wherever this project is installed, so it imports nothing before it is asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathways.testing import FaultyCluster

_MARK = "pathways_cluster"


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known."""
    words = "the shape of the cluster that the fixture pathways_cluster gives"
    config.addinivalue_line("markers", f"{_MARK}(islands=1, hosts=2, devices=1, device_memory=None): {words}")


class _Clusters:
    """Those that run, by shape."""

    def __init__(self) -> None:
        self._running: dict[tuple[tuple[str, Any], ...], FaultyCluster] = {}

    def get(self, shape: dict[str, Any]) -> FaultyCluster:
        from pathways.testing import FaultyCluster

        key = tuple(sorted(shape.items()))
        if key not in self._running:
            self._running[key] = FaultyCluster(**shape)
        return self._running[key]

    def check(self, shape: dict[str, Any]) -> None:
        """After a test: a cluster that does not become whole is ended."""
        key = tuple(sorted(shape.items()))
        try:
            self._running[key].whole()
        except BaseException:
            self._running.pop(key).close()
            raise

    def close(self) -> None:
        while self._running:
            self._running.popitem()[1].close()


@pytest.fixture(scope="session")
def _pathways_clusters() -> Iterator[_Clusters]:
    clusters = _Clusters()
    try:
        yield clusters
    finally:
        clusters.close()


@pytest.fixture
def pathways_cluster(request: pytest.FixtureRequest, _pathways_clusters: _Clusters) -> Iterator[FaultyCluster]:
    """A `pathways.testing.FaultyCluster` of the shape that the mark `pathways_cluster` names; its hosts are a0, a1, ..."""
    mark = request.node.get_closest_marker(_MARK)
    shape = dict(mark.kwargs) if mark is not None else {}
    yield _pathways_clusters.get(shape)
    _pathways_clusters.check(shape)
