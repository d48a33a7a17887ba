"""Model values to proto messages and back. From a message: checks nothing but what the model cannot hold."""

from __future__ import annotations

from types import MappingProxyType

from pathways_proto.v1 import types_pb2

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure, Reason


def failure_to_proto(failure: Failure) -> types_pb2.Failure:
    """The message of a failure."""
    return types_pb2.Failure(
        reason=failure.reason.value,
        message=failure.message,
        host=failure.host,
        id=failure.id,
        metadata=dict(failure.metadata),
        retryable=failure.retryable,
    )


def failure_from_proto(message: types_pb2.Failure) -> Failure:
    """The failure of a message; a reason this version does not know becomes INTERNAL and is kept in the metadata."""
    metadata = dict(message.metadata)
    reason = Reason.__members__.get(message.reason)
    if reason is None:
        metadata["reason"] = message.reason
        reason = Reason.INTERNAL
    return Failure(
        reason,
        message.message,
        host=message.host,
        id=message.id,
        metadata=MappingProxyType(metadata),
        retryable=message.retryable,
    )


def optional_failure(message: object) -> Failure | None:
    """The `failure` field of any message that has one; None if it is not set."""
    if not message.HasField("failure"):  # type: ignore[attr-defined]
        return None
    return failure_from_proto(message.failure)  # type: ignore[attr-defined]


def spec_to_proto(spec: ArraySpec) -> types_pb2.ArraySpec:
    """The message of an array spec."""
    return types_pb2.ArraySpec(
        dtype=spec.dtype,
        shape=spec.shape,
        sharding=spec.sharding,
        shard_shape=spec.shard_shape,
        devices=spec.devices,
        memory_kind=spec.memory_kind,
    )


def spec_from_proto(message: types_pb2.ArraySpec) -> ArraySpec:
    """The array spec of a message."""
    return ArraySpec(
        dtype=message.dtype,
        shape=tuple(message.shape),
        sharding=message.sharding,
        shard_shape=tuple(message.shard_shape),
        devices=tuple(message.devices),
        memory_kind=message.memory_kind,
    )
