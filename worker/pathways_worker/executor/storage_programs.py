"""Requests to write arrays to storage, or read them from it, as the executor loads them.

Whatever a request says of an array it says twice, to storage and to the devices: what does not agree is refused, before anything
is written. Nothing of it needs the devices of other hosts, so each host does what is for its own, wherever these are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pathways_common.model.failure import Reason
from pathways_proto.v1 import colocated_pb2

from pathways_worker.executor.element_types import dtype_of
from pathways_worker.executor.failures import refuse


def check(message: Any) -> None:
    """Raises Refused where its arrays, its arguments or results, and its devices do not fit one another."""
    storage = message.storage
    what, specs, others = "parameters", message.parameters, message.outputs
    if not storage.write:
        what, specs, others = "outputs", others, specs
    if len(specs) != len(storage.arrays) or others:
        raise _refused(
            message, f"it has {len(specs)} {what} for {len(storage.arrays)} arrays; give one for each, and nothing else"
        )
    for stored, spec in zip(storage.arrays, specs, strict=True):
        if (stored.dtype, list(stored.shard_shape)) != (spec.dtype, list(spec.shard_shape)):
            raise _refused(message, f"{stored.path} is of another type or shard shape than its array; make the request anew")
        if dtype_of(stored.dtype) is None:
            raise _refused(message, f"{stored.path} is of element type {stored.dtype}, which executors do not hold")
        if len(stored.shards) != len(message.devices):
            count = len(stored.shards)
            raise _refused(message, f"{stored.path} has {count} shards for {len(message.devices)} devices; name one for each")
        ranks = {len(stored.shape), len(stored.shard_shape), *(len(shard.start) for shard in stored.shards)}
        if len(ranks) > 1:
            raise _refused(message, f"{stored.path} and its shards have different numbers of dimensions; give them one")


def part(message: Any, here: Sequence[int]) -> Any:
    """The same request for some of its devices, by their index in it."""
    if len(here) == len(message.devices):
        return message
    found = colocated_pb2.ColocatedProgram()
    found.CopyFrom(message)
    found.devices[:] = [message.devices[index] for index in here]
    for stored, whole in zip(found.storage.arrays, message.storage.arrays, strict=True):
        del stored.shards[:]
        stored.shards.extend(whole.shards[index] for index in here)
    return found


def _refused(message: Any, why: str) -> Exception:
    return refuse(Reason.INVALID_ARGUMENT, f"{message.name} cannot be carried out: {why}")
