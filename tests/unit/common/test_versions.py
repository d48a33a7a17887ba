"""Two ends fit or are told who is older and what to do; a table shows both sides, one line who runs what."""

from __future__ import annotations

import pytest
from pathways_common.model.failure import Failure, Reason
from pathways_common.rpc.version import (
    OLDEST_PROTOCOL_LEVEL,
    PROTOCOL_LEVEL,
    client_mismatch,
    differences,
    grouped,
    island_mismatch,
    line,
    mismatch,
    own_versions,
    pickle_mismatch,
    row,
    table,
)
from pathways_proto.v1 import types_pb2


def made(pathways: str = "0.1.0", level: int = 0, oldest: int = 0, jaxlib: str = "") -> types_pb2.Versions:
    return types_pb2.Versions(pathways=pathways, protocol_level=level, oldest_protocol_level=oldest, jaxlib=jaxlib)


def refused(mine: types_pb2.Versions, other: types_pb2.Versions) -> str:
    failure = mismatch(mine, other, "client")
    assert isinstance(failure, Failure)
    assert failure.reason is Reason.VERSION_MISMATCH
    return failure.message


def test_versions_fit_by_major_and_minor_and_silence_is_taken_at_its_word() -> None:
    assert mismatch(made("0.1.0"), made("0.1.7"), "client") is None
    assert mismatch(made("0.1.0"), made(""), "client") is None
    assert "the controller is older: install pathways 0.1.0 where the client runs, or" in refused(made("0.1.0"), made("0.2.0"))
    assert "the client is older: install pathways 0.10.0 where the client runs" in refused(made("0.10.0"), made("0.9.0"))


@pytest.mark.parametrize(
    ("controller", "client", "fits"),
    [
        # (oldest, newest) of each; 0 is said by ends from before levels, which are of level 1.
        ((1, 2), (0, 0), True),
        ((0, 0), (1, 2), True),
        ((2, 3), (1, 2), True),
        ((1, 2), (2, 3), True),
        ((2, 2), (0, 0), False),
        ((0, 0), (2, 2), False),
        ((1, 1), (2, 2), False),
        ((2, 2), (1, 1), False),
    ],
)
def test_ends_that_are_one_level_apart_work_as_far_as_both_say(
    controller: tuple[int, int], client: tuple[int, int], fits: bool
) -> None:
    mine, other = (made(level=newest, oldest=oldest) for oldest, newest in (controller, client))
    assert (mismatch(mine, other, "client") is None) is fits


@pytest.mark.parametrize(("levels", "who"), [((1, 2), "the controller is older"), ((2, 1), "the client is older")])
def test_a_refusal_says_who_is_older_and_what_to_install(levels: tuple[int, int], who: str) -> None:
    mine, other = (made(level=level, oldest=level) for level in levels)
    message = refused(mine, other)
    assert f"protocol {levels[0]}), which do not fit; {who}: install pathways 0.1.0 where the client runs" in message
    assert [row.split()[:3] for row in message.splitlines()[2:]] == [
        ["client", "0.1.0", str(levels[1])],
        ["controller", "0.1.0", str(levels[0])],
    ]


def test_this_release_serves_the_one_before_it() -> None:
    own = own_versions(with_jax=True)
    assert (own.oldest_protocol_level, own.protocol_level) == (OLDEST_PROTOCOL_LEVEL, PROTOCOL_LEVEL)
    assert mismatch(own, made(own.pathways), "client") is None
    assert mismatch(made(own.pathways), own, "client") is None
    import jaxlib

    assert own.jaxlib == jaxlib.__version__


def test_hosts_of_an_island_have_one_jaxlib() -> None:
    there = [row("worker a0", made(jaxlib="0.10.2"))]
    assert island_mismatch("worker a1", made(jaxlib="0.10.2"), there) is None
    assert island_mismatch("worker a1", made(), there) is None
    failure = island_mismatch("worker a1", made(jaxlib="0.10.1"), there)
    assert failure is not None
    assert "worker a1 has jaxlib 0.10.1 and worker a0 has 0.10.2" in failure.message
    assert "install jaxlib 0.10.2 where worker a1 runs" in failure.message


def test_clients_have_a_jaxlib_that_is_served_and_none_that_is_newer_than_a_worker() -> None:
    there = [row("worker a0", made(jaxlib="0.10.2")), row("worker b0", made())]
    for version in ("", "0.8.3", "0.9.2", "0.10.1", "0.10.7"):
        assert client_mismatch(made(jaxlib=version), there) is None
    for version in ("0.7.2", "0.11.0"):
        failure = client_mismatch(made(jaxlib=version), there)
        assert failure is not None
        assert failure.reason is Reason.VERSION_MISMATCH
        first, _header, client, *_workers = failure.message.splitlines()
        assert first.startswith(f"the client has jaxlib {version}, and Pathways serves clients with jaxlib 0.8, 0.9 or 0.10")
        assert client.split()[0] == "client"
    failure = client_mismatch(made(jaxlib="0.10.0"), [row("worker a0", made(jaxlib="0.9.2"))])
    assert failure is not None
    assert "worker a0 has the older 0.9.2, which may not read its programs: install jaxlib 0.9.2" in failure.message


def test_functions_travel_between_equal_minor_versions_of_python_and_jaxlib_only() -> None:
    def of(jaxlib: str, python: str) -> types_pb2.Versions:
        return types_pb2.Versions(jaxlib=jaxlib, python=python)

    there = [row("worker a0", of("0.10.2", "3.11.7"))]
    for fits in (of("0.10.1", "3.11.2"), of("", "")):
        assert pickle_mismatch(fits, there) == ""
    assert "needs the jaxlib of the hosts at the client, and the client has 0.9.2, worker a0 0.10.2: install jaxlib 0.10.2" in (
        pickle_mismatch(of("0.9.2", "3.11.7"), there)
    )
    assert "needs the Python of the hosts at the client, and the client has 3.12.1, worker a0 3.11.7: install Python 3.11.7" in (
        pickle_mismatch(of("0.10.2", "3.12.1"), there)
    )


def test_a_table_has_equal_processes_in_one_row_and_a_dash_for_what_is_unknown() -> None:
    rows = grouped([row("controller", made()), row("worker a0", made(jaxlib="1.2")), row("worker a1", made(jaxlib="1.2"))])
    assert table(rows).splitlines() == [
        "                      pathways  protocol  python  jax  jaxlib",
        "controller            0.1.0     1         -       -    -",
        "worker a0, worker a1  0.1.0     1         -       -    1.2",
    ]
    assert differences(rows) == []
    assert line(rows) == ("controller: pathways 0.1.0, protocol 1; worker a0, worker a1: pathways 0.1.0, protocol 1, jaxlib 1.2")
    odd = [*rows, row("client", made(jaxlib="1.3"))]
    assert differences(odd) == ["jaxlib"]
    assert line(odd).endswith("jaxlib 1.3 -- they differ in jaxlib")
