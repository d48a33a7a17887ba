"""A door that is newer than its controller says so itself: the controller cannot know."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pathways_common.model.failure import PathwaysError, Reason
from pathways_common.rpc.version import own_versions, row
from pathways_door.upstream import _greet
from pathways_proto.v1 import sessions_pb2, types_pb2


class Controller:
    """Answers a hello with this welcome."""

    def __init__(self, welcome: sessions_pb2.Welcome) -> None:
        self._welcome = welcome

    async def write(self, frame: bytes) -> None:
        assert sessions_pb2.ClientFrame.FromString(frame).HasField("hello")

    async def read(self) -> Any:
        return sessions_pb2.ServerFrame(welcome=self._welcome).SerializeToString()


def greeted(welcome: sessions_pb2.Welcome, versions: types_pb2.Versions) -> sessions_pb2.Welcome:
    hello = sessions_pb2.Hello(pathways_version=versions.pathways, versions=versions)
    first = sessions_pb2.ClientFrame(hello=hello)
    return asyncio.run(_greet(Controller(welcome), first)).welcome  # type: ignore[arg-type]


def test_a_controller_of_the_release_before_is_taken() -> None:
    own = own_versions(with_jax=True)
    assert greeted(sessions_pb2.Welcome(server_version=own.pathways, session_number=7), own).session_number == 7


@pytest.mark.parametrize(("told", "version"), [(False, "0.0.9"), (True, "0.1.0")])
def test_a_controller_that_is_too_old_is_refused_with_both_sides(told: bool, version: str) -> None:
    new = types_pb2.Versions(pathways="0.1.0", protocol_level=9, oldest_protocol_level=8 if told else 1)
    welcome = sessions_pb2.Welcome(server_version=version)
    if told:
        welcome.versions.add().CopyFrom(row("controller", types_pb2.Versions(pathways=version, protocol_level=7)))
    with pytest.raises(PathwaysError) as caught:
        greeted(welcome, new)
    assert caught.value.failure.reason is Reason.VERSION_MISMATCH
    message = caught.value.failure.message
    assert (
        f"the controller is older: install pathways {version} where the client runs, or have the controller upgraded" in message
    )
    assert [line.split()[0] for line in message.splitlines()[2:]] == ["client", "controller"]


def test_a_controller_that_says_nothing_is_taken_at_its_word() -> None:
    assert greeted(sessions_pb2.Welcome(session_number=7), own_versions()).session_number == 7
