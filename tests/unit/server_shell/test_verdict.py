"""The verdict names who is at fault first, and never a healthy cluster or a long program."""

from __future__ import annotations

from pathways_proto.v1 import cluster_pb2
from pathways_server.rpc.verdict import verdict

HOSTS = ("a0", "a1", "a2")


def gathered(sequence: int = 7, since_s: float = 30.0, share: float = 0.0) -> cluster_pb2.DiagnoseResponse:
    """Three hosts in one gang that all launched and none finished."""
    found = cluster_pb2.DiagnoseResponse()
    found.islands.add(name="a", state="ACTIVE", epoch=1)
    for name in HOSTS:
        host = found.hosts.add(host=name, island="a", state="ACTIVE")
        host.diagnosis.processes.add(role="DAEMON", pid=1, state="S", stacks=["x"])
        host.diagnosis.processes.add(role="EXECUTOR", pid=2, state="S", stacks=["x"], cpu_share=share)
        if sequence:
            host.running.sequence, host.running.execution_id, host.running.program = sequence, 9, "program 3.5"
            host.running.since_seconds = since_s
            host.running.members.extend(HOSTS)
            host.running.unfinished_hosts.extend(HOSTS)
    return found


def only(found: cluster_pb2.DiagnoseResponse) -> str:
    (sentence,) = verdict(found)
    return sentence


def test_an_executor_that_cannot_answer_is_the_first_word_and_who_waits_for_it_the_next() -> None:
    found = gathered()
    found.hosts[1].diagnosis.processes[1].silence = "cannot answer: state T (stopped)"
    assert only(found) == (
        "the executor of a1 (pid 2) cannot answer: state T (stopped). "
        "It has not finished gang 7 of program 3.5 for 30 s, and a0, a2 with it."
    )


def test_an_executor_that_finished_and_cannot_say_so_is_told_as_that() -> None:
    found = gathered()
    found.hosts[1].diagnosis.processes[1].silence = "cannot answer"
    found.hosts[1].running.unreported = True
    for host in (found.hosts[0], found.hosts[2]):
        host.ClearField("running")
    assert only(found) == (
        "the executor of a1 (pid 2) cannot answer. It has finished gang 7 of program 3.5 and has not said so for 30 s."
    )


def test_a_silent_daemon_is_named() -> None:
    found = gathered(sequence=0)
    found.hosts[2].silence = "its daemon (pid 5) did not answer within 2 s"
    assert only(found) == "host a2 is stuck or cut off: its daemon (pid 5) did not answer within 2 s."


def test_a_member_that_never_launched_is_named_once_for_all_that_wait() -> None:
    found = gathered()
    for host in found.hosts:
        host.running.missing_hosts.append("a2")
        host.running.node, host.running.node_name, host.running.source = 3, "step", "train.py:12"
    assert only(found) == (
        "a2 never launched gang 7 of program 3.5, node 3 (step) called at train.py:12, which a0, a1 launched for 30 s: "
        "look at the stacks of a2."
    )


def test_one_member_that_computes_while_the_others_wait_is_suspected() -> None:
    found = gathered()
    found.hosts[0].diagnosis.processes[1].cpu_share = 1.0
    assert only(found).endswith("a0 computes, a1, a2 waits: a slow member, or an endless loop on a0.")


def test_a_long_program_on_hosts_that_all_compute_is_called_long() -> None:
    assert "all of a0, a1, a2 compute: a long program, or an endless one" in only(gathered(share=1.0))


def test_a_gang_that_has_just_begun_is_no_fault() -> None:
    assert only(gathered(since_s=1.0)).startswith("nothing is stuck: every process of 3 hosts answers, and 3 of 3 hosts have")


def test_an_island_without_its_hosts_is_told_beside_the_rest() -> None:
    found = gathered(sequence=0)
    found.islands.add(name="b", state="WAITING", lacks="island b waits for 1 more host of 2; there: b0")
    assert only(found) == "island b is WAITING: island b waits for 1 more host of 2; there: b0."
    found.hosts[0].diagnosis.processes[1].silence = "is gone"
    assert len(verdict(found)) == 2


def test_work_of_another_tenant_is_told_by_its_number_alone() -> None:
    found = gathered()
    found.hosts[1].diagnosis.processes[1].silence = "cannot answer"
    for host in found.hosts:
        host.running.execution_id, host.running.program = 0, ""
    assert "It has not finished gang 7 for 30 s" in only(found)


def test_a_cluster_without_hosts_says_what_to_do() -> None:
    assert only(cluster_pb2.DiagnoseResponse()) == "no host has joined: start the workers."
