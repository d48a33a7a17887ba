"""Traces on a real cluster: complete for every host and node, one for all pieces of a loop, and silent hosts are named."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from pathways_common.model.ids import GlobalId, is_made_by_core
from pathways_common.rpc.auth import bearer
from pathways_common.rpc.channels import parse_address
from pathways_proto.v1 import cluster_pb2, cluster_pb2_grpc, workers_pb2

from tests.cluster import PATHWAYS, Cluster, wait_until
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.cluster
SCRIPT = str(Path(__file__).with_name("scripts") / "traced.py")
HOSTS = ("a0", "a1")


@contextmanager
def after_a_call(cluster: Cluster, which: str, value: str) -> Iterator[None]:
    """The program was called and its result read; its client is still there."""
    process = cluster.start(SCRIPT, which, stdin=True)
    lines = Lines(process)
    try:
        assert lines.next(90) == value
        yield
    finally:
        stop(process)


def trace(cluster: Cluster, number: int = 0) -> cluster_pb2.GetTraceResponse:
    token = (cluster.state / "token").read_text().strip()
    with grpc.insecure_channel(parse_address(cluster.address), options=[("grpc.enable_http_proxy", 0)]) as channel:
        request = cluster_pb2.GetTraceRequest(execution_id=number)
        return cluster_pb2_grpc.ClustersStub(channel).GetTrace(request, metadata=bearer(token), timeout=20)


def whole_trace(cluster: Cluster, number: int = 0) -> cluster_pb2.GetTraceResponse:
    """The same, once every launch in it has ended: whoever reads a value waits for the host that it reads it from alone."""
    got = [trace(cluster, number)]

    def ended() -> bool:
        got[0] = trace(cluster, number)
        return all(row.finished_ns for host in got[0].hosts for row in host.trace.rows)

    wait_until(ended, "every launch of the run to end")
    return got[0]


def shown(cluster: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [PATHWAYS, "trace", "--address", cluster.address, *words]
    return subprocess.run(command, env=cluster.environment, capture_output=True, text=True, timeout=60, check=False)


def check_launch(collected: workers_pb2.TraceCollected, row: workers_pb2.TraceRow) -> None:
    """Every step of a launch was told, in the order in which it happens."""
    times = (collected.received_ns, row.granted_ns, row.launched_ns, row.enqueued_ns, row.finished_ns)
    assert all(times), row
    assert list(times) == sorted(times), row
    assert row.launched_ns <= row.started_ns <= row.finished_ns, row
    assert collected.received_ns <= collected.prepared_ns <= row.launched_ns, collected
    assert row.sequence, row


def test_every_host_and_node_tells_every_step_and_moves_tell_their_bytes(cluster: Cluster) -> None:
    with after_a_call(cluster, "moves", str([6.0] * 8)):
        got = whole_trace(cluster)
    assert got.program == "moves"
    assert (list(got.late_hosts), list(got.lost_hosts), got.piece_count) == ([], [], 0)
    assert [node.source.rpartition("/")[2].partition(":")[0] for node in got.nodes] == ["traced.py"] * 2
    assert tuple(host.host for host in got.hosts) == HOSTS
    for host in got.hosts:
        rows = {row.node: row for row in host.trace.rows if row.sequence}
        assert rows.keys() == {node.node for node in got.nodes}
        for row in rows.values():
            check_launch(host.trace, row)
        (move,) = [row for row in host.trace.rows if not row.sequence]
        # Of eight float32 half lie here already and half come from the other host.
        assert (move.pulled_bytes, move.copied_bytes) == (16, 16)
        assert 0 < move.granted_ns <= move.started_ns <= move.finished_ns
        first, second = (row for _, row in sorted(rows.items()))
        assert move.finished_ns <= second.started_ns
        assert first.finished_ns <= second.finished_ns


def test_a_loop_is_one_trace_under_the_id_of_its_run_named_by_turn(cluster: Cluster) -> None:
    with after_a_call(cluster, "loop", str([5.0] * 8)):
        number = trace(cluster).execution_id
    assert not is_made_by_core(GlobalId(number))
    with after_a_call(cluster, "moves", str([6.0] * 8)):
        assert trace(cluster).execution_id != number, "which was the last run no more"
        got = whole_trace(cluster, number)
        table = shown(cluster, "--run", str(number))
    assert got.program == "loop"
    # From 1, one is added before the loop, so there are three turns and four tests.
    turns = [label for turn in (1, 2, 3) for label in (f"test {turn} of while_loop", f"turn {turn} of while_loop")]
    assert [piece.label for piece in got.pieces] == ["", *turns, "test 4 of while_loop"]
    assert got.piece_count == len(got.pieces)
    for piece in got.pieces:
        told = [host for host in got.hosts if host.trace.execution_id == piece.execution_id]
        assert tuple(host.host for host in told) == HOSTS
        nodes = {node.node for node in got.nodes if node.execution_id == piece.execution_id}
        for host in told:
            assert {row.node for row in host.trace.rows if row.sequence} == nodes
            for row in host.trace.rows:
                check_launch(host.trace, row)
    assert table.returncode == 0, table.stderr
    assert table.stderr == ""
    assert f"run {number} of program loop" in table.stdout
    assert sum("turn 3 of while_loop" in line for line in table.stdout.splitlines()) == 1


def test_a_host_that_does_not_answer_is_named(cluster: Cluster) -> None:
    with after_a_call(cluster, "moves", str([6.0] * 8)):
        stopped = cluster.executors("a1")
        for executor in stopped:
            executor.send_signal(signal.SIGSTOP)
        try:
            done = shown(cluster, "--last")
        finally:
            for executor in stopped:
                executor.send_signal(signal.SIGCONT)
        assert done.returncode == 0
        assert done.stderr.startswith("pathways: no full answer came from a1 within the controller's deadline")
        assert sum(line.startswith("│ a0") for line in done.stdout.splitlines()) == 1
        assert tuple(host.host for host in trace(cluster).hosts) == HOSTS
