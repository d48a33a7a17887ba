"""Addresses are read strictly, failures and specs survive the wire."""

from __future__ import annotations

import pytest
from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.rpc.channels import parse_address
from pathways_common.rpc.convert import failure_from_proto, failure_to_proto, optional_failure, spec_from_proto, spec_to_proto
from pathways_proto.v1 import sessions_pb2, types_pb2


@pytest.mark.parametrize(
    ("text", "address"),
    [("grpc://h:1", "h:1"), ("h:1", "h:1"), (" grpc://127.0.0.1:29000/ ", "127.0.0.1:29000"), ("grpc://[::1]:7", "[::1]:7")],
)
def test_addresses_are_read_with_and_without_scheme(text: str, address: str) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "h", "h:", ":1", "http://h:1", "h:x", "h:70000", "grpc://h:1/path", "grpc://"])
def test_anything_else_is_refused_with_the_right_form(text: str) -> None:
    with pytest.raises(PathwaysError, match="write grpc://HOST:PORT"):
        parse_address(text)


def test_a_failure_survives_the_wire() -> None:
    failure = Failure(Reason.SLICE_LOST, "gone", host="a1", id="7", metadata={"host": "a1"}, retryable=True)
    message = types_pb2.Failure.FromString(failure_to_proto(failure).SerializeToString())
    assert failure_from_proto(message) == failure


def test_a_reason_of_a_later_version_becomes_internal_and_is_kept() -> None:
    failure = failure_from_proto(types_pb2.Failure(reason="SOMETHING_NEW", message="m"))
    assert failure.reason is Reason.INTERNAL
    assert failure.metadata["reason"] == "SOMETHING_NEW"


def test_an_optional_failure_is_none_unless_set() -> None:
    assert optional_failure(sessions_pb2.Ready(wait_id=1)) is None
    failure = optional_failure(sessions_pb2.Ready(failure=types_pb2.Failure(reason="DELETED", message="m")))
    assert failure == Failure(Reason.DELETED, "m")


def test_a_spec_survives_the_wire() -> None:
    spec = ArraySpec(11, (4, 6), b"\x01", (2, 6), (3, 1), "pinned_host")
    assert spec_from_proto(types_pb2.ArraySpec.FromString(spec_to_proto(spec).SerializeToString())) == spec
