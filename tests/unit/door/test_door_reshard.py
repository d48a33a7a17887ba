"""The door's part of a reshard: what it sends upstream, and what it keeps to itself."""

from __future__ import annotations

from typing import Any

import pytest
from pathways_door.context import Operation
from pathways_door.handles import ArrayTable, Value, form_of
from pathways_door.reshard import Reshards
from pathways_door.sharding import Placement, placement_to_proto
from pathways_proto.ifrt import arrays_pb2, strides_pb2, values_pb2, xla_data_pb2
from pathways_proto.v1 import sessions_pb2

REUSE, COPY, DONATE = (
    strides_pb2.ARRAY_COPY_SEMANTICS_REUSE_INPUT,
    strides_pb2.ARRAY_COPY_SEMANTICS_ALWAYS_COPY,
    strides_pb2.ARRAY_COPY_SEMANTICS_DONATE_INPUT,
)
HALVES = xla_data_pb2.OpSharding(
    type=xla_data_pb2.OpSharding.OTHER, tile_assignment_dimensions=[2], tile_assignment_devices=[0, 1]
).SerializeToString()
ROWS = Placement((0, 1), HALVES, "device")
FAR = Placement((3,), b"", "device")


class Session:
    """Stands for a context and its stream; records what is sent and answered."""

    def __init__(self) -> None:
        self.pushed: list[Any] = []
        self.answered: list[Any] = []
        self.last = 100
        self.upstream = self
        self.device_count = 4
        self.arrays = ArrayTable(self)  # type: ignore[arg-type]
        self.value = Value(1, 2, 32)
        self.source = self.arrays.add(7, form_of(11, (8,), ROWS), ((self.value, 0, 2),))

    def new_ids(self, count: int = 1) -> int:
        self.last += count
        return self.last - count + 1

    def push(self, operation: sessions_pb2.ClientOperation) -> None:
        self.pushed.append(operation.reshard)

    def release(self, value_id: int, size_bytes: int) -> None:
        pass

    def with_memory_kind(self, placement: Placement) -> Placement:
        return placement

    def reply_with(self, operation: Operation, **member: Any) -> None:
        self.answered.append(member["reshard_arrays_response"])

    def reshard(self, *placements: Placement, semantics: int = COPY, shape: int = 8) -> None:
        specs = [
            values_pb2.ArraySpecProto(
                dtype=values_pb2.DTypeProto(kind=11),
                shape=values_pb2.ShapeProto(dims=[shape]),
                sharding=placement_to_proto(placement),
            )
            for placement in placements
        ]
        handles = [50 + index for index in range(len(specs))]
        request = arrays_pb2.ReshardArraysRequest(
            array_handles=[7] * len(specs), array_specs=specs, copy_semantics=semantics, result_handles=handles
        )
        Reshards(self).handlers()["reshard_arrays_request"](Operation(1, 0), request)  # type: ignore[arg-type]
        assert list(self.answered[-1].array_handles) == handles


def test_one_message_says_how_all_arrays_lie_and_shall_lie() -> None:
    session = Session()
    session.reshard(FAR, ROWS)
    [sent] = session.pushed
    assert (list(sent.views), list(sent.result_ids), sent.donate) == ([1, 1], [101, 102], False)
    assert [(list(spec.devices), spec.sharding, list(spec.shard_shape)) for spec in sent.sources] == [([0, 1], HALVES, [4])] * 2
    assert [(list(spec.devices), list(spec.shard_shape)) for spec in sent.destinations] == [([3], [8]), ([0, 1], [4])]
    assert session.arrays.get(50).form.placement == FAR
    assert session.source.problem() is None


def test_an_array_that_lies_right_is_the_same_unless_a_copy_is_wanted() -> None:
    session = Session()
    session.reshard(ROWS, semantics=REUSE)
    assert session.pushed == []
    assert session.arrays.get(50).ranges == session.source.ranges
    session.reshard(ROWS, semantics=COPY)
    assert len(session.pushed) == 1


def test_a_donated_array_has_ended_and_its_result_has_not() -> None:
    session = Session()
    session.reshard(FAR, semantics=DONATE)
    assert session.pushed[0].donate
    assert session.source.problem() is not None
    assert session.arrays.get(50).problem() is None
    session.reshard(FAR)
    failure = session.arrays.get(50).problem()
    assert failure is not None
    assert failure.reason.value == "DELETED"


@pytest.mark.parametrize(("placement", "shape", "words"), [(Placement((9,), b"", "device"), 8, "device 9"), (FAR, 4, "shape")])
def test_what_cannot_be_is_kept_under_the_result(placement: Placement, shape: int, words: str) -> None:
    session = Session()
    session.reshard(placement, shape=shape)
    failure = session.arrays.get(50).problem()
    assert failure is not None
    assert words in failure.message
    assert session.pushed == []
