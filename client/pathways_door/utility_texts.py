"""Requests of `pathwaysutils`, plugin programs in JSON: to lay arrays out anew, to write them to storage, to read them from it.

What is read here is checked as far as the door relies on it: devices, shardings, types, paths. A request that cannot be served
is refused in one sentence.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pathways_common.model.bounds import PROGRAM_BYTES_MAX
from pathways_common.model.colocated import STORAGE_TIMEOUT_NS
from pathways_common.model.failure import Reason, fail
from pathways_common.model.sharding import layout_of

from pathways_door.sharding import Placement, checked_devices, placement_over

# As `pathwaysutils` names element types -> their numbers.
_DTYPES = {
    "S8": 2, "S16": 3, "S32": 4, "S64": 5, "U8": 6, "U16": 7, "U32": 8, "U64": 9, "F32": 11, "F64": 12, "BF16": 16,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReshardText:
    """Arrays over these devices get other placements."""

    devices: tuple[int, ...]
    placements: tuple[Placement, ...]
    donate: bool


@dataclass(frozen=True, slots=True)
class StoredText:
    """One array in storage: a directory of the hosts, its shape, how it lies in memory, its type (0: that of the argument)."""

    path: str
    shape: tuple[int, ...]
    placement: Placement
    dtype: int


@dataclass(frozen=True, slots=True)
class StorageText:
    """Arrays are written to storage, or read from it. `devices` are those of all of them, in the order of the first one's."""

    write: bool
    arrays: tuple[StoredText, ...]
    devices: tuple[int, ...]
    timeout_ns: int


UtilityText: TypeAlias = ReshardText | StorageText


def read_utility_text(text: bytes, device_count: int) -> UtilityText:
    """Reads a request for a session of so many devices; raises PathwaysError with one sentence if it cannot be served."""
    if len(text) > PROGRAM_BYTES_MAX:
        sentence = f"the request has {len(text)} bytes, the limit is {PROGRAM_BYTES_MAX}; ask for fewer arrays at once"
        raise fail(Reason.RESOURCE_EXHAUSTED, sentence)
    try:
        [(name, request)] = json.loads(text).items()
        return _read(name, request, device_count)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, RecursionError) as error:
        what = f"{type(error).__name__}: {str(error)[:200]}"
        raise fail(Reason.INVALID_ARGUMENT, f"a plugin program in JSON is no request of pathwaysutils ({what})") from None


def _read(name: str, request: Mapping[str, Any], device_count: int) -> UtilityText:
    match name:
        case "reshardRequest":
            return _reshard(request, device_count)
        case "persistenceWriteRequest" | "persistenceReadRequest":
            return _storage([request], name == "persistenceWriteRequest", device_count)
        case "bulk_persistence_write_request":
            return _storage(request["write_requests"], True, device_count)
        case "bulk_persistence_read_request":
            return _storage(request["read_requests"], False, device_count)
        case "profileRequest":
            sentence = "profiles are not taken through pathwaysutils on this cluster; look at a run with `pathways trace`"
            raise fail(Reason.UNSUPPORTED, sentence)
        case _:
            raise fail(
                Reason.UNSUPPORTED,
                f"the request {str(name)[:100]} of pathwaysutils is not served here; reshardRequest, persistenceWriteRequest and "
                "persistenceReadRequest are",
            )


def _reshard(request: Mapping[str, Any], device_count: int) -> ReshardText:
    before = [_lies(each, device_count) for each in request["inSharding"]]
    wanted = tuple(_lies(each, device_count) for each in request["outSharding"])
    if not before or len(before) != len(wanted):
        raise fail(Reason.INVALID_ARGUMENT, f"a reshard has {len(before)} arrays and {len(wanted)} places; give one for each")
    return ReshardText(before[0].devices, wanted, bool(request.get("donateInput")))


def _lies(message: Mapping[str, Any], device_count: int) -> Placement:
    sharding = _base64(message["xla_hlo_sharding"])
    return _placement(message["devices"], sharding, str(message.get("memory_kind", "")), device_count)


def _placement(devices: Mapping[str, Any], sharding: bytes, kind: str, device_count: int) -> Placement:
    numbers = tuple(int(device) for device in devices["device_ids"])
    if not numbers or len(set(numbers)) != len(numbers):
        raise fail(Reason.INVALID_ARGUMENT, f"an array names devices {list(numbers)}; name at least one, and none twice")
    checked_devices(numbers, device_count)
    return placement_over(numbers, sharding, kind)


def _storage(requests: Sequence[Mapping[str, Any]], write: bool, device_count: int) -> StorageText:
    arrays = tuple(_stored(request, write, device_count) for request in requests)
    if not arrays:
        raise fail(Reason.INVALID_ARGUMENT, "a request for storage names no arrays; give at least one")
    if len({array.path for array in arrays}) != len(arrays):
        raise fail(Reason.INVALID_ARGUMENT, "a request for storage names one array twice; give each its own name")
    devices = arrays[0].placement.devices
    strange = [array.path for array in arrays if sorted(array.placement.devices) != sorted(devices)]
    if strange:
        sentence = f"{strange[0]} lies on other devices than {arrays[0].path}; make one request for each set of devices"
        raise fail(Reason.INVALID_ARGUMENT, sentence)
    allowed = min(int(request["timeout"].get("seconds", 0)) for request in requests) * 10**9
    allowed += min(int(request["timeout"].get("nanos", 0)) for request in requests)
    return StorageText(write, arrays, devices, min(max(allowed, 0), STORAGE_TIMEOUT_NS))


def _stored(request: Mapping[str, Any], write: bool, device_count: int) -> StoredText:
    folder, name = _base64(request["b64_location"]).decode(), _base64(request["b64_name"]).decode()
    folder = folder.removeprefix("file://")
    if not folder.startswith("/"):
        sentence = (
            f"arrays are written to and read from a directory that all hosts have, not {folder[:200]}; give its absolute path"
        )
        raise fail(Reason.UNSUPPORTED, sentence)
    shape = tuple(int(size) for size in (request["shape"] if write else request["shape"]["dimensions"]))
    dtype = 0 if write else _DTYPES[request["shape"]["xla_primitive_type_str"]]
    placement = _placement(request["devices"], _base64(request["b64_hlo_sharding_string"]), "", device_count)
    if min(shape, default=0) < 0:
        raise fail(Reason.INVALID_ARGUMENT, f"an array has the shape {list(shape)}; sizes are not negative")
    layout_of(placement.sharding, shape, len(placement.devices))
    return StoredText(f"{folder.rstrip('/')}/{name}", shape, placement, dtype)


def _base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text[:50]!r} is not base64") from error
