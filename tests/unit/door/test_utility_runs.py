"""Runs of requests of pathwaysutils: what goes upstream for them, and what the client is told."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pathways_common.model.colocated import MAGIC
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_door.colocated import ColocatedExecutable, unreadable
from pathways_door.context import Operation
from pathways_door.futures import Futures
from pathways_door.handles import ArrayTable, Value, form_of
from pathways_door.programs import Programs
from pathways_door.sharding import Placement
from pathways_door.utility_runs import UtilityRuns
from pathways_door.utility_texts import ReshardText, StorageText, read_utility_text
from pathways_proto.ifrt import colocated_pb2 as ifrt_colocated_pb2
from pathways_proto.ifrt import programs_pb2, session_pb2
from pathways_proto.v1 import colocated_pb2, sessions_pb2, types_pb2

sys.path.insert(0, str(Path(__file__).parent))
from utility_requests import COPIES, HALVES, asked, lies, read, reshard, stored, write

ROWS = Placement((0, 1), HALVES, "device")
PROGRAM, SOURCE, RESULT, STATUS = 900, 7, 50, 60


class Session:
    """Stands for a context and its stream; records what is sent and answered.

    Devices 0 and 1 are of hosts a0 and a1, 2 and 3 of a slice that is cut when it is needed.
    """

    def __init__(self) -> None:
        self.pushed: list[sessions_pb2.ClientOperation] = []
        self.answers: list[session_pb2.IfrtResponse] = []
        self.refused: list[Failure] = []
        self.released: list[int] = []
        self.asked: dict[int, Callable[[Any, Failure | None], None]] = {}
        self.last = 100
        self.upstream = self
        self.may_run_python = True
        self.versions = types_pb2.Versions(python="3.11.7", jaxlib="0.10.2")
        devices = [types_pb2.Device(island="a", host=f"a{index}") for index in range(2)] + [types_pb2.Device()] * 2
        self.welcome = sessions_pb2.Welcome(devices=devices)
        self.arrays = ArrayTable(self)  # type: ignore[arg-type]
        self.futures = Futures(self.arrays.new_handle)
        self.source = self.arrays.add(SOURCE, form_of(11, (8,), ROWS), ((Value(1, 2, 32), 0, 2),))
        self.runs = UtilityRuns(self)  # type: ignore[arg-type]

    def new_ids(self, count: int = 1) -> int:
        self.last += count
        return self.last - count + 1

    def push(self, operation: sessions_pb2.ClientOperation) -> None:
        self.pushed.append(operation)

    def ask(self, kind: str, number: int, operation: sessions_pb2.ClientOperation, done: Callable[..., None]) -> None:
        assert kind == "compiled"
        self.asked[number] = done
        self.push(operation)

    def release(self, value_id: int, size_bytes: int) -> None:
        pass

    def release_executable(self, executable_id: int) -> None:
        self.released.append(executable_id)

    def with_memory_kind(self, placement: Placement) -> Placement:
        return Placement(placement.devices, placement.sharding, placement.memory_kind or "device")

    def poison(self, handles: Sequence[int], failure: Failure) -> None:
        for handle in handles:
            self.arrays.poison(handle, failure)

    def reply(self, operation: Operation, member: bytes) -> None:
        self.answers.append(session_pb2.IfrtResponse.FromString(member))

    def reply_empty(self, operation: Operation, name: str) -> None:
        self.answers.append(session_pb2.IfrtResponse())

    def refuse(self, operation: Operation, failure: Failure) -> None:
        self.refused.append(failure)

    def run(self, text: bytes, sources: Sequence[int], results: Sequence[int] = (), status: int = 0) -> None:
        read_text = read_utility_text(text, 4)
        request = programs_pb2.LoadedExecutableExecuteRequest(
            loaded_executable_handle=PROGRAM, args_handles=sources, result_array_handle=results, result_status_handle=status
        )
        request.execute_options.fill_status = True
        request.execute_options.execution_stream_id = 5
        assert isinstance(read_text, ReshardText | StorageText)
        self.runs.run(Operation(1, 0), request, read_text)

    def answer(self) -> programs_pb2.LoadedExecutableExecuteResponse:
        return self.answers[-1].loaded_executable_execute_response

    def sent(self, member: str) -> list[Any]:
        return [getattr(operation, member) for operation in self.pushed if operation.HasField(member)]

    def compiled(self, failure: Failure | None = None) -> None:
        for number in list(self.asked):
            self.asked.pop(number)(None, failure)

    def programs(self) -> list[tuple[list[int], colocated_pb2.ColocatedProgram]]:
        found = []
        for message in self.sent("compile"):
            assert message.program.startswith(MAGIC)
            found.append((list(message.devices), colocated_pb2.ColocatedProgram.FromString(message.program[len(MAGIC) :])))
        return found


def test_a_reshard_is_one_message_and_its_results_are_known_at_once() -> None:
    session = Session()
    text = reshard([lies([0, 1])], [lies([2], COPIES)])
    session.run(text, [SOURCE])
    [sent] = session.sent("reshard")
    assert (list(sent.views), sent.donate, list(sent.destinations[0].devices)) == ([1], False, [2])
    [output] = session.answer().outputs
    made = session.arrays.get(output.array_handle)
    assert made.form == form_of(11, (8,), Placement((2,), b"", "device"))
    # It has ended when its results are there.
    assert session.arrays.get(session.answer().status_handle).values() == made.values()
    session.run(text, [SOURCE], [RESULT], STATUS)
    assert session.arrays.get(RESULT).form == made.form
    assert session.arrays.get(STATUS).values() == session.arrays.get(RESULT).values()
    assert session.futures.pop(STATUS) is not None


def test_a_donated_array_has_ended() -> None:
    session = Session()
    session.run(reshard([lies([0, 1])], [lies([2], COPIES)], donate=True), [SOURCE])
    assert session.sent("reshard")[0].donate
    assert session.source.problem() is not None


def test_a_reshard_of_a_failed_array_fails_with_its_cause() -> None:
    session = Session()
    lost = Failure(Reason.BUFFER_LOST, "it was lost")
    session.arrays.poison(8, lost)
    text = reshard([lies([0, 1])], [lies([2], COPIES)])
    with pytest.raises(PathwaysError, match="it was lost"):
        session.run(text, [8])
    session.run(text, [8], [RESULT], STATUS)
    assert session.arrays.get(RESULT).problem() == session.arrays.get(STATUS).problem() == lost
    with pytest.raises(PathwaysError, match="2 arrays came for 1 places"):
        session.run(text, [SOURCE, SOURCE], [RESULT, RESULT + 1])
    assert session.arrays.get(RESULT + 1).problem() is not None
    assert session.sent("reshard") == []


def test_every_host_writes_its_shards_when_all_have_compiled() -> None:
    session = Session()
    same = form_of(11, (8,), Placement((1, 0), b"", "device"))
    session.arrays.add(8, same, ((Value(2, 2, 64), 0, 2),))
    session.run(write(stored("x", [0, 1]), stored("y", [1, 0], COPIES)), [SOURCE, 8])
    (first, on_first), (second, on_second) = session.programs()
    assert (first, second) == ([0], [1])
    assert on_first.storage.write
    assert on_first.storage.timeout_ns == 30 * 10**9 + 500
    for program, corner, skipped in ((on_first, 0, True), (on_second, 4, False)):
        rows, copies = program.storage.arrays
        assert (rows.path, rows.dtype, list(rows.shape), list(rows.shard_shape)) == ("/data/x", 11, [8], [4])
        assert [(list(shard.start), shard.skip) for shard in rows.shards] == [([corner], False)]
        # Of copies the first device of the array writes the only one: device 1.
        assert [(list(shard.start), shard.skip) for shard in copies.shards] == [([0], skipped)]
        assert [list(spec.shard_shape) for spec in program.parameters] == [[4], [8]]
        assert not program.outputs
    assert session.sent("execute") == session.answers == []
    session.compiled()
    views = {view.view_id: [(part.view_id, part.start) for part in view.ranges] for view in session.sent("make_view")}
    executed = session.sent("execute")
    assert [[views[argument] for argument in each.arguments] for each in executed] == [[[(1, 0)], [(2, 1)]], [[(1, 1)], [(2, 0)]]]
    assert {each.stream for each in executed} == {5}
    # The write has ended when what each host returns is there.
    awaited = session.arrays.get(session.answer().status_handle).values()
    assert [value.value_id for value in awaited] == [each.first_result_id for each in executed]
    assert session.source.problem() is None
    session.runs.drop(PROGRAM)
    assert session.released == [each.executable_id for each in executed]


def test_what_is_read_is_put_together_from_what_the_hosts_return() -> None:
    session = Session()
    session.run(read(asked("x", [1, 0]), asked("y", [0, 1], COPIES)), [])
    programs = {devices[0]: program for devices, program in session.programs()}
    assert [list(programs[device].storage.arrays[0].shards[0].start) for device in (0, 1)] == [[4], [0]]
    assert [list(spec.shard_shape) for spec in programs[0].outputs] == [[4], [8]]
    assert not programs[0].storage.write
    session.compiled()
    of = {devices[0]: each for (devices, _), each in zip(session.programs(), session.sent("execute"), strict=True)}
    rows, copies = (session.arrays.get(output.array_handle) for output in session.answer().outputs)
    assert [value.value_id for value, _, _ in rows.ranges] == [of[1].first_result_id, of[0].first_result_id]
    assert [value.value_id for value, _, _ in copies.ranges] == [of[0].first_result_id + 1, of[1].first_result_id + 1]
    assert rows.form == form_of(11, (8,), Placement((1, 0), HALVES, "device"))
    assert len(session.arrays.get(session.answer().status_handle).values()) == 4


def test_devices_whose_host_is_not_known_stand_alone() -> None:
    session = Session()
    session.run(read(asked("x", [2, 3])), [])
    assert [devices for devices, _ in session.programs()] == [[2], [3]]


def test_a_host_that_cannot_do_it_fails_the_request() -> None:
    session = Session()
    session.run(read(asked("x", [0, 1])), [])
    refusal = Failure(Reason.UNSUPPORTED, "not on this host")
    first, second = list(session.asked)
    session.asked[first](None, refusal)
    assert session.refused == []
    session.asked[second](None, None)
    assert session.refused == [refusal]
    assert session.sent("execute") == []


@pytest.mark.parametrize(
    ("text", "sources", "words"),
    [
        (write(stored("x", [0, 1])), [], "0 arrays came for 1 names"),
        (read(asked("x", [0, 1])), [SOURCE], "1 arrays came for 0 names"),
        (write(stored("x", [0, 1], shape=[4])), [SOURCE], "the array for /data/x is not the one of the request"),
        (write(stored("x", [1, 0])), [SOURCE], "the array for /data/x is not the one of the request"),
        (write(stored("x", [0, 1])), [77], "array handle 77 is unknown"),
    ],
)
def test_arguments_that_do_not_fit_a_request_are_refused(text: bytes, sources: list[int], words: str) -> None:
    session = Session()
    with pytest.raises(PathwaysError) as caught:
        session.run(text, sources, status=STATUS)
    assert words in caught.value.failure.message
    assert session.arrays.get(STATUS).problem() is caught.value.failure
    assert session.sent("compile") == []


def test_a_request_for_storage_is_run_once_and_not_without_a_token() -> None:
    session = Session()
    session.run(write(stored("x", [0, 1])), [SOURCE])
    session.compiled()
    with pytest.raises(PathwaysError, match="is run once; make another one"):
        session.run(write(stored("x", [0, 1])), [SOURCE])
    session = Session()
    session.may_run_python = False
    with pytest.raises(PathwaysError, match="not written or read for clients without a token"):
        session.run(write(stored("x", [0, 1])), [SOURCE])


@pytest.mark.parametrize("may_run_python", [False, True])
def test_bytes_of_colocated_python_are_no_program_of_xla(may_run_python: bool) -> None:
    session = Session()
    session.may_run_python = may_run_python
    session.device_count, session.spawn, session.callbacks = 4, None, None  # type: ignore[attr-defined]
    message = colocated_pb2.ColocatedProgram(name="f", text=b"a pickle", devices=[0])
    request = programs_pb2.CompileRequest()
    request.program.type_name = "xla::ifrt::XlaProgram"
    request.program.data = MAGIC + message.SerializeToString()
    with pytest.raises(PathwaysError, match="begins like colocated Python"):
        Programs(session).handlers()["compile_request"](Operation(1, 0), request)  # type: ignore[arg-type]
    assert session.pushed == []


@pytest.mark.parametrize(
    ("devices", "sentence"),
    [
        ([0], ""),
        ([1], "the client has 3.11.7, worker a1 3.12.1: install Python 3.12.1 where the client runs"),
        ([0, 1], "the client has 3.11.7, worker a1 3.12.1: install Python 3.12.1 where the client runs"),
        ([2, 3], ""),
    ],
)
def test_functions_are_refused_because_of_hosts_that_would_run_them_and_no_others(devices: list[int], sentence: str) -> None:
    session = Session()
    session.device_count, session.spawn, session.callbacks = 4, None, None  # type: ignore[attr-defined]
    for processes, python in ((["controller"], "3.13.0"), (["worker a0"], "3.11.2"), (["worker b0", "worker a1"], "3.12.1")):
        versions = types_pb2.Versions(python=python, jaxlib="" if python == "3.13.0" else "0.10.2")
        session.welcome.versions.add(processes=processes, versions=versions)
    program = ifrt_colocated_pb2.CustomCallProgramProto(type="jax_colocated_python_v0.0.1", name="f")
    program.devices.device_ids.extend(devices)
    request = programs_pb2.CompileRequest()
    request.program.type_name = "xla::ifrt::CustomCallProgram"
    request.program.data = program.SerializeToString()
    compile_it = Programs(session).handlers()["compile_request"]  # type: ignore[arg-type]
    if not sentence:
        compile_it(Operation(1, 0), request)
        assert len(session.sent("compile")) == 1
        return
    with pytest.raises(PathwaysError, match="needs the Python of the hosts") as caught:
        compile_it(Operation(1, 0), request)
    assert caught.value.failure.reason is Reason.VERSION_MISMATCH
    assert caught.value.failure.message.endswith(sentence)
    assert session.pushed == []


def test_functions_on_a_slice_are_refused_if_no_host_could_read_them() -> None:
    session = Session()
    client = types_pb2.Versions(python="3.11.7", jaxlib="0.9.2")
    welcome = session.welcome
    assert unreadable(client, welcome, [2]) == ""
    welcome.versions.add(processes=["controller"], versions=types_pb2.Versions(python="3.11.7"))
    for host, jaxlib in (("a0", "0.10.2"), ("a1", "0.10.3")):
        welcome.versions.add(processes=[f"worker {host}"], versions=types_pb2.Versions(python="3.11.7", jaxlib=jaxlib))
    assert "needs the jaxlib of the hosts at the client, and the client has 0.9.2, worker a0 0.10.2" in (
        unreadable(client, welcome, [2])
    )
    assert unreadable(client, welcome, [1]).endswith("worker a1 0.10.3: install jaxlib 0.10.3 where the client runs")
    assert unreadable(types_pb2.Versions(python="3.11.7", jaxlib="0.10.2"), welcome, [0, 1, 2]) == ""


@pytest.mark.parametrize("kept", [False, True])
def test_colocated_python_is_let_go_of_behind_the_call_that_was_sent_before(kept: bool) -> None:
    session = Session()
    session.device_count, session.spawn, session.callbacks = 4, None, None  # type: ignore[attr-defined]
    session.pending = SimpleNamespace(number=lambda _kind: 77)  # type: ignore[attr-defined]
    waits: list[tuple[list[int], Callable[[Any, Any], None]]] = []

    def ask(_kind: str, _number: int, operation: sessions_pb2.ClientOperation, done: Callable[..., None]) -> None:
        waits.append((list(operation.wait.views), done))

    session.ask = ask  # type: ignore[method-assign]
    programs = Programs(session)  # type: ignore[arg-type]
    executable = object.__new__(ColocatedExecutable)
    executable.executable_id = 7
    programs._executables[1] = executable
    programs._last_called = value = Value(50, 1, 8)
    value.references = int(kept)
    request = programs_pb2.LoadedExecutableDestructRequest(loaded_executable_handle=1)
    programs.handlers()["loaded_executable_destruct_request"](Operation(1, 0), request)
    assert session.released == ([] if kept else [7])
    for views, done in waits:
        assert views == [50]
        done(None, None)
    assert session.released == [7]
