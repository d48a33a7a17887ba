"""The stream to the door: requests are answered from any thread, in any order, and a hanging callback holds nobody up."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest
from pathways import _arrays
from pathways._callback_stream import CallbackStream
from pathways_proto.v1 import door_pb2_grpc, sessions_pb2

WAIT_S = 60.0


class _Door(door_pb2_grpc.CallbacksServicer):  # type: ignore[misc]
    def __init__(self) -> None:
        self.requests: queue.Queue[sessions_pb2.CallbackRequest | None] = queue.Queue()
        self.results: queue.Queue[sessions_pb2.CallbackResult] = queue.Queue()
        self.secrets: list[str] = []

    def Serve(self, results: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        self.secrets.append(dict(context.invocation_metadata())["pathways-door-secret"])
        context.send_initial_metadata(())
        threading.Thread(target=self._take, args=(results,), daemon=True).start()
        while (request := self.requests.get()) is not None:
            yield request

    def _take(self, results: Iterator[Any]) -> None:
        try:
            for result in results:
                self.results.put(result)
        except Exception:
            return


@pytest.fixture
def door() -> Iterator[tuple[_Door, str]]:
    server = grpc.server(ThreadPoolExecutor(4))
    door = _Door()
    door_pb2_grpc.add_CallbacksServicer_to_server(door, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield door, f"127.0.0.1:{port}"
    door.requests.put(None)
    server.stop(0.2).wait(timeout=5)


def _request(call: int, callback: int, *operands: Any) -> sessions_pb2.CallbackRequest:
    return sessions_pb2.CallbackRequest(call_id=call, callback_id=callback, operands=_arrays.from_numpy(operands))


def test_results_come_back_and_a_hanging_callback_holds_nobody_up(door: tuple[_Door, str]) -> None:
    fake, address = door
    release = threading.Event()
    functions: dict[int, Callable[..., Any]] = {1: lambda x: (x + 1,), 2: lambda: (release.wait(WAIT_S), ())[1]}
    stream = CallbackStream(address, "the-secret", functions.get)
    try:
        fake.requests.put(_request(1, 2))
        for call in range(2, 50):
            fake.requests.put(_request(call, 1, np.float32(call)))
        answers = {result.call_id: result for result in (fake.results.get(timeout=WAIT_S) for _ in range(48))}
        assert set(answers) == set(range(2, 50))
        assert all(_arrays.to_numpy(answers[call].results)[0] == call + 1 for call in answers)
        release.set()
        assert fake.results.get(timeout=WAIT_S).call_id == 1
        assert fake.secrets == ["the-secret"]
    finally:
        release.set()
        stream.close()


def test_door_that_leaves_marks_the_stream_broken(door: tuple[_Door, str]) -> None:
    fake, address = door
    stream = CallbackStream(address, "s", lambda identifier: None)
    assert not stream.broken
    fake.requests.put(None)
    deadline_s = time.monotonic() + WAIT_S
    while not stream.broken and time.monotonic() < deadline_s:
        time.sleep(0.02)
    assert stream.broken
    stream.close()
