"""Fixtures that several kinds of test share. One small cluster serves all tests marked `cluster`; it is always stopped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import Cluster, running_cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One island of two hosts with one device each, ready to use. A test must leave it usable."""
    with running_cluster(islands=1, hosts=2, devices=1) as running:
        yield running
