"""How a diagnosis is shown and packed, what is said when the controller is silent, and which story is asked for."""

from __future__ import annotations

import json
import signal
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from pathways.cli import main, query, story
from pathways.cli.local_look import look
from pathways_common.model.failure import Reason, fail
from pathways_common.process.child import start_time
from pathways_common.process.condition import look as condition_of
from pathways_common.process.state import StateDir
from pathways_proto.v1 import cluster_pb2

ONE = 3 << 40 | 17


@pytest.mark.parametrize(
    ("words", "request_"),
    [
        (("3",), cluster_pb2.GetStoryRequest(kind="SESSION", number=3)),
        (("session", "3"), cluster_pb2.GetStoryRequest(kind="SESSION", number=3)),
        (("3.17",), cluster_pb2.GetStoryRequest(kind="RUN", number=ONE)),
        (("slice", "3.17"), cluster_pb2.GetStoryRequest(kind="SLICE", number=ONE)),
        (("program", "3.17"), cluster_pb2.GetStoryRequest(kind="PROGRAM", number=ONE)),
        (("a1",), cluster_pb2.GetStoryRequest(kind="HOST", name="a1")),
        (("island", "a"), cluster_pb2.GetStoryRequest(kind="ISLAND", name="a")),
        (("f12",), cluster_pb2.GetStoryRequest(kind="FAILURE", name="f12")),
        (("0f2e71aa",), cluster_pb2.GetStoryRequest(kind="FAILURE", name="0f2e71aa")),
    ],
)
def test_a_story_is_asked_for_by_what_an_id_looks_like(words: tuple[str, ...], request_: cluster_pb2.GetStoryRequest) -> None:
    assert story.request_of(words) == request_


@pytest.mark.parametrize(
    "words", [(), ("session", "3.1"), ("run", "17"), ("run", "x.y"), ("wish", "3"), ("3.x",), ("a", "b", "c"), ("run", "1.2.3")]
)
def test_what_names_nothing_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(click.UsageError):
        story.request_of(words)


def stuck() -> cluster_pb2.DiagnoseResponse:
    answer = cluster_pb2.DiagnoseResponse(
        verdict=["the executor of a1 cannot answer"], pathways_version="0.1.0", uptime_seconds=75, open_sessions=2
    )
    answer.islands.add(name="a", state="ACTIVE", epoch=4, granted_through=312)
    for name in ("a0", "a1"):
        host = answer.hosts.add(host=name, island="a", state="ACTIVE", queue=3)
        host.diagnosis.epoch = 4
        host.diagnosis.processes.add(role="DAEMON", pid=1, state="S", stacks=[f"daemon of {name}"])
        executor = host.diagnosis.processes.add(role="EXECUTOR", pid=2, state="S", stacks=[f"executor of {name}"])
        host.running.sequence, host.running.execution_id, host.running.program = 312, ONE, "train"
        host.running.node, host.running.node_name, host.running.since_seconds = 2, "step", 8
        host.running.missing_hosts.append("a1")
        host.finished.sequence = 311
    executor.silence = "cannot answer: state T (stopped)"
    executor.ClearField("stacks")
    answer.recent.add(time_ns=10**9, subject="host a1", text="it is now ACTIVE")
    return answer


@contextmanager
def asked(monkeypatch: pytest.MonkeyPatch, answer: cluster_pb2.DiagnoseResponse) -> Iterator[Any]:
    monkeypatch.setattr(query.Controller, "diagnose", lambda self: answer)
    work = cluster_pb2.ListWorkResponse(work=[cluster_pb2.Work(execution_id=ONE, tenant="ads", name="train", state="RUNNING")])
    monkeypatch.setattr(query.Controller, "work", lambda self, tenant, limit: work)
    monkeypatch.setattr(query.Controller, "status", lambda self: cluster_pb2.GetStatusResponse(term=7))

    def no_answer(*_: object) -> None:
        raise fail(Reason.TIMED_OUT, "it did not answer within 5 s")

    monkeypatch.setattr(query.Controller, "buffers", no_answer)
    monkeypatch.setenv("PATHWAYS_TOKEN", "secret")
    yield lambda *words: CliRunner().invoke(main.pathways, ["diagnose", "--address", "127.0.0.1:9", *words])


def test_the_verdict_comes_first_then_the_table_then_the_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    with asked(monkeypatch, stuck()) as command:
        shown = command()
    assert shown.exit_code == 0, shown.exception
    parts = ["VERDICT\n  the executor of a1 cannot answer", "312: train, node 2 step (run 3.17)", "WORK, the oldest first",
             "HOST a0", "executor of a0", "HOST a1", "cannot answer: state T (stopped)", "LAST CHANGES"]  # fmt: skip
    places = [shown.output.find(part) for part in parts]
    assert places == sorted(places), shown.output
    assert places[0] == 0
    assert "daemon of a0" not in shown.output
    with asked(monkeypatch, stuck()) as command:
        assert "daemon of a0" in command("--all").output
        assert json.loads(command("-o", "json").output)["hosts"][1]["running"]["missing_hosts"] == ["a1"]


def test_an_archive_holds_everything_and_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    archive = tmp_path / "night.tar.gz"
    with asked(monkeypatch, stuck()) as command:
        done = command("--output", str(archive), "--state-dir", str(tmp_path))
        assert done.exit_code == 0, done.exception
        again = command("--output", str(archive))
        assert again.exit_code == 1
    with tarfile.open(archive) as packed:
        read = {name: packed.extractfile(name).read().decode() for name in packed.getnames()}  # type: ignore[union-attr]
    assert "daemon of a0" in read["night/everything.txt"]
    assert json.loads(read["night/status.json"])["term"] == "7"
    assert json.loads(read["night/buffers.json"]) == {"missing": "it did not answer within 5 s"}


@contextmanager
def recorded(state: StateDir, name: str) -> Iterator[subprocess.Popen[bytes]]:
    """A stopped process that cluster.json names as one of the cluster."""
    (state.path / "logs").mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            process.send_signal(signal.SIGSTOP)
            deadline_s = time.monotonic() + 20
            while (now := condition_of(process.pid)) is None or not now.stopped:
                assert time.monotonic() < deadline_s
            entry = {"name": name, "pid": process.pid, "start_time": start_time(process.pid)}
            state.write_cluster({"address": "grpc://127.0.0.1:9", "processes": [entry]})
            yield process
        finally:
            process.kill()


def test_a_silent_controller_of_this_machine_is_shown_by_the_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def silent(_: query.Controller) -> None:
        raise fail(Reason.TIMED_OUT, "what listens at grpc://127.0.0.1:9 did not answer within 5 s")

    monkeypatch.setattr(query.Controller, "diagnose", silent)
    monkeypatch.setenv("PATHWAYS_TOKEN", "secret")
    state = StateDir(tmp_path / "state")
    with recorded(state, "controller") as process:
        words = ["diagnose", "--address", "127.0.0.1:9", "--state-dir", str(state.path)]
        shown = CliRunner().invoke(main.pathways, words, standalone_mode=False)
    assert shown.return_value == 1, shown.output
    assert "VERDICT\n  what listens at grpc://127.0.0.1:9 did not answer within 5 s\n" in shown.output
    assert f"its process: controller (pid {process.pid}): state T (stopped)" in shown.output


def test_a_silent_daemon_of_this_machine_is_explained_in_the_verdict(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer = cluster_pb2.DiagnoseResponse()
    host = answer.hosts.add(host="a1", island="a", silence="its daemon (pid 5) did not answer within 2 s")
    answer.verdict.append(f"host a1 is stuck or cut off: {host.silence}.")
    state = StateDir(tmp_path / "state")
    with recorded(state, "a1"), asked(monkeypatch, answer) as command:
        shown = command("--state-dir", str(state.path))
        assert [seen.name for seen in look(state)] == ["a1"]
    assert "cut off: its daemon (pid 5) did not answer within 2 s: state T (stopped).\n" in shown.output, shown.output
