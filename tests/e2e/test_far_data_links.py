"""Links on which bytes of arrays take 60 s each way, which are to us like dead ones: what waits for them is named, and it ends.

The numbers of the moves that follow are those that were sent.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from tests.cluster import wait_until
from tests.e2e.lines import Lines
from tests.e2e.test_dropped_links import DATA, FAR_S, LINE_S, SCRIPTS, Linked, Links, behind_proxies, start
from tests.e2e.test_leaks import asked

pytestmark = [pytest.mark.slow, pytest.mark.waits, pytest.mark.cluster]
# A ping that is not answered ends a connection after 1 + 2 s; another one is waited for 20 to 25 s.
GIVEN_UP_S = 45
# An upload has a minute, and what arrived just before the end of that is read in vain.
LATE_S = 60 + GIVEN_UP_S
SIZE = 1 << 20
SILENCE = r"was given up: no connection to it has carried anything for \d+ s"


@pytest.fixture(scope="module")
def linked() -> Iterator[Links]:
    with behind_proxies(Linked) as links:
        yield links


def go_on(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def why(cluster: Linked, session: int) -> str:
    return asked(cluster, "why", "session", str(session)).stdout


def test_bytes_on_links_that_take_60_s_are_named_and_given_up_and_the_next_ones_arrive(linked: Links) -> None:
    cluster = linked.cluster
    before = (cluster.incarnations(), cluster.epoch())
    process = start(cluster, "127.0.0.1", str(SCRIPTS / "moves_at_once.py"))
    try:
        lines = Lines(process)
        go_on(process)
        assert lines.next(LINE_S) == "ready"
        (number,) = cluster.session_numbers()
        linked.data.away(FAR_S)
        try:
            go_on(process)
            wait_until(lambda: why(cluster, number).count("waits for bytes") == 2, "both arrays to be named")
            said = why(cluster, number)
            assert re.search(r"bytes of array \S+ on host a1: a copy of array \S+ on host a0; .* given up in", said), said
            assert re.search(r"bytes of array \S+ on host a0: its client, which uploads them; .* given up in", said), said
            copied, read = sorted((lines.next(GIVEN_UP_S) or "nothing") for _ in range(2))
            assert re.match(rf"copied TIMED_OUT the copy of {SIZE} bytes from the worker at {DATA}:\d+ {SILENCE}", copied), copied
            assert re.match(rf"read TIMED_OUT the read of {SIZE} bytes from host a1 {SILENCE}", read), read
            put = lines.next(LATE_S) or "nothing"
            late = rf"the bytes of an upload did not reach host a0 in time|the read of {SIZE} bytes from host a0 {SILENCE}"
            assert re.match(f"put TIMED_OUT ({late})", put), put
        finally:
            linked.data.mend()
        assert lines.next(LINE_S) == "done"
        go_on(process)
        assert lines.next(LINE_S) == "ready"
        go_on(process)
        assert sorted(lines.next(LINE_S) or "nothing" for _ in range(4)) == ["copied right", "done", "put right", "read right"]
    finally:
        process.kill()
    assert (cluster.incarnations(), cluster.epoch()) == before
