"""Fixtures that several kinds of test share. One small cluster serves all tests marked `cluster`; it is always stopped."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.cluster import Cluster, running_cluster

# The marks by which `make ci` and `make long` choose.
CHOSEN_BY = ("slow", "waits", "alone", "long")


def pytest_configure() -> None:
    """A shell has what it starts behind it ignore Ctrl-C, and everything that tests start and interrupt would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`make ci` collects the files in which it finds a mark, so the mark of a test has to stand in its file."""
    texts = {path: path.read_text() for path in {item.path for item in items}}
    for item in items:
        for mark in item.iter_markers():
            if mark.name in CHOSEN_BY and f"mark.{mark.name}" not in texts[item.path]:
                raise pytest.UsageError(
                    f"{item.nodeid} is marked {mark.name} from elsewhere: write the mark into {item.path.name}"
                )


@pytest.fixture(autouse=True)
def _nothing_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """After every test with a cluster: what its sessions had is gone, on every host. Others' sessions may be open."""
    before = {name: found.session_numbers() for name, found in _clusters(request).items() if found.is_up()}
    yield
    for name, found in _clusters(request).items():
        if found.is_up():
            found.check_leaks(before.get(name, set()))


def _clusters(request: pytest.FixtureRequest) -> dict[str, Cluster]:
    """Those that fixtures of the test have made so far."""
    values = getattr(request.node, "funcargs", {})
    return {name: value for name, value in values.items() if isinstance(value, Cluster)}


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """One island of two hosts with one device each, ready to use. A test must leave it usable.

    Leases are short, so that nobody waits long for what a killed door leaves. Executors that tests stop are not soon given up.
    """
    terms = {"PATHWAYS_SERVER_LEASE_S": "3", "PATHWAYS_SERVER_GRACE_S": "2", "PATHWAYS_SERVER_STUCK_AFTER_S": "60"}
    with running_cluster(islands=1, hosts=2, devices=1, **terms) as running:
        yield running
