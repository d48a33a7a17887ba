"""Commands and events pass through the daemon as bytes: only the outermost framing is read and written here.

A command's kind is its field number in the one-of, which is the first thing in its bytes; the daemon parses a command or event
only if it handles it itself. Both are the protobuf encoding, so either end may be any protobuf library.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pathways_common.model.failure import PathwaysError, Reason, fail
from pathways_proto.v1 import workers_pb2

_FIXED64 = struct.Struct("<Q")
_WORKER_NUMBERS = struct.Struct("<BQBQBQBQBQBQ")
_VARINT, _LONG, _DELIMITED, _SHORT = 0, 1, 2, 5


def _numbers(message: str) -> dict[str, int]:
    return {field.name: field.number for field in workers_pb2.DESCRIPTOR.message_types_by_name[message].fields}


COMMAND = _numbers("HostCommand")
EVENT = _numbers("HostEvent")
_CONTROLLER_FRAME = _numbers("ControllerFrame")
_WORKER_FRAME = _numbers("WorkerFrame")
_EXECUTOR_COMMANDS = _numbers("ExecutorCommands")
_EXECUTOR_REPORT = _numbers("ExecutorReport")


class Item(NamedTuple):
    """One HostCommand or HostEvent: its kind (a number of COMMAND or EVENT) and its bytes."""

    kind: int
    data: bytes


@dataclass(slots=True)
class ControllerFrame:
    """A frame from the controller; `handshake` is the number of the welcome or refused field if it has one."""

    sequence: int = 0
    received: int = 0
    term: int = 0
    urgent: bool = False
    commands: list[Item] | None = None
    handshake: int = 0


@dataclass(slots=True)
class Report:
    """A report from the executor."""

    acknowledged_frame: int = 0
    finished_through: int = 0
    launched_through: int = 0
    busy_ns: int = 0
    events: list[Item] | None = None
    # Serialized GangTimes.
    times: list[bytes] | None = None


def read_controller_frame(data: bytes) -> ControllerFrame:
    """Raises PathwaysError (INVALID_ARGUMENT) if the bytes are no frame."""
    frame = ControllerFrame()
    commands: list[Item] = []
    position = 0
    while position < len(data):
        number, wire_type, start, position = _field(data, position)
        if number == _CONTROLLER_FRAME["commands"]:
            commands.append(_item(data[start:position]))
        elif wire_type == _LONG:
            value = _FIXED64.unpack_from(data, start)[0]
            if number == _CONTROLLER_FRAME["sequence"]:
                frame.sequence = value
            elif number == _CONTROLLER_FRAME["received"]:
                frame.received = value
            elif number == _CONTROLLER_FRAME["term"]:
                frame.term = value
        elif number == _CONTROLLER_FRAME["urgent"]:
            frame.urgent = data[start] != 0
        elif number in (_CONTROLLER_FRAME["welcome"], _CONTROLLER_FRAME["refused"]):
            frame.handshake = number
    frame.commands = commands
    return frame


def read_report(data: bytes) -> Report:
    """Raises PathwaysError (INVALID_ARGUMENT) if the bytes are no report."""
    report = Report()
    events: list[Item] = []
    times: list[bytes] = []
    position = 0
    while position < len(data):
        number, wire_type, start, position = _field(data, position)
        if number == _EXECUTOR_REPORT["events"]:
            events.append(_item(data[start:position]))
        elif number == _EXECUTOR_REPORT["times"]:
            times.append(data[start:position])
        elif wire_type == _LONG:
            value = _FIXED64.unpack_from(data, start)[0]
            if number == _EXECUTOR_REPORT["acknowledged_frame"]:
                report.acknowledged_frame = value
            elif number == _EXECUTOR_REPORT["finished_through"]:
                report.finished_through = value
            elif number == _EXECUTOR_REPORT["launched_through"]:
                report.launched_through = value
            elif number == _EXECUTOR_REPORT["busy_ns"]:
                report.busy_ns = value
    report.events, report.times = events, times
    return report


def executor_commands(frame: int, commands: Iterable[Item]) -> bytes:
    """An ExecutorCommands message."""
    key = _varint(_EXECUTOR_COMMANDS["commands"] << 3 | _DELIMITED)
    parts = [b"\x09", _FIXED64.pack(frame)]
    for command in commands:
        parts += (key, _varint(len(command.data)), command.data)
    return b"".join(parts)


def worker_frame(
    sequence: int,
    acknowledged: int,
    incarnation: int,
    finished_through: int,
    launched_through: int,
    busy_ns: int,
    events: Iterable[bytes] = (),
    times: Iterable[bytes] = (),
) -> bytes:
    """A WorkerFrame; `events` are serialized HostEvents, `times` serialized GangTimes."""
    parts = [
        _WORKER_NUMBERS.pack(
            0x09, sequence, 0x11, acknowledged, 0x19, incarnation, 0x21, finished_through, 0x39, launched_through, 0x41, busy_ns
        )
    ]
    for name, entries in (("times", times), ("events", events)):
        key = _varint(_WORKER_FRAME[name] << 3 | _DELIMITED)
        for entry in entries:
            parts += (key, _varint(len(entry)), entry)
    return b"".join(parts)


def bad(what: str) -> PathwaysError:
    """A message that cannot be: whoever sent it is broken."""
    return fail(Reason.INVALID_ARGUMENT, f"malformed message: {what}")


def _item(data: bytes) -> Item:
    if not data:
        raise bad("a command or event is empty")
    first = data[0]
    if first < 0x80:
        return Item(first >> 3, data)
    return Item(_read_varint(data, 0)[0] >> 3, data)


def _field(data: bytes, position: int) -> tuple[int, int, int, int]:
    """Number, wire type, start and end of the value of the field at `position`."""
    key, start = _read_varint(data, position)
    wire_type = key & 7
    if wire_type == _DELIMITED:
        length, start = _read_varint(data, start)
        end = start + length
    elif wire_type == _VARINT:
        _, end = _read_varint(data, start)
    elif wire_type == _LONG:
        end = start + 8
    elif wire_type == _SHORT:
        end = start + 4
    else:
        raise bad(f"wire type {wire_type}")
    if end > len(data):
        raise bad("it ends in the middle of a field")
    return key >> 3, wire_type, start, end


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise bad("a number has no end")
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
