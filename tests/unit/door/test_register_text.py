"""The text that keeps a program under a name: what the door takes for one, and what the controller is asked and answers."""

from __future__ import annotations

from typing import Any

import pytest
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_door.plugin_programs import PluginPrograms
from pathways_door.plugin_texts import RegisterText, read_text
from pathways_proto.ifrt import programs_pb2, session_pb2, values_pb2
from pathways_proto.v1 import sessions_pb2


def serialized(text: str) -> values_pb2.Serialized:
    return values_pb2.Serialized(type_name="xla::ifrt::PluginProgram", data=text.encode())


def test_a_name_with_its_program_and_whether_to_replace_is_read() -> None:
    assert read_text(serialized("pathways-register 7 0 team/step-1.b_c"), 2) == RegisterText(7, "team/step-1.b_c", False)
    assert read_text(serialized("pathways-register 7 1 f"), 2) == RegisterText(7, "f", True)


@pytest.mark.parametrize("text", ["0 0 f", "7 2 f", "7 0 ", "7 0 a b", "7 0 /a", "7 0 a/", "7 0 " + "x" * 201, "x 0 f"])
def test_a_name_that_the_controller_would_not_take_is_refused_by_the_door(text: str) -> None:
    with pytest.raises(PathwaysError):
        read_text(serialized(f"pathways-register {text}"), 2)


class Played:
    """The parts of a session that a registration touches."""

    device_count = 2

    def __init__(self, answer: Any, failure: Failure | None) -> None:
        self.upstream = self.arrays = self.futures = self
        self.given = (answer, failure)
        self.sent: list[sessions_pb2.ClientOperation] = []
        self.replies: list[Any] = []

    def spawn(self, *_: Any) -> None: ...

    def ask(self, kind: str, number: int, operation: Any, done: Any) -> None:
        assert (kind, number) == ("program_registered", 7)
        self.sent.append(operation)
        done(*self.given)

    def new_handle(self) -> int:
        return 5

    def add(self, _future: Any) -> int:
        return 6

    def reply(self, _operation: Any, answer: bytes) -> None:
        self.replies.append(session_pb2.IfrtResponse.FromString(answer).compile_response)

    def refuse(self, _operation: Any, failure: Failure) -> None:
        self.replies.append(failure)


def registered(played: Any) -> Any:
    request = programs_pb2.CompileRequest(program=serialized("pathways-register 7 1 team/f"))
    PluginPrograms(played).compile(object(), request)  # type: ignore[arg-type]
    return played.replies[0]


def test_the_version_comes_back_as_the_fingerprint() -> None:
    played = Played(sessions_pb2.ProgramRegistered(program_id=7, name="team/f", version=3), None)
    response = registered(played)
    assert response.fingerprint_value == b"pathways-registered 3"
    assert played.sent[0].register_program == sessions_pb2.RegisterProgram(program_id=7, name="team/f", replace=True)


def test_a_refusal_of_the_controller_reaches_the_client_unchanged() -> None:
    failure = Failure(Reason.INVALID_ARGUMENT, "the name is taken")
    assert registered(Played(None, failure)) is failure
