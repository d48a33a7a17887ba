"""Traces of programs with loops and branches: one trace under the client's id, of pieces that say which turn they belong to."""

from __future__ import annotations

from pathways_common.model import graph
from pathways_common.model.ids import HostName
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.unit.core.core_driver import Driver, gid, only, sent
from tests.unit.core.core_runs import A, driver_of, put, run
from tests.unit.core.core_walks import COUNT, FLAG, Graphs, answer, asked, looping, node


def trace(driver: Driver, number: int) -> out.TraceReady:
    """Every host answers with the run that it was asked about."""
    found = driver.step(events.TraceRequested(1, number))
    for host, command in sent(found, out.CollectTrace):
        found += driver.step(events.TraceCollected(HostName(host), command.trace_id, str(command.execution_id).encode()))
    return only([effect for effect in found if isinstance(effect, out.TraceReady)])


def test_the_pieces_of_a_loop_are_one_trace_under_the_id_of_the_run() -> None:
    driver = driver_of()
    looping(driver).define()
    put(driver, 10, A)
    effects = answer(driver, asked(run(driver, (10,), 20)), 1, 1)
    answer(driver, asked(effects), 0, 1)
    ready = trace(driver, gid(5020))
    assert ready == trace(driver, 0), "it is the last run, too"
    assert [piece.label for piece in ready.pieces] == ["", "test 1 of while", "turn 1 of while", "test 2 of while"]
    assert (ready.execution_id, ready.program, ready.piece_count) == (gid(5020), "train", 4)
    ids = [piece.execution_id for piece in ready.pieces]
    granted = list(dict.fromkeys(command.execution_id for _, command in sent(driver.log, out.RunPlan)))
    assert ids == granted
    assert [(node.execution_id, node.node, node.island) for node in ready.nodes] == [(piece, 1, "a") for piece in ids]
    assert [(host, payload) for host, _, payload in ready.hosts] == [
        (host, str(piece).encode()) for piece in ids for host in ("a0", "a1")
    ]


def test_a_piece_says_where_it_is_among_loops_and_branches() -> None:
    driver = driver_of()
    graphs = Graphs(driver)
    graphs.graph(1, (A,), (graphs.call((A,), (FLAG,), (0, 0)),), (1, 0))
    choice = node("inner", graph.BranchKind((3, 4), (), (A,)), (1, 0), (0, 0))
    graphs.graph(2, (A,), (graphs.call((A,), (COUNT,), (0, 0)), choice), (2, 0))
    graphs.graph(3, (A,), (graphs.call((A,), (A,), (0, 0)),), (1, 0))
    graphs.graph(4, (A,), (graphs.call((A,), (A,), (0, 0)),), (1, 0))
    graphs.graph(0, (A,), (node("while", graph.LoopKind(1, 2, 9, (A,)), (0, 0)),), (1, 0))
    graphs.define()
    put(driver, 10, A)
    effects = answer(driver, asked(run(driver, (10,), 20)), 1, 1)
    effects = answer(driver, asked(effects), 1)
    assert [piece.label for piece in trace(driver, 0).pieces] == [
        "test 1 of while", "turn 1 of while", "turn 1 of while, branch 1 of inner", "test 2 of while",
    ]  # fmt: skip


def test_of_a_long_loop_the_last_pieces_are_remembered_and_all_are_counted() -> None:
    driver = driver_of(traced_pieces_max=3)
    looping(driver, most=50).define()
    put(driver, 10, A)
    effects = run(driver, (10,), 20)
    for _ in range(5):
        effects = answer(driver, asked(effects), 1, 1)
    ready = trace(driver, 5020)
    assert [piece.label for piece in ready.pieces] == ["test 5 of while", "turn 5 of while", "test 6 of while"]
    assert ready.piece_count == 12, "the first node, six tests and five turns"


def test_hosts_that_are_silent_or_gone_are_named() -> None:
    driver = driver_of()
    looping(driver, most=50).define()
    put(driver, 10, A)
    run(driver, (10,), 20)
    asked_of = sent(driver.step(events.TraceRequested(1, 0)), out.CollectTrace)
    driver.step(events.TraceCollected(HostName("a1"), asked_of[0][1].trace_id, b"x"))
    ready = only([effect for effect in driver.pass_time(2) if isinstance(effect, out.TraceReady)])
    assert ready.late_hosts == ("a0", "a1"), "a1 told of one piece out of two"
    assert ready.hosts == (("a1", "a", b"x"),)
    driver.lose("a1")
    ready = trace(driver, 0)
    assert (ready.late_hosts, ready.lost_hosts) == ((), ("a1",))
    assert {host for host, _, _ in ready.hosts} == {"a0"}
