"""A wait for several values that ends because a host was late: who is named, by what the controller says of each value."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest
from pathways_common.model.colocated import LATE
from pathways_common.model.failure import Failure, Reason
from pathways_door import late_hosts
from pathways_door.context import Operation
from pathways_door.handles import NO_FORM, ArrayTable, Value
from pathways_door.pending import Continuation, Pending
from pathways_door.waits import Waits
from pathways_proto.ifrt import arrays_pb2
from pathways_proto.v1 import sessions_pb2


def late(host: str, reason: Reason = Reason.TIMED_OUT) -> Failure:
    return Failure(reason, f"f did not return within 5 s on host {host}", host=host, metadata={LATE: "f"})


class Session:
    """Stands for a context and its stream. `says`: what is answered to a wait for one value, None being that it is there."""

    def __init__(self, says: dict[int, Failure | None]) -> None:
        self.upstream = self
        self.pending = Pending()
        self.arrays = ArrayTable(self)  # type: ignore[arg-type]
        self.released: list[int] = []
        self.refused: list[Failure] = []
        self.asked: list[list[int]] = []
        self._says = says

    def ask(self, kind: str, number: int, operation: sessions_pb2.ClientOperation, done: Continuation) -> None:
        views = list(operation.wait.views)
        self.asked.append(views)
        # Of several the controller tells the first failure.
        found = [self._says[view] for view in views if view in self._says]
        failures = [failure for failure in found if failure is not None]
        if failures or len(found) == len(views):
            done(None, failures[0] if failures else None)

    def release(self, value_id: int, size_bytes: int) -> None:
        self.released.append(value_id)

    def refuse(self, operation: Operation, failure: Failure) -> None:
        self.refused.append(failure)

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work, name=name)


def refusal(says: dict[int, Failure | None], values: Sequence[int]) -> tuple[Session, Failure]:
    """What the client is told that waits for these and lets go of them meanwhile."""

    async def scenario() -> tuple[Session, Failure]:
        session = Session(says)
        for value in values:
            session.arrays.add(value, NO_FORM, ((Value(value, 1, 4), 0, 1),))
        request = arrays_pb2.CheckValueReadyRequest(value_handles=values)
        wait = Waits(session).handlers()["check_value_ready_request"]  # type: ignore[arg-type]
        wait(Operation(1, 0), request)
        for value in values:
            session.arrays.destruct(value)
        for _ in range(100):
            if session.refused:
                break
            await asyncio.sleep(0.01)
        (failure,) = session.refused
        return session, failure

    return asyncio.run(scenario())


def test_every_late_host_is_named_once_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_hosts, "GRACE_S", 0.05)
    # 4 may still come in time, 5 is there, and 6 failed otherwise.
    says = {1: late("a1"), 2: late("a0"), 3: late("a0"), 5: None, 6: late("b0", Reason.USER_ERROR)}
    session, failure = refusal(says, [1, 2, 3, 4, 5, 6])
    assert failure.message == "f did not return within 5 s on host a1; late in the same way: host a0"
    assert (failure.reason, failure.host, failure.metadata["hosts"]) == (Reason.TIMED_OUT, "a1", "a0,a1")
    # The values are there until the controller has been asked about each.
    assert session.asked == [[1, 2, 3, 4, 5, 6], [1], [2], [3], [4], [5], [6]]
    assert session.released == [1, 2, 3, 4, 5, 6]


def test_the_answer_comes_as_soon_as_all_hosts_have_said_how_it_is() -> None:
    _, failure = refusal({1: late("a1"), 2: None, 3: late("a2"), 4: late("b0")}, [1, 2, 3, 4])
    assert failure.message.endswith("on host a1; late in the same way: hosts a2, b0")


@pytest.mark.parametrize("values", [[1], [1, 2]])
def test_one_late_host_and_failures_of_another_kind_are_told_as_they_are(values: list[int]) -> None:
    only = late("a1")
    assert refusal({1: only, 2: None}, values)[1] is only
    broken = Failure(Reason.USER_ERROR, "ValueError: no", host="a1")
    session, failure = refusal({1: broken, 2: None}, values)
    assert failure is broken
    assert session.asked == [values]
