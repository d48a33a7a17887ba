"""How views are shown: ids, what is not known, leaks in words, and which questions `pathways why` asks."""

from __future__ import annotations

import json

import click
import pytest
from click.testing import CliRunner
from pathways.cli import leaks, main, ps, query, showing, why
from pathways_proto.v1 import cluster_pb2

ONE = 3 << 40 | 17


@pytest.mark.parametrize(("text", "number"), [("3.17", ONE), (str(ONE), ONE), ("3", 3)])
def test_ids_are_read_as_they_are_shown(text: str, number: int) -> None:
    assert showing.Identifier().convert(text, None, None) == number


def test_an_id_is_shown_with_its_session() -> None:
    assert showing.identifier(ONE) == "3.17"


@pytest.mark.parametrize("text", ["", "x", "3.", "3.x", "-1", "3.17.2", str(1 << 64)])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        showing.Identifier().convert(text, None, None)


def test_why_asks_for_sessions_work_and_slices() -> None:
    assert why.request_of("session", 3) == cluster_pb2.ExplainRequest(session_number=3)
    assert why.request_of("run", ONE) == cluster_pb2.ExplainRequest(execution_id=ONE)
    assert why.request_of("slice", ONE) == cluster_pb2.ExplainRequest(session_number=3, slice_id=17)
    for kind, number in (("session", ONE), ("session", 0), ("run", 17), ("slice", 3)):
        with pytest.raises(click.UsageError):
            why.request_of(kind, number)


def test_why_tells_in_words_and_as_data_what_is_waited_for_and_about_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = cluster_pb2.WaitReason(
        kind="TURN", what="its turn on island a", holder="session 1 (16 in flight)", waited_seconds=0.4
    )
    sentences = ["run 3.17 (train) waits: it waits for its turn on island a", "waits for its turn on island a: session 1 ..."]
    answer = cluster_pb2.ExplainResponse(sentences=sentences, reasons=[reason], estimate_seconds=2.5)
    monkeypatch.setattr(query.Controller, "explain", lambda self, request: answer)
    monkeypatch.setenv("PATHWAYS_TOKEN", "secret")
    asked = ["why", "run", "3.17", "--address", "127.0.0.1:9"]
    shown = CliRunner().invoke(main.pathways, asked)
    assert shown.output.splitlines() == [*sentences, "it begins in about 2.5 s"]
    told = json.loads(CliRunner().invoke(main.pathways, [*asked, "-o", "json"]).output)
    assert (told["sentences"], told["estimate_seconds"]) == (sentences, 2.5)
    assert [(each["kind"], each["holder"], each["waited_seconds"]) for each in told["reasons"]] == [
        ("TURN", "session 1 (16 in flight)", 0.4)
    ]


def test_figures_that_are_not_known_are_a_dash() -> None:
    row = cluster_pb2.Work(
        execution_id=ONE, kind="RUN", name="train", islands=["a", "b"], state="RUNNING", steps=8, steps_granted=3
    )
    timed = cluster_pb2.Work(execution_id=ONE + 1, kind="EXECUTION", device_ns=1_500_000_000, position=2)
    timed.waits_for.what, timed.waits_for.holder = "room on island a", "session 1 (16 in flight)"
    table = ps.table_of(cluster_pb2.ListWorkResponse(work=[row, timed]))
    columns = {str(column.header): list(column.cells) for column in table.columns}
    assert columns["id"] == ["3.17", "3.18"]
    assert columns["steps"] == ["3/8", "0"]
    assert columns["line"] == ["-", "2"]
    assert columns["device time"] == ["-", "1.5 s"]
    assert columns["waits for"] == ["-", "room on island a: session 1 (16 in flight)"]


def test_a_leak_is_one_sentence() -> None:
    leak = cluster_pb2.Leak(host="a0", kind="VALUE", id=7, size_bytes=64, session_number=3)
    assert leaks.sentence(leak) == "host a0: value 7, 64 bytes, of session 3, which is over"
    leak.session_open, leak.tenant, leak.missing = True, "ads", True
    assert leaks.sentence(leak) == "host a0: value 7 is missing there; session 3 of tenant ads relies on it"
    assert leaks.sentence(cluster_pb2.Leak(host="a0", kind="PLAN", id=9)) == "host a0: plan 9, of nobody"


@pytest.mark.parametrize("command", ["ps", "buffers", "why", "leaks"])
def test_help_names_the_keys_of_the_json(command: str) -> None:
    shown = CliRunner().invoke(main.pathways, [command, "--help"])
    assert shown.exit_code == 0
    assert "JSON: " in shown.output


def test_names_that_clients_choose_are_shown_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = cluster_pb2.GetStatusResponse(sessions=[cluster_pb2.SessionStatus(session_number=3, client="[/b] train.py")])
    monkeypatch.setattr(query.Controller, "status", lambda self: answer)
    monkeypatch.setenv("PATHWAYS_TOKEN", "secret")
    shown = CliRunner().invoke(main.pathways, ["status", "--address", "127.0.0.1:9"])
    assert shown.exit_code == 0, shown.exception
    assert "[/b] train.py" in shown.output
