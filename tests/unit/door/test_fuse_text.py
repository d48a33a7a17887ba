"""The text that adds groups to a program: what the door takes for one, and what the controller is asked and answers."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_door.plugin_programs import PluginPrograms
from pathways_door.plugin_texts import FuseText, read_text
from pathways_proto.ifrt import programs_pb2, values_pb2
from pathways_proto.v1 import door_pb2, sessions_pb2
from pathways_proto.v1 import programs_pb2 as own_programs_pb2

from tests.unit.door.test_register_text import Played

GROUP = own_programs_pb2.FusedGroup(
    first_node=2,
    last_node=5,
    computation=own_programs_pb2.Computation(executable_id=9),
    inputs=[own_programs_pb2.NodeInput(node=2)],
    outputs=[own_programs_pb2.Edge(node=5)],
)
TEXT = "pathways-fuse 7 " + base64.b64encode(door_pb2.PluginFusion(groups=[GROUP]).SerializeToString()).decode()


def serialized(text: str) -> values_pb2.Serialized:
    return values_pb2.Serialized(type_name="xla::ifrt::PluginProgram", data=text.encode())


def test_a_program_with_its_groups_is_read() -> None:
    assert read_text(serialized(TEXT), 2) == FuseText(7, (GROUP,))


@pytest.mark.parametrize("text", ["0 QQ==", "7 ", "7 QQ=", "x QQ==", "7 QQ==!", "7"])
def test_what_is_no_fusion_is_refused(text: str) -> None:
    with pytest.raises(PathwaysError):
        read_text(serialized(f"pathways-fuse {text}"), 2)


class Fusing(Played):
    def ask(self, kind: str, number: int, operation: Any, done: Any) -> None:
        assert (kind, number) == ("program_fused", 7)
        self.sent.append(operation)
        done(*self.given)


def fused(played: Any) -> Any:
    PluginPrograms(played).compile(object(), programs_pb2.CompileRequest(program=serialized(TEXT)))  # type: ignore[arg-type]
    return played.replies[0]


def test_how_many_groups_are_used_comes_back_as_the_fingerprint() -> None:
    played = Fusing(sessions_pb2.ProgramFused(program_id=7, group_count=3), None)
    assert fused(played).fingerprint_value == b"pathways-fused 3"
    assert played.sent[0].fuse_program == sessions_pb2.FuseProgram(program_id=7, groups=[GROUP])


def test_a_refusal_of_the_controller_reaches_the_client_unchanged() -> None:
    failure = Failure(Reason.INVALID_ARGUMENT, "the program has groups")
    assert fused(Fusing(None, failure)) is failure
