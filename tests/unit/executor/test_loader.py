"""Loads beside launches: sessions in turns, entered before they are told, never entered once unloaded; and one real executor."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pathways_common.model.ids import SessionNumber, global_id
from pathways_proto.v1 import workers_pb2
from pathways_worker.executor.frames import write_frame
from pathways_worker.executor.loader import Loader
from pathways_worker.executor.progress import LOADING, Progress
from pathways_worker.shell.progress_page import ProgressPage

from tests.unit.executor.driving import Executor, lower, ready_executor, slow_to_compile

WAIT_S = 30
MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)
Command = workers_pb2.HostCommand


class Compiler:
    """Takes loads one at a time, says where it is, and ends each when it is told to."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.programs: dict[int, Any] = {}
        self.begun: list[int] = []
        self.told: list[tuple[int, str, bool]] = []  # id, reason of its failure, and whether it can be launched
        self.at = threading.Event()
        self.go_on = threading.Semaphore(0)
        self.shared: set[int] = set()
        self.ended = threading.Condition()
        self.loader = Loader(
            self.programs, self.carry_out, lambda load: load.executable_id in self.shared, self.progress, self.tell
        )

    def carry_out(self, load: Any) -> tuple[Any, Any]:
        assert self.progress.numbers[LOADING] == load.executable_id
        self.begun.append(load.executable_id)
        self.at.set()
        assert self.go_on.acquire(timeout=WAIT_S)
        if load.program == b"defect":
            raise RuntimeError("nobody foresaw this")
        return object(), workers_pb2.Loaded(executable_id=load.executable_id)

    def tell(self, answer: Any) -> None:
        with self.ended:
            self.told.append((answer.executable_id, answer.failure.reason, answer.executable_id in self.programs))
            self.ended.notify_all()

    def load(self, *identifiers: int, program: bytes = b"") -> None:
        for identifier in identifiers:
            self.loader.load(workers_pb2.Load(executable_id=identifier, program=program))
        assert self.at.wait(WAIT_S)

    def finish(self, count: int) -> list[tuple[int, str, bool]]:
        """Ends so many loads; what was told once nothing is left."""
        for _ in range(count):
            self.go_on.release()
        with self.ended:
            assert self.ended.wait_for(lambda: not self.loader._jobs, WAIT_S)
        return self.told


@pytest.fixture
def compiler() -> Compiler:
    return Compiler()


def test_loads_are_carried_out_in_their_order_and_can_be_launched_once_they_are_told(compiler: Compiler) -> None:
    compiler.load(3, 1, 2)
    assert compiler.begun == [3]
    assert compiler.loader.held() == [3, 1, 2], "what is being loaded counts as held"
    assert compiler.finish(3) == [(3, "", True), (1, "", True), (2, "", True)]
    assert compiler.begun == [3, 1, 2]
    assert compiler.progress.numbers[LOADING] == 0
    assert compiler.loader.held() == [3, 1, 2]


def test_what_is_unloaded_while_it_is_loaded_is_answered_and_never_entered(compiler: Compiler) -> None:
    compiler.load(1)
    compiler.loader.unload([1])
    assert compiler.loader.held() == []
    assert compiler.finish(1) == [(1, "", False)]
    assert compiler.programs == {}


def test_what_is_unloaded_before_it_was_begun_is_only_begun_if_other_hosts_load_it_too(compiler: Compiler) -> None:
    compiler.shared.add(3)
    compiler.load(1, 2, 3)
    compiler.loader.unload([2, 3])
    assert compiler.finish(2) == [(1, "", True), (2, "CANCELLED", False), (3, "", False)]
    assert compiler.begun == [1, 3]


def test_of_what_is_not_begun_any_more_no_bytes_are_kept(compiler: Compiler) -> None:
    compiler.load(1, 2, program=b"x" * 1000)
    compiler.loader.unload([1, 2])
    assert [len(job.load.program) for job in compiler.loader._jobs] == [1000, 0], "the first is at work"
    assert compiler.finish(1) == [(1, "", False), (2, "CANCELLED", False)]


def test_an_id_that_is_loaded_again_names_what_was_loaded_last(compiler: Compiler) -> None:
    compiler.load(1)
    compiler.loader.unload([1])
    compiler.load(1)
    assert compiler.loader.held() == [1]
    assert compiler.finish(2) == [(1, "", False), (1, "", True)]


def test_a_defect_fails_its_load_and_those_behind_it_go_on(compiler: Compiler, capsys: pytest.CaptureFixture[str]) -> None:
    compiler.load(1, program=b"defect")
    compiler.load(2)
    assert compiler.finish(2) == [(1, "INTERNAL", False), (2, "", True)]
    assert "nobody foresaw this" in capsys.readouterr().err


def test_sessions_take_turns_and_what_was_unloaded_takes_none(compiler: Compiler) -> None:
    ours, theirs = (lambda number: global_id(SessionNumber(1), number)), global_id(SessionNumber(2), 1)
    compiler.load(ours(1), ours(2), ours(3), ours(4), theirs)
    compiler.loader.unload([ours(2)])
    compiler.finish(4)
    assert compiler.begun == [ours(1), theirs, ours(3), ours(4)]
    assert [identifier for identifier, reason, _ in compiler.told if reason] == [ours(2)]


# ---- a real one --------------------------------------------------------------------------------------------------------


@pytest.fixture
def executor() -> Iterator[Executor]:
    with ready_executor() as executor:
        yield executor


def held(executor: Executor, number: int) -> list[int]:
    executor.handled(Command(report_holdings=workers_pb2.ReportHoldings(request_id=number)))
    objects = executor.event("holdings", request_id=number).objects
    return [identifier for each in objects if each.kind == workers_pb2.HELD_KIND_EXECUTABLE for identifier in each.ids]


def test_launches_go_on_while_a_program_is_compiled(executor: Executor) -> None:
    add = executor.load(lower(lambda x: x + 1, MATRIX)).executable_id
    long = executor.load_command(lower(slow_to_compile, MATRIX))
    identifier, value, count = long.load.executable_id, executor.place(MATRIX), 0
    executor.handled(long)
    assert held(executor, 1) == [add, identifier]
    deadline_s = time.monotonic() + WAIT_S
    while not executor.events_of("loaded"):
        (value,) = executor.execute(add, [value])
        executor.fetch(value, MATRIX)
        count += 1
        assert time.monotonic() < deadline_s
    assert count >= 20, f"only {count} launches ended while a program was compiled"
    assert not executor.event("loaded", executable_id=identifier).HasField("failure")
    np.testing.assert_array_equal(executor.fetch(value, MATRIX), MATRIX + count)
    (result,) = executor.execute(identifier, [executor.place(MATRIX)])
    assert executor.fetch(result, MATRIX).shape == MATRIX.shape


def test_what_is_unloaded_while_it_is_compiled_is_not_held_and_cannot_be_launched() -> None:
    page = ProgressPage()
    executor = Executor(progress_fd=page.descriptor)
    page.handed_over()
    try:
        executor.begin()
        executor.event("epoch_ready")
        unload_while_compiled(executor, page)
    finally:
        executor.close()


def unload_while_compiled(executor: Executor, page: ProgressPage) -> None:
    long = executor.load_command(lower(slow_to_compile, MATRIX))
    identifier = long.load.executable_id
    executor.handled(long)
    deadline_s = time.monotonic() + WAIT_S
    while page.look().loading != identifier:
        assert time.monotonic() < deadline_s, "it is not begun"
        time.sleep(0.001)
    executor.handled(Command(unload=workers_pb2.Unload(executable_ids=[identifier])))
    assert held(executor, 1) == []
    assert not executor.events_of("loaded")
    assert not executor.event("loaded", executable_id=identifier).HasField("failure")
    assert held(executor, 2) == []
    command = executor.prepare_command(identifier, [executor.place(MATRIX)], 1)
    executor.send(command)
    failed = executor.event("node_failed", execution_id=command.prepare.execution_id)
    assert "is not loaded on this host" in failed.failure.message


def test_an_executor_ends_while_it_compiles(executor: Executor) -> None:
    long = executor.load_command(lower(slow_to_compile, MATRIX))
    executor.handled(long)
    began_s = time.monotonic()
    executor.close()
    assert time.monotonic() - began_s < 2
    assert executor.process.returncode == 0


def test_a_defect_of_the_dispatcher_ends_the_executor_by_an_exit_code_that_blames_no_program() -> None:
    executor = Executor()
    try:
        executor.begin()
        executor.event("epoch_ready")
        executor.handled(executor.load_command(lower(slow_to_compile, MATRIX)))
        write_frame(executor.control, b"\xff\xff")  # no frame of a daemon
        assert executor.process.wait(WAIT_S) == 1, "a signal would be held against the program"
    finally:
        executor.close()
    assert b"DecodeError" in executor.stderr
