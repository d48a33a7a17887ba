"""Changes to protobuf messages that know what a message is made of: numbers at their bounds, ids of others, lists, oneofs, bytes.

A `Mutator` draws all its choices from one random.Random, so a case is replayed by its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from pathways_proto.ifrt import compile_options_pb2, values_pb2, xla_data_pb2

_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
    FieldDescriptor.CPPTYPE_ENUM: (-(1 << 31), (1 << 31) - 1),
}
# Around what counts here: powers at which ids are cut, sizes overflow, and lists would fill the memory.
_EDGES = [0, 1, -1, 2, 3, 63, 64, 65, 65536, (1 << 20) + 1]
_EDGES += [edge + step for bits in (31, 32, 39, 40, 47, 48, 56, 62, 63, 64) for edge in (1 << bits,) for step in (-1, 0)]
_EDGES += [-(1 << 31), -(1 << 63)]
_WORDS = ["", "x" * 70_000, "../../etc/passwd", "\x00\n\x1b[2J", "nowhere", "pinned_host", "device", "ü" * 600, "%s%n{}"]
_REPEATS = (2, 3, 70, 1100)

# What bytes hold, by the type name beside them, or by the name of their field.
_INNER: dict[str, Any] = {
    "xla::ifrt::XlaCompileOptions": values_pb2.XlaCompileOptionsProto,
    "xla::ifrt::HloSharding": values_pb2.HloShardingProto,
    "xla::ifrt::SingleDeviceSharding": values_pb2.SingleDeviceShardingProto,
    "xla::ifrt::ConcreteEvenSharding": values_pb2.ConcreteEvenShardingProto,
    "sharding": xla_data_pb2.OpSharding,
    "options": compile_options_pb2.CompileOptionsProto,
}

Place = tuple[Message, FieldDescriptor, int]  # in which message, which field, at which position (-1: not repeated)


def places(message: Message) -> Iterator[Place]:
    """Every field that is set in a message or below it; of a list every element, up to 40."""
    for field, value in message.ListFields():
        if field.is_repeated:
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                continue
            for index in range(min(len(value), 40)):
                yield message, field, index
                if field.message_type is not None:
                    yield from places(value[index])
        else:
            yield message, field, -1
            if field.message_type is not None:
                yield from places(value)


def messages(message: Message) -> Iterator[Message]:
    """The message and all that are set below it."""
    yield message
    for holder, field, index in places(message):
        if field.message_type is not None:
            value = getattr(holder, field.name)
            yield value if index < 0 else value[index]


class Mutator:
    """Changes messages in place. `ids` are numbers that mean something to the other end, of this session and of others."""

    def __init__(self, choose: random.Random, ids: Sequence[int]) -> None:
        self._choose = choose
        self._ids = list(ids) or [1]

    def mutate(self, message: Message, changes: int | None = None) -> None:
        """Makes one to three changes."""
        for _ in range(changes or self._choose.choice((1, 1, 1, 2, 3))):
            found = list(places(message))
            if not found or self._choose.random() < 0.15:
                self._set_another(message)
            else:
                self._change(*self._choose.choice(found))

    def _set_another(self, message: Message) -> None:
        """Sets a field that may not have been set, of the message or of one below it."""
        holder = self._choose.choice(list(messages(message)))
        fields = [field for field in holder.DESCRIPTOR.fields if not _is_map(field)]
        if not fields:
            return
        field = self._choose.choice(fields)
        if field.is_repeated:
            values = getattr(holder, field.name)
            if field.message_type is not None:
                values.add()
            else:
                values.append(self._scalar(holder, field, 0))
        elif field.message_type is not None:
            getattr(holder, field.name).SetInParent()
        else:
            setattr(holder, field.name, self._scalar(holder, field, getattr(holder, field.name)))

    def _change(self, holder: Message, field: FieldDescriptor, index: int) -> None:
        if index >= 0 and self._choose.random() < 0.4:
            self._change_list(getattr(holder, field.name), index)
        elif field.message_type is not None:
            if index < 0 and self._choose.random() < 0.3:
                holder.ClearField(field.name)
            else:
                value = getattr(holder, field.name)
                self.mutate(value if index < 0 else value[index], 1)
        elif index >= 0:
            values = getattr(holder, field.name)
            values[index] = self._scalar(holder, field, values[index])
        else:
            setattr(holder, field.name, self._scalar(holder, field, getattr(holder, field.name)))

    def _change_list(self, values: Any, index: int) -> None:
        kept = list(values)
        chosen: Callable[[], list[Any]] = self._choose.choice(
            (
                lambda: kept[:index] + kept[index + 1 :],
                lambda: kept + [kept[index]] * self._choose.choice(_REPEATS),
                lambda: kept[::-1],
                list,
                lambda: [*kept[:index], kept[index], *kept[index:]],
            )
        )
        after = [_copy(value) for value in chosen()]
        del values[:]
        values.extend(after)

    def _scalar(self, holder: Message, field: FieldDescriptor, value: Any) -> Any:
        choose, kind = self._choose, field.cpp_type
        if kind in _RANGES:
            low, high = _RANGES[kind]
            ways = (
                choose.choice(_EDGES),
                choose.choice(self._ids),
                value + choose.choice((-1, 1)),
                value ^ 1 << choose.randrange(63),
            )
            found = choose.choice(ways) if kind != FieldDescriptor.CPPTYPE_ENUM else choose.choice((0, 1, 2, 3, 7, 17, 99, 250))
            return min(max(int(found), low), high)
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return not value
        if kind == FieldDescriptor.CPPTYPE_STRING:
            if field.type == FieldDescriptor.TYPE_BYTES:
                return self._inner(holder, field, bytes(value or b""))
            return choose.choice((*_WORDS, (value or "") * 2, (value or "")[1:]))
        return choose.choice((0.0, -1.0, float("inf"), float("nan"), 1e300))

    def _inner(self, holder: Message, field: FieldDescriptor, value: bytes) -> bytes:
        """Bytes that are a message themselves are changed as one, mostly."""
        kind = _INNER.get(getattr(holder, "type_name", "") if field.name == "data" else field.name)
        if kind is None or self._choose.random() < 0.2:
            return self._bytes(value)
        try:
            message = kind.FromString(value)
        except DecodeError:
            return self._bytes(value)
        self.mutate(message)
        changed: bytes = message.SerializeToString()
        return changed

    def _bytes(self, value: bytes) -> bytes:
        choose = self._choose
        at = choose.randrange(len(value) + 1)
        match choose.randrange(6):
            case 0:
                return value[:at]
            case 1:
                return value + value[at:]
            case 2:
                return value[:at] + choose.randbytes(choose.choice((1, 2, 8))) + value[at:]
            case 3:
                return b""
            case _:
                changed = bytearray(value)
                for _ in range(min(len(changed), choose.choice((1, 1, 4)))):
                    changed[choose.randrange(len(changed))] ^= 1 << choose.randrange(8)
                return bytes(changed)


def _copy(value: Any) -> Any:
    if not isinstance(value, Message):
        return value
    made = type(value)()
    made.CopyFrom(value)
    return made


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)
