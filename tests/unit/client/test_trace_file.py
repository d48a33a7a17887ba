"""`pathways trace` and `pathways programs`: a trace made by hand becomes a valid file and a readable table, also with gaps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import grpc
import pytest
from pathways.cli.main import main
from pathways.cli.programs import shown_specs
from pathways.cli.trace_file import Names, trace_file
from pathways_proto.v1 import cluster_pb2, cluster_pb2_grpc, types_pb2, workers_pb2

C, W = cluster_pb2, workers_pb2
Row: TypeAlias = workers_pb2.TraceRow
# 2026-01-01, in nanoseconds: what a double cannot hold exactly.
T = 1_767_225_600_000_000_000


def launch(step: int, node: int, sequence: int, granted: int, started: int, finished: int) -> Row:
    return Row(
        step=step,
        node=node,
        sequence=sequence,
        granted_ns=T + granted,
        launched_ns=T + granted + 100,
        enqueued_ns=T + granted + 400,
        started_ns=T + started,
        finished_ns=T + finished if finished else 0,
    )


def move(step: int, started: int, finished: int, pulled: int, copied: int) -> Row:
    return Row(
        step=step,
        granted_ns=T + 2000,
        started_ns=T + started,
        finished_ns=T + finished,
        pulled_bytes=pulled,
        copied_bytes=copied,
    )


ANSWER = C.GetTraceResponse(
    execution_id=(7 << 40) + 12,
    session_number=7,
    program="step",
    nodes=[
        C.TraceNode(node=1, name="forward", source="train.py:12", island="a"),
        C.TraceNode(node=2, name="backward", source="train.py:13", island="b"),
    ],
    hosts=[
        C.TraceHost(
            host="a0",
            island="a",
            trace=W.TraceCollected(
                received_ns=T + 1000, prepared_ns=T + 1900, rows=[launch(0, 1, 41, 2000, 2600, 9200), Row(step=3)]
            ),
        ),
        C.TraceHost(
            host="b0",
            island="b",
            trace=W.TraceCollected(
                received_ns=T + 1250,
                prepared_ns=T + 1500,
                # Two moves at the same time, a launch that is not over, and one that ended before it began.
                rows=[
                    move(1, 9000, 11000, 4096, 0),
                    move(2, 9500, 10000, 0, 512),
                    launch(4, 2, 17, 2000, 12000, 11000),
                    launch(5, 2, 18, 3000, 12000, 0),
                ],
            ),
        ),
        C.TraceHost(host="b1", island="b", trace=W.TraceCollected()),
    ],
    requested_ns=T,
    granted_ns=T + 10,
)


LOOP = C.GetTraceResponse(
    execution_id=12,
    program="train",
    nodes=[C.TraceNode(node=1, name="half", source="train.py:7", island="a", execution_id=number) for number in (101, 102)],
    hosts=[
        C.TraceHost(
            host=host,
            island="a",
            trace=W.TraceCollected(
                execution_id=number,
                received_ns=T + 1000 * number,
                prepared_ns=T + 1000 * number + 10,
                rows=[launch(0, 1, number, 1000 * number + 20, 1000 * number + 500, 1000 * number + 900)],
            ),
        )
        for number in (101, 102)
        for host in ("a0", "a1")
    ],
    pieces=[C.TracePiece(execution_id=number, label=f"turn {number} of while_loop") for number in (101, 102)],
    piece_count=102,
    late_hosts=["a2", "a3"],
    lost_hosts=["a4"],
)


def of(events: list[dict[str, Any]], **wanted: Any) -> list[dict[str, Any]]:
    return [event for event in events if all(event.get(name) == value for name, value in wanted.items())]


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    """As a viewer reads it."""
    read: dict[str, Any] = json.loads(json.dumps(trace_file(ANSWER)))
    return read


def test_every_event_of_the_file_has_what_its_format_demands(content: dict[str, Any]) -> None:
    assert content["displayTimeUnit"] == "ms"
    for event in content["traceEvents"]:
        assert {"name", "ph", "ts", "pid", "tid"} <= event.keys()
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["ts"] >= 0
        assert event["ph"] in ("X", "i", "M")
        assert ("dur" in event) == (event["ph"] == "X")
        assert event.get("dur", 0) >= 0
        assert event["ph"] != "i" or event["s"] == "t"


def test_processes_are_hosts_and_tracks_are_kinds_of_work(content: dict[str, Any]) -> None:
    events = content["traceEvents"]
    named = {event["pid"]: event["args"]["name"] for event in of(events, name="process_name")}
    assert named == {1: "a0 (island a)", 2: "b0 (island b)", 3: "b1 (island b)"}
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in of(events, name="thread_name")}
    assert sorted(tracks[key] for key in tracks if key[0] == 1) == ["control", "dispatch", "launches"]
    assert sorted(tracks[key] for key in tracks if key[0] == 2) == ["control", "dispatch", "launches", "moves", "moves 2"]
    for event in events:
        if event["ph"] != "M":
            assert tracks[event["pid"], event["tid"]].partition(" ")[0] == event["cat"]


def test_slices_of_one_track_do_not_overlap(content: dict[str, Any]) -> None:
    ends: dict[tuple[int, int], float] = {}
    slices = sorted(of(content["traceEvents"], ph="X"), key=lambda event: event["ts"])
    for event in slices:
        track = (event["pid"], event["tid"])
        assert event["ts"] >= ends.get(track, 0)
        ends[track] = event["ts"] + event["dur"]


def test_a_launch_has_its_times_in_microseconds_and_its_arguments(content: dict[str, Any]) -> None:
    (event,) = of(content["traceEvents"], pid=1, cat="launches")
    # Times begin with what the first host received, at 1,000 ns.
    assert (event["name"], event["ph"], event["ts"], event["dur"]) == ("forward", "X", 1.6, 6.6)
    assert event["args"] == {
        "step": 0, "node": 1, "source": "train.py:12", "island": "a", "sequence": 41, "bytes": 0, "pulled_bytes": 0,
        "copied_bytes": 0, "granted_us": 1.0, "finished": True, "where": "",
    }  # fmt: skip
    (dispatch,) = of(content["traceEvents"], pid=1, cat="dispatch")
    assert (dispatch["name"], dispatch["ts"], dispatch["dur"]) == ("forward", 1.1, 0.3)


def test_moves_tell_their_bytes(content: dict[str, Any]) -> None:
    moves = of(content["traceEvents"], pid=2, cat="moves")
    assert [(event["ts"], event["dur"], event["args"]["bytes"]) for event in moves] == [(8.0, 2.0, 4096), (8.5, 0.5, 512)]
    assert [(event["args"]["pulled_bytes"], event["args"]["copied_bytes"]) for event in moves] == [(4096, 0), (0, 512)]


def test_receiving_and_preparing_are_on_the_control_track(content: dict[str, Any]) -> None:
    control = of(content["traceEvents"], pid=2, cat="control")
    assert [(event["name"], event["ph"], event["ts"]) for event in control] == [
        ("prepare", "X", 0.25), ("received", "i", 0.25), ("prepared", "i", 0.5),
    ]  # fmt: skip


def test_what_is_not_over_is_an_instant_and_clocks_that_go_back_make_no_negative_time(content: dict[str, Any]) -> None:
    ended, open_one = of(content["traceEvents"], pid=2, cat="launches")
    assert (ended["ph"], ended["ts"], ended["dur"]) == ("X", 11.0, 0.0)
    assert (open_one["ph"], open_one["ts"], open_one["args"]["finished"]) == ("i", 11.0, False)


def test_a_run_of_which_nothing_is_known_makes_an_empty_file() -> None:
    assert trace_file(C.GetTraceResponse())["traceEvents"] == []


class _Clusters(cluster_pb2_grpc.ClustersServicer):  # type: ignore[misc]
    asked: list[int]

    def GetTrace(self, request: cluster_pb2.GetTraceRequest, context: Any) -> cluster_pb2.GetTraceResponse:  # noqa: N802
        self.asked.append(request.execution_id)
        if request.execution_id == 404:
            return C.GetTraceResponse(failure=types_pb2.Failure(reason="INVALID_ARGUMENT", message="no run 404 is remembered"))
        return LOOP if request.execution_id == 12 else ANSWER

    def ListPrograms(self, request: cluster_pb2.ListProgramsRequest, context: Any) -> cluster_pb2.ListProgramsResponse:  # noqa: N802
        spec = types_pb2.ArraySpec(dtype=11, shape=[8, 4])
        program = C.RegisteredProgram(
            name="team/step", version=3, device_count=4, node_count=9, arguments=[spec] * 2, results=[spec]
        )
        return C.ListProgramsResponse(programs=[program])


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[_Clusters]:
    service = _Clusters()
    service.asked = []
    server = grpc.server(ThreadPoolExecutor(1))
    cluster_pb2_grpc.add_ClustersServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv("PATHWAYS_ADDRESS", f"grpc://127.0.0.1:{port}")
    monkeypatch.setenv("PATHWAYS_STATE_DIR", str(tmp_path))
    yield service
    server.stop(None).wait(5)


def pathways(*words: str) -> Any:
    with pytest.raises(SystemExit) as end:
        main(list(words))
    return end.value.code


def test_trace_writes_a_file_of_the_last_run_or_of_a_chosen_one(
    clusters: _Clusters, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.json"
    assert pathways("trace", "--last", "-o", str(file)) == 0
    assert json.loads(file.read_text()) == json.loads(json.dumps(trace_file(ANSWER)))
    assert capsys.readouterr().out.startswith(f"wrote {file}: ")
    assert pathways("trace", "--run", "5", "-o", str(file)) == 0
    assert pathways("trace", "-o", str(file)) == 0
    assert clusters.asked == [0, 5, 0]


def test_trace_without_a_file_is_a_table_of_steps(clusters: _Clusters, capsys: pytest.CaptureFixture[str]) -> None:
    assert pathways("trace", "--last") == 0
    shown = capsys.readouterr().out
    assert "of program step, session 7: 3 hosts" in shown
    (forward,) = (line for line in shown.splitlines() if "forward" in line)
    words = [word.strip() for word in forward.split("│")]
    assert words[1:-1] == ["0", "forward", "train.py:12", "a", "41", "1", "0.001", "0.002", "0.007", ""]
    assert sum("not over" in line for line in shown.splitlines()) == 2


def test_pieces_of_a_loop_are_rows_of_one_host_and_say_their_turn(
    clusters: _Clusters, capsys: pytest.CaptureFixture[str]
) -> None:
    read = json.loads(json.dumps(trace_file(LOOP)))["traceEvents"]
    assert [event["args"]["name"] for event in of(read, name="process_name")] == ["a0 (island a)", "a1 (island a)"]
    for process in (1, 2):
        launches = of(read, pid=process, cat="launches")
        assert [event["name"] for event in launches] == ["turn 101 of while_loop: half", "turn 102 of while_loop: half"]
        assert [event["args"]["where"] for event in launches] == ["turn 101 of while_loop", "turn 102 of while_loop"]
        assert [event["ts"] for event in launches] == [0.5, 1.5 * 1000 / 1000]
        assert len(of(read, pid=process, name="prepare")) == 2
    assert pathways("trace", "--run", "12") == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    assert lines[0].endswith("of program train, session 0: 2 hosts, 102 pieces")
    steps = [[word.strip() for word in line.split("│")][1:-1] for line in lines if "while_loop" in line]
    assert [(step[1], step[2], step[5]) for step in steps] == [
        ("turn 101 of while_loop: half", "train.py:7", "2"),
        ("turn 102 of while_loop: half", "train.py:7", "2"),
    ]
    hosts = [[word.strip() for word in line.split("│")][1:-1] for line in lines if line.startswith(("│ a0", "│ a1"))]
    assert [(host[0], host[4], host[5]) for host in hosts] == [("a0", "2", "0"), ("a1", "2", "0")]
    said = shown.err.splitlines()
    assert said[0].startswith("pathways: no full answer came from a2, a3 within the controller's deadline")
    assert said[1].startswith("pathways: the run's hosts a4 have gone since")
    assert said[2] == "pathways: the hosts remember the last 2 of the 102 pieces of this run"


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("--last", "--run", "3"), 2, "--last, --run and --session name different things"),
        (("--last", "--session", "3"), 2, "--last, --run and --session name different things"),
        (("--run", "0"), 2, "0 is not in the range"),
        (("--run", "404"), 1, "pathways: no run 404 is remembered"),
        (("-o", "missing-folder/trace.json"), 1, "pathways: cannot write missing-folder/trace.json (No such file or directory)"),
    ],
)
def test_what_cannot_be_shown_is_one_sentence(
    clusters: _Clusters, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, sentence: str
) -> None:
    assert pathways("trace", *words) == code
    shown = capsys.readouterr().err
    assert sentence in shown
    assert "Traceback" not in shown


def test_programs_are_a_table_or_json(clusters: _Clusters, capsys: pytest.CaptureFixture[str]) -> None:
    assert pathways("programs") == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "team/step" in line)
    assert [word.strip() for word in line.split("│")][1:-1] == ["team/step", "3", "4", "9", "f32[8,4] f32[8,4]", "f32[8,4]"]
    assert pathways("programs", "-o", "json") == 0
    (program,) = json.loads(capsys.readouterr().out)["programs"]
    assert (program["name"], program["version"], program["arguments"][0]["shape"]) == ("team/step", "3", ["8", "4"])


def test_a_long_list_of_specs_is_cut() -> None:
    spec = types_pb2.ArraySpec(dtype=16, shape=[2])
    assert shown_specs([spec] * 7) == "bf16[2] bf16[2] bf16[2] bf16[2] and 3 more"
    assert shown_specs([types_pb2.ArraySpec(dtype=99)]) == "type99[]"


def test_a_launch_in_place_of_several_nodes_has_the_names_of_all() -> None:
    def named(*names: str) -> Names:
        nodes = [C.TraceNode(node=number, name=name, execution_id=5) for number, name in enumerate(names, 1)]
        return Names(C.GetTraceResponse(nodes=nodes))

    names = named("embed", "layer", "layer", "layer", "norm", "", "loss")
    assert names.of(5, Row(step=2, node=2, sequence=9)).what == "layer"
    assert names.of(5, Row(step=2, node=2, last_node=6, sequence=9)).what == "nodes 2-6: layer x3, norm, node 6"
    assert names.of(5, Row(step=2)).what == "move"
    many = named(*(f"f{number}" for number in range(1, 10)))
    assert many.of(5, Row(node=1, last_node=9, sequence=1)).what == "nodes 1-9: f1, f2, f3, f4, f5, ..., f9"
