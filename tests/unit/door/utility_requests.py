"""Requests as pathwaysutils 0.1.13 writes them, without pathwaysutils."""

from __future__ import annotations

import base64
import json
from typing import Any

from pathways_proto.ifrt import xla_data_pb2

HALVES = xla_data_pb2.OpSharding(
    type=xla_data_pb2.OpSharding.OTHER, tile_assignment_dimensions=[2], iota_reshape_dims=[2], iota_transpose_perm=[0]
).SerializeToString()
COPIES = xla_data_pb2.OpSharding(type=xla_data_pb2.OpSharding.REPLICATED).SerializeToString()


def encoded(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def lies(devices: list[int], sharding: bytes = HALVES, **more: str) -> dict[str, Any]:
    return {"devices": {"device_ids": devices}, "xla_hlo_sharding": encoded(sharding), **more}


def reshard(before: list[Any], after: list[Any], donate: bool = False) -> bytes:
    return json.dumps({"reshardRequest": {"donateInput": donate, "inSharding": before, "outSharding": after}}).encode()


def stored(name: str, devices: list[int], sharding: bytes = HALVES, folder: str = "/data", **changed: Any) -> dict[str, Any]:
    """One array of a request to write."""
    return {
        "b64_location": encoded(folder),
        "b64_name": encoded(name),
        "b64_hlo_sharding_string": encoded(sharding),
        "shape": [8],
        "devices": {"device_ids": devices},
        "timeout": {"seconds": 30, "nanos": 500},
        **changed,
    }


def asked(name: str, devices: list[int], sharding: bytes = HALVES, **changed: Any) -> dict[str, Any]:
    """One array of a request to read."""
    return stored(name, devices, sharding, **({"shape": {"xla_primitive_type_str": "F32", "dimensions": [8]}} | changed))


def write(*arrays: dict[str, Any]) -> bytes:
    return json.dumps({"bulk_persistence_write_request": {"write_requests": arrays}}).encode()


def read(*arrays: dict[str, Any]) -> bytes:
    return json.dumps({"bulk_persistence_read_request": {"read_requests": arrays}}).encode()
