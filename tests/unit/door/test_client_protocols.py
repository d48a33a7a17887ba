"""The door answers with a protocol that the client offers, or with a sentence: anything else would end the client's process."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from pathways_door.ifrt_service import IfrtService
from pathways_proto.ifrt import grpc_service_pb2


class Aborted(Exception):
    pass


class Call:
    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise Aborted(code, details)


def answered(low: int, high: int, serdes: int) -> tuple[int, int]:
    service: Any = IfrtService(None, None, None, None, None)  # type: ignore[arg-type]
    request = grpc_service_pb2.GrpcGetVersionRequest()
    request.min_version.protocol_version, request.max_version.protocol_version = low, high
    request.max_version.ifrt_serdes_version_number = serdes
    raw = asyncio.run(service._get_version(request.SerializeToString(), Call()))
    version = grpc_service_pb2.GrpcGetVersionResponse.FromString(raw).version
    return version.protocol_version, version.ifrt_serdes_version_number


# What each jaxlib was seen to offer.
@pytest.mark.parametrize(
    ("jaxlib", "offer"),
    [("0.8.0", (15, 19, 0)), ("0.8.2", (15, 22, 0)), ("0.9.0", (16, 22, 0)), ("0.9.2", (16, 25, 1)), ("0.10.2", (16, 25, 3))],
)
def test_clients_of_served_versions_get_the_highest_that_they_offer(jaxlib: str, offer: tuple[int, int, int]) -> None:
    low, high, serdes = offer
    assert answered(low, high, serdes) == (high, serdes)


def test_a_newer_client_gets_what_the_door_speaks() -> None:
    assert answered(16, 30, 9) == (25, 9)


@pytest.mark.parametrize("offer", [(15, 16, 0), (26, 30, 9)])
def test_clients_of_other_versions_get_a_sentence(offer: tuple[int, int, int]) -> None:
    with pytest.raises(Aborted) as caught:
        answered(*offer)
    code, details = caught.value.args
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert details == (
        f"the client speaks IFRT proxy protocol {offer[0]} to {offer[1]}, this door 19 to 25; "
        "install jaxlib 0.8, 0.9 or 0.10 where the client runs"
    )
