"""Traced programs at the door: a stock JAX client with a stand-in cluster; feeds and runs over a stream that only records."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_door import program_runs
from pathways_door.handles import ArrayTable, Form, Value, form_of
from pathways_door.plugin_texts import FeedText, Group, ProgramText, read_text
from pathways_door.program_runs import Feeds, RunnableProgram, Runs
from pathways_door.sharding import Placement
from pathways_proto.ifrt import values_pb2
from pathways_proto.v1 import door_pb2, programs_pb2, sessions_pb2, types_pb2

from tests.unit.door.test_door_with_stock_jax import Outcome, _close, _end, _next_line, _run_client, _start

HERE = Path(__file__).parent
CHECKS = re.findall(r"^def ([a-z]\w*)\(", (HERE / "program_client.py").read_text(), re.MULTILINE)

# ---- with a client and a cluster -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcome() -> Iterator[Outcome]:
    out = Outcome()
    cluster, there = _start([str(HERE / "fake_cluster.py"), "4"], JAX_PLATFORMS="cpu", FAKE_NODES=str(HERE / "program_nodes.py"))
    door, here = _start(["-m", "pathways_door", "--controller", there["address"]], PATHWAYS_DOOR_SECRET="sesame")
    try:
        _run_client(here, out, None, script="program_client.py")
        out.first_goodbye = _next_line(cluster)
        out.door_exit = _end(door)
        _end(cluster)
        yield out
    finally:
        for process in (door, cluster):
            process.kill()
            process.wait(10)
            for stream in (process.stdin, process.stdout):
                _close(stream)


@pytest.mark.parametrize("check", CHECKS)
def test_programs_of_a_stock_client_through_the_door(outcome: Outcome, check: str) -> None:
    assert outcome.errors[check] == ""


def test_every_value_and_program_is_released_before_the_goodbye(outcome: Outcome) -> None:
    goodbye = outcome.first_goodbye
    assert (goodbye["values"], goodbye["programs"]) == (0, 0)
    assert goodbye["counts"]["run_program"] > 1000
    assert goodbye["counts"]["define_program"] > 10


# ---- feeds and runs alone --------------------------------------------------------------------------------------------

ONE = form_of(11, (8,), Placement((0,), b"", "device"))
TWO = form_of(11, (8,), Placement((0, 1), b"", "device"))


class Recorder:
    """Stands for the session stream."""

    def __init__(self) -> None:
        self.pushed: list[sessions_pb2.ClientOperation] = []
        self.released: list[int] = []
        self.last = 100

    def new_ids(self, count: int = 1) -> int:
        self.last += count
        return self.last - count + 1

    def push(self, operation: sessions_pb2.ClientOperation, urgent: bool = False) -> None:
        self.pushed.append(operation)

    def release(self, value_id: int, size_bytes: int) -> None:
        self.released.append(value_id)


class Bench:
    """Arrays, feeds and runs over a recorder. Array `n` is value `n`, whole."""

    def __init__(self) -> None:
        self.stream = Recorder()
        self.arrays = ArrayTable(self.stream)  # type: ignore[arg-type]
        self.tasks: list[asyncio.Task[None]] = []
        self.feeds = Feeds(self.arrays, self._spawn)
        self.runs = Runs(self.arrays, self.stream, self.feeds)  # type: ignore[arg-type]

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> object:
        self.tasks.append(asyncio.get_running_loop().create_task(work, name=name))
        return self.tasks[-1]

    def add(self, number: int, form: Form) -> Value:
        count = len(form.placement.devices)
        value = Value(number, count, 32 * count)
        self.arrays.add(number, form, ((value, 0, count),))
        return value

    def ran(self) -> sessions_pb2.RunProgram:
        (operation,) = (operation for operation in self.stream.pushed if operation.HasField("run_program"))
        return operation.run_program


def _program(donated: tuple[int, ...] = ()) -> RunnableProgram:
    """Arguments 0 and 2 have one shard and come with the run, argument 1 has two and is fed; results of one and two shards."""
    return RunnableProgram(50, "p", (Group(1, (2, 0)), Group(2, (1,))), donated, (ONE, TWO))


def _with_loop(scenario: Callable[[Bench], Awaitable[None]]) -> None:
    async def main() -> None:
        bench = Bench()
        await scenario(bench)
        for task in bench.tasks:
            task.cancel()

    asyncio.run(main())


def test_run_names_arguments_in_the_order_of_the_program_and_results_in_fresh_ids() -> None:
    async def scenario(bench: Bench) -> None:
        for number, form in ((1, ONE), (2, TWO), (3, ONE)):
            bench.add(number, form)
        bench.feeds.park(7, 2, [2])
        bench.runs.run(_program(), 7, [3, 1], [11, 12])
        ran = bench.ran()
        assert (list(ran.arguments), ran.program_id, ran.launch_id) == ([1, 2, 3], 50, 7)
        assert (ran.run_id, ran.first_result_id, bench.stream.last) == (101, 102, 103)
        results = [bench.arrays.get(handle) for handle in (11, 12)]
        assert [(record.form, record.ranges[0][0].value_id) for record in results] == [(ONE, 102), (TWO, 103)]
        assert [record.ranges[0][0].size_bytes for record in results] == [32, 64]
        assert len(bench.feeds) == 0

    _with_loop(scenario)


def test_fed_values_outlive_their_handles_until_the_run_was_sent() -> None:
    async def scenario(bench: Bench) -> None:
        for number, form in ((1, ONE), (2, TWO), (3, ONE)):
            bench.add(number, form)
        bench.feeds.park(7, 2, [2])
        bench.arrays.destruct(2)
        assert bench.stream.released == []
        bench.runs.run(_program(), 7, [3, 1], [11, 12])
        assert list(bench.ran().arguments) == [1, 2, 3]
        assert bench.stream.released == [2]

    _with_loop(scenario)


def test_part_of_a_value_is_fed_as_a_view_that_ends_with_the_run() -> None:
    async def scenario(bench: Bench) -> None:
        for number, form in ((1, ONE), (3, ONE)):
            bench.add(number, form)
        whole = Value(9, 4, 64)
        bench.arrays.add(2, TWO, ((whole, 1, 2),))
        bench.feeds.park(7, 2, [2])
        bench.arrays.destruct(2)
        assert bench.stream.released == [9]
        view = bench.stream.pushed[0].make_view.view_id
        bench.runs.run(_program(), 7, [3, 1], [11, 12])
        assert list(bench.ran().arguments) == [1, view, 3]
        assert bench.stream.released == [9, view]

    _with_loop(scenario)


def test_donated_arguments_are_deleted_whether_fed_or_not() -> None:
    async def scenario(bench: Bench) -> None:
        values = [bench.add(number, form) for number, form in ((1, ONE), (2, TWO), (3, ONE))]
        bench.feeds.park(7, 2, [2])
        bench.runs.run(_program((0, 1)), 7, [3, 1], [11, 12])
        assert list(bench.ran().donated) == [0, 1]
        assert [value.deleted for value in values] == [True, True, False]

    _with_loop(scenario)


@pytest.mark.parametrize("how", ["no feed", "other launch", "poisoned feed", "deleted later", "short run", "long feed"])
def test_call_that_cannot_be_sent_poisons_all_results_and_leaves_nothing(how: str) -> None:
    async def scenario(bench: Bench) -> None:
        values = [bench.add(number, form) for number, form in ((1, ONE), (2, TWO), (3, ONE), (4, TWO))]
        bench.arrays.poison(5, Failure(Reason.USER_ERROR, "boom"), TWO)
        words = {
            "no feed": "without its 2-shard arguments", "other launch": "without its 2-shard arguments", "poisoned feed": "boom",
            "deleted later": "deleted or donated", "short run": "1 arguments of 1 shards came for a program that takes 2",
            "long feed": "2 arguments of 2 shards came for a program that takes 1",
        }[how]  # fmt: skip
        if how != "no feed":
            fed = {"poisoned feed": [5], "long feed": [2, 4]}.get(how, [2])
            bench.feeds.park(8 if how == "other launch" else 7, 2, fed)
        if how == "deleted later":
            values[1].deleted = True
        bench.runs.run(_program(), 7, [3] if how == "short run" else [3, 1], [11, 12])
        assert bench.stream.pushed == []
        for handle, form in ((11, ONE), (12, TWO)):
            record = bench.arrays.get(handle)
            assert record.failure is not None
            assert words in record.failure.message
            assert record.form == form
        assert len(bench.feeds) == (how == "other launch")
        for handle in (1, 2, 3, 4):
            bench.arrays.destruct(handle)
        assert sorted(bench.stream.released) == ([1, 3, 4] if how == "other launch" else [1, 2, 3, 4])

    _with_loop(scenario)


def test_feeds_without_a_run_are_dropped_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_runs, "FEED_TIMEOUT_NS", 50 * 10**6)

    async def scenario(bench: Bench) -> None:
        for launch_id in (1, 2):
            bench.add(launch_id, TWO)
            bench.feeds.park(launch_id, 2, [launch_id])
            bench.arrays.destruct(launch_id)
        assert len(bench.tasks) == 1
        await asyncio.wait_for(bench.tasks[0], 10)
        assert len(bench.feeds) == 0
        assert bench.stream.released == [1, 2]
        bench.add(3, TWO)
        bench.feeds.park(3, 2, [3])
        assert len(bench.tasks) == 2

    _with_loop(scenario)


def test_feed_that_is_young_survives_the_sweep_of_an_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0
    monkeypatch.setattr(program_runs, "_now_ns", lambda: now_ns)

    async def scenario(bench: Bench) -> None:
        nonlocal now_ns
        for launch_id in (1, 2, 3):
            now_ns = launch_id * 10**9
            bench.add(launch_id, TWO)
            bench.feeds.park(launch_id, 2, [launch_id])
            bench.arrays.destruct(launch_id)
        bench.feeds._drop_older(2 * 10**9)
        assert bench.stream.released == [1, 2]
        assert len(bench.feeds) == 1

    _with_loop(scenario)


def test_oldest_feed_goes_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_runs, "FEEDS_MAX", 3)

    async def scenario(bench: Bench) -> None:
        for launch_id in range(1, 6):
            bench.add(launch_id, TWO)
            bench.feeds.park(launch_id, 2, [launch_id])
            bench.arrays.destruct(launch_id)
        assert bench.stream.released == [1, 2]
        assert len(bench.feeds) == 3

    _with_loop(scenario)


# ---- texts -----------------------------------------------------------------------------------------------------------


def _text(specs: list[list[int]], groups: list[tuple[int, list[int]]], donated: tuple[int, ...] = ()) -> values_pb2.Serialized:
    argument = programs_pb2.ArgumentNode(specs=[types_pb2.ArraySpec(devices=devices) for devices in specs])
    graph = programs_pb2.Graph(nodes=[programs_pb2.Node(argument=argument)])
    message = door_pb2.PluginProgram(program=programs_pb2.Program(name="p", graphs=[graph]), donated=donated)
    for shard_count, arguments in groups:
        message.groups.add(shard_count=shard_count, arguments=arguments)
    text = b"pathways-program " + base64.b64encode(message.SerializeToString())
    return values_pb2.Serialized(data=b"__serialized_plugin_program " + text)


def test_program_text_gives_groups_and_the_devices_of_its_first_argument() -> None:
    read = read_text(_text([[0], [3, 1], [2]], [(2, [1]), (1, [2, 0])], (2, 0)), 4)
    assert isinstance(read, ProgramText)
    assert read.groups == (Group(2, (1,)), Group(1, (2, 0)))
    assert read.devices == (3, 1)
    assert read.donated == (0, 2)


def test_program_without_arguments_stands_on_the_first_devices() -> None:
    for groups, devices in (([], (0,)), ([(2, [])], (0, 1))):
        read = read_text(_text([], groups), 4)
        assert isinstance(read, ProgramText)
        assert read.devices == devices


def test_feeds_are_known_by_their_shard_count() -> None:
    assert read_text(values_pb2.Serialized(data=b"__serialized_plugin_program pathways-feed 4"), 4) == FeedText(4)
    with pytest.raises(PathwaysError, match="a feed of 5 shards does not fit the 4 devices"):
        read_text(values_pb2.Serialized(data=b"__serialized_plugin_program pathways-feed 5"), 4)


@pytest.mark.parametrize(
    ("specs", "groups", "words"),
    [
        ([[0], [1]], [(1, [0])], "must name each of its 2 arguments once"),
        ([[0]], [(1, [0, 0])], "must name each of its 1 arguments once"),
        ([[0], [1]], [(1, [0]), (1, [1])], "same shard count"),
        ([[0]], [(1, [0]), (9, [])], "a group of 9 shards does not fit the 4 devices"),
        ([[0]], [(0, []), (1, [0])], "a group of 0 shards"),
        ([[0, 1]], [(1, [0])], "argument 0 has 2 shards, its group 1"),
        ([[0, 0]], [(2, [0])], "lies twice on one device"),
        ([[7]], [(1, [0])], "device 7 is not one of the 4 devices"),
    ],
)
def test_program_texts_that_make_no_sense_are_refused(
    specs: list[list[int]], groups: list[tuple[int, list[int]]], words: str
) -> None:
    with pytest.raises(PathwaysError, match=words):
        read_text(_text(specs, groups), 4)


def test_program_that_donates_what_it_does_not_take_is_refused() -> None:
    with pytest.raises(PathwaysError, match="donates an argument that is none of its 1"):
        read_text(_text([[0]], [(1, [0])], (1,)), 4)
