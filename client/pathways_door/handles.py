"""What the client's handles stand for.

An array record is a form (type, shape, placement) over shard ranges of upstream values. A value is one id of the session
stream (a buffer, or a view that was sent). It is counted by the records that use it and released when the last one goes.
Records of parts, assemblies and remaps are bookkeeping here; a view is sent only when such a record is used as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from pathways_common.model.array import ITEM_BYTES
from pathways_common.model.bounds import ARRAY_BYTES_MAX, DIMENSIONS_MAX, SHARDING_BYTES_MAX
from pathways_common.model.colocated import BYTE, STRING, STRING_SHARD_BYTES
from pathways_common.model.failure import Failure, Reason, fail
from pathways_common.model.sharding import shard_shape
from pathways_proto.v1 import sessions_pb2, types_pb2

from pathways_door.sharding import Placement
from pathways_door.upstream import Upstream

# Handles from here on are made by the door; the client's stay below.
FIRST_SERVER_HANDLE = 1 << 48

DELETED = Failure(Reason.DELETED, "the array was deleted or donated; keep a copy of what is needed later")


@dataclass(frozen=True, slots=True)
class Form:
    """Type, global shape, shard shape and placement of an array; shared between records."""

    dtype: int
    shape: tuple[int, ...]
    shard_shape: tuple[int, ...]
    placement: Placement

    @property
    def item_bytes(self) -> int:
        """Bytes of one element; raises PathwaysError for types without a fixed size."""
        size = ITEM_BYTES.get(self.dtype)
        if size is None:
            raise fail(
                Reason.UNSUPPORTED, f"arrays of element type {self.dtype} (strings, opaque) are not supported", dtype=self.dtype
            )
        return size

    @property
    def is_string(self) -> bool:
        """Whether it is of strings: then a shard is a block, and has no elements of a fixed size."""
        return self.dtype == STRING

    @property
    def shard_bytes(self) -> int:
        """Bytes of one shard, row-major."""
        if self.is_string:
            return STRING_SHARD_BYTES
        return prod(self.shard_shape) * self.item_bytes

    def to_spec(self) -> types_pb2.ArraySpec:
        """The form as the session stream carries it."""
        placement = self.placement
        if self.is_string:
            block = (STRING_SHARD_BYTES,)
            kind, devices = placement.memory_kind, placement.devices
            return types_pb2.ArraySpec(dtype=BYTE, shape=block, shard_shape=block, devices=devices, memory_kind=kind)
        return types_pb2.ArraySpec(
            dtype=self.dtype,
            shape=self.shape,
            sharding=placement.sharding,
            shard_shape=self.shard_shape,
            devices=placement.devices,
            memory_kind=placement.memory_kind,
        )


def form_of(dtype: int, shape: tuple[int, ...], placement: Placement) -> Form:
    """A form with the shard shape that follows from the sharding; raises PathwaysError for one that no array can have."""
    if len(shape) > DIMENSIONS_MAX or min(shape, default=0) < 0:
        shown = list(shape) if len(shape) <= DIMENSIONS_MAX else f"of {len(shape)} dimensions"
        raise fail(
            Reason.INVALID_ARGUMENT, f"there is no array of shape {shown}: give sizes of at least 0, {DIMENSIONS_MAX} at most"
        )
    if len(placement.sharding) > SHARDING_BYTES_MAX:
        raise fail(Reason.INVALID_ARGUMENT, f"an array has a sharding of {len(placement.sharding)} bytes; say it in fewer")
    form = Form(dtype, shape, shard_shape(placement.sharding, shape), placement)
    largest = max(prod(filter(None, shape)), prod(filter(None, form.shard_shape))) * ITEM_BYTES.get(dtype, 1)
    if largest > ARRAY_BYTES_MAX:
        raise fail(
            Reason.RESOURCE_EXHAUSTED, f"an array of shape {list(shape)} takes {largest} bytes, more than any memory holds"
        )
    return form


class Value:
    """One id upstream. `deleted` is set when the door sends its deletion or donation, `is_mixed` of a view on several values.

    `origins`: of a view, the values whose shards are all in it; whoever ends the view ends them, too. `is_part`: of a view, it
    has shards of an array that lives on beyond it, which nobody ends by ending the view.
    """

    __slots__ = ("deleted", "is_mixed", "is_part", "origins", "references", "shard_count", "size_bytes", "value_id")

    def __init__(self, value_id: int, shard_count: int, size_bytes: int) -> None:
        self.value_id = value_id
        self.shard_count = shard_count
        self.size_bytes = size_bytes
        self.references = 0
        self.deleted = False
        self.is_mixed = False
        self.is_part = False
        self.origins: tuple[Value, ...] = ()

    def end(self) -> list[Value]:
        """It was deleted or donated; gives the values that end with it, because they share its shards."""
        self.deleted = True
        return [ended for origin in self.origins if not origin.deleted for ended in (origin, *origin.end())]


Range = tuple[Value, int, int]  # value, first shard, shard count


class ArrayRecord:
    """What one handle stands for. With a failure, every use gives that failure and there are no ranges."""

    __slots__ = ("deleted", "failure", "form", "ranges")

    def __init__(self, form: Form, ranges: tuple[Range, ...], failure: Failure | None = None) -> None:
        self.form = form
        self.ranges = ranges
        self.failure = failure
        self.deleted = False

    def problem(self) -> Failure | None:
        """Why the array cannot be used, as far as the door knows; None if it can."""
        if self.failure is not None:
            return self.failure
        if self.deleted:
            return DELETED
        for value, _, _ in self.ranges:
            if value.deleted:
                return DELETED
        return None

    @property
    def whole(self) -> Value | None:
        """The value that this record covers exactly, if there is one."""
        if len(self.ranges) == 1:
            value, start, count = self.ranges[0]
            if start == 0 and count == value.shard_count:
                return value
        return None

    def values(self) -> list[Value]:
        """Every value used, once each, in order."""
        return list({value.value_id: value for value, _, _ in self.ranges}.values())


NO_FORM = Form(0, (), (), Placement((), b"", ""))


def merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """The same shards in fewer ranges: neighbours of one value become one."""
    out: list[Range] = []
    for value, start, count in ranges:
        if out and out[-1][0] is value and out[-1][1] + out[-1][2] == start:
            out[-1] = (value, out[-1][1], out[-1][2] + count)
        else:
            out.append((value, start, count))
    return tuple(out)


def shards_of(record: ArrayRecord) -> list[Range]:
    """The record's shards one by one."""
    return [(value, start + i, 1) for value, start, count in record.ranges for i in range(count)]


class ArrayTable:
    """The arrays of one IFRT session by handle, and the counts of the values behind them."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._records: dict[int, ArrayRecord] = {}
        self._next_handle = FIRST_SERVER_HANDLE

    def __len__(self) -> int:
        return len(self._records)

    def new_handle(self) -> int:
        """A handle of the door's own; executables and futures share the counter."""
        self._next_handle += 1
        return self._next_handle

    def find(self, handle: int) -> ArrayRecord | None:
        """The record of a handle, if there is one."""
        return self._records.get(handle)

    def get(self, handle: int) -> ArrayRecord:
        """The record of a handle; an unknown one has a failure."""
        record = self._records.get(handle)
        return record if record is not None else ArrayRecord(NO_FORM, (), _unknown(handle))

    def add(self, handle: int, form: Form, ranges: tuple[Range, ...]) -> ArrayRecord:
        """Registers an array over these ranges and counts them."""
        for value, _, _ in ranges:
            value.references += 1
        record = ArrayRecord(form, ranges)
        self._replace(handle, record)
        return record

    def poison(self, handle: int, failure: Failure, form: Form = NO_FORM) -> None:
        """Registers an array that will never hold a value."""
        self._replace(handle, ArrayRecord(form, (), failure))

    def _replace(self, handle: int, record: ArrayRecord) -> None:
        if handle in self._records:
            self.destruct(handle)
        self._records[handle] = record

    def destruct(self, handle: int) -> None:
        """Forgets a handle and releases what nobody else uses; nothing happens if there is none."""
        record = self._records.pop(handle, None)
        if record is not None:
            self._let_go(record.ranges)

    def _let_go(self, ranges: tuple[Range, ...]) -> None:
        for value, _, _ in ranges:
            value.references -= 1
            if value.references == 0:
                self._upstream.release(value.value_id, value.size_bytes)

    def hold(self, record: ArrayRecord) -> Value:
        """The value that stands for exactly this record's shards (see `view_of`), kept until `let_go`."""
        self.view_of(record)
        value = record.ranges[0][0]
        value.references += 1
        return value

    def let_go(self, values: Iterable[Value]) -> None:
        """Ends what `hold` began; what nobody else uses is released."""
        for value in values:
            value.references -= 1
            if value.references == 0:
                self._upstream.release(value.value_id, value.size_bytes)

    def donated(self, values: Iterable[Value]) -> None:
        """These were donated to something that was sent. It consumes no array that is seen through a view, such as one that was
        spread over devices to be donated: its sources are deleted behind it."""
        self._delete(origin for value in values for origin in value.end())

    def delete(self, record: ArrayRecord) -> None:
        """Ends an array. A part of another cannot be ended alone: its memory goes with the last handle on the whole."""
        if record.deleted:
            return  # donated before: what it was made into has its bytes
        record.deleted = True
        ended: list[Value] = []
        for value, _, count in record.ranges:
            if count == value.shard_count and not value.deleted:
                origins = value.end()
                ended += origins if value.is_part else [value]
        self._delete(ended)

    def _delete(self, ended: Iterable[Value]) -> None:
        # The deletion of a view ends all buffers behind it.
        views = [value.value_id for value in ended if value.references and not value.is_part]
        if views:
            self._upstream.push(sessions_pb2.ClientOperation(delete=sessions_pb2.Delete(views=views)))

    def view_of(self, record: ArrayRecord) -> int:
        """The upstream id that stands for exactly this record's shards; sends a MakeView once if there is none yet."""
        whole = record.whole
        if whole is not None:
            return whole.value_id
        count = sum(length for _, _, length in record.ranges)
        view = Value(self._upstream.new_ids(), count, 0)
        view.origins = tuple(value for value in record.values() if _covered(value, record.ranges))
        view.is_part = any(value.is_part or value not in view.origins for value in record.values())
        ranges = [
            sessions_pb2.ShardRange(view_id=value.value_id, start=start, count=length) for value, start, length in record.ranges
        ]
        self._upstream.push(sessions_pb2.ClientOperation(make_view=sessions_pb2.MakeView(view_id=view.value_id, ranges=ranges)))
        before = record.ranges
        view.is_mixed = len(before) > 1
        view.references = 1
        record.ranges = ((view, 0, count),)
        self._let_go(before)
        return view.value_id

    def first_of_copies(self, handle: int, form: Form, shards: list[Range]) -> None:
        """Registers the first of shards that hold the same on several islands: a view that reads of another while it is lost."""
        view = Value(self._upstream.new_ids(), 1, 0)
        view.is_part = True
        first, *copies = [sessions_pb2.ShardRange(view_id=value.value_id, start=start, count=1) for value, start, _ in shards]
        message = sessions_pb2.MakeView(view_id=view.value_id, ranges=[first], copies=copies)
        self._upstream.push(sessions_pb2.ClientOperation(make_view=message))
        self.add(handle, form, ((view, 0, 1),))


def _covered(value: Value, ranges: tuple[Range, ...]) -> bool:
    """Whether all shards of a value are among these ranges, in whatever order."""
    shards = {start + index for other, start, count in ranges if other is value for index in range(count)}
    return len(shards) == value.shard_count


def _unknown(handle: int) -> Failure:
    return Failure(Reason.INVALID_ARGUMENT, f"array handle {handle} is unknown to the door; it was destructed or never made")
