"""What the text of a plugin program says: a fence, the feed of a run, a cancellation, a whole traced program, or a name for one;
or, in JSON, a request of pathwaysutils.

Checked here is what the door itself relies on: numbers, devices, and that every argument of a program comes in exactly one
group. What a program computes is checked by the controller.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from google.protobuf.message import DecodeError
from pathways_common.model.bounds import PROGRAM_BYTES_MAX
from pathways_common.model.failure import Reason, fail
from pathways_proto.ifrt import values_pb2
from pathways_proto.v1 import door_pb2, programs_pb2, types_pb2

from pathways_door.sharding import checked_devices
from pathways_door.utility_texts import UtilityText, read_utility_text

_Message = TypeVar("_Message", door_pb2.PluginProgram, door_pb2.PluginFusion, door_pb2.PluginPut)

PLUGIN_TYPE = "xla::ifrt::PluginProgram"
_PREFIX = b"__serialized_plugin_program "
_PROGRAM = b"pathways-program "
_FUSE = re.compile(rb"pathways-fuse ([1-9][0-9]{0,18}) ([A-Za-z0-9+/=]+)")
_REGISTER = re.compile(rb"pathways-register ([1-9][0-9]{0,18}) ([01]) ([A-Za-z0-9](?:[A-Za-z0-9._/-]{0,198}[A-Za-z0-9])?)")
_FETCH = re.compile(rb"pathways-fetch ([1-9][0-9]{0,18}) ([1-9][0-9]{0,18})")
_PUT = re.compile(rb"pathways-put ([1-9][0-9]{0,18}) ([A-Za-z0-9+/=]+)")
_NUMBERED = re.compile(rb"pathways-(fence|feed|cancel) ([1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class FenceText:
    """Marks a place in the client's stream, see fences.py."""

    number: int


@dataclass(frozen=True, slots=True)
class FeedText:
    """Takes the arguments of a run that have this many shards."""

    shard_count: int


@dataclass(frozen=True, slots=True)
class CancelText:
    """Ends what makes its arguments, which have this many shards."""

    shard_count: int


@dataclass(frozen=True, slots=True)
class FetchText:
    """Names its arguments, which have this many shards, as arrays of the client's bulk call of this number."""

    number: int
    shard_count: int


@dataclass(frozen=True, slots=True)
class PutText:
    """Makes arrays of what the client's bulk call of this number brings."""

    number: int
    specs: tuple[types_pb2.ArraySpec, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The arguments, by position in the program, that have this many shards."""

    shard_count: int
    arguments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ProgramText:
    """A whole program. Each of its arguments is in exactly one group; `devices` are those of the first group's first argument."""

    program: programs_pb2.Program
    groups: tuple[Group, ...]
    donated: tuple[int, ...]
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RegisterText:
    """Keeps a program of the session, by its number, under a name. Compiling the text is all: it is never executed."""

    program_id: int
    name: str
    replace: bool


@dataclass(frozen=True, slots=True)
class FuseText:
    """Adds fused groups to a program of the session, by its number. Compiling the text is all, as for a name."""

    program_id: int
    groups: tuple[programs_pb2.FusedGroup, ...]


PluginText: TypeAlias = (
    FenceText | FeedText | CancelText | FetchText | PutText | ProgramText | RegisterText | FuseText | UtilityText
)


def read_text(program: values_pb2.Serialized, device_count: int) -> PluginText:
    """Reads a plugin program for a session of so many devices; raises PathwaysError with one sentence if it makes no sense."""
    text = program.data.removeprefix(_PREFIX)
    if text.startswith(_PROGRAM):
        return _read_program(text, device_count)
    if text.startswith(b"{"):
        return read_utility_text(text, device_count)
    fused = _FUSE.fullmatch(text)
    if fused is not None:
        return FuseText(int(fused[1]), tuple(_read_base64(door_pb2.PluginFusion, fused[2]).groups))
    named = _REGISTER.fullmatch(text)
    if named is not None:
        return RegisterText(int(named[1]), named[3].decode(), named[2] == b"1")
    fetch = _FETCH.fullmatch(text)
    if fetch is not None:
        return FetchText(int(fetch[1]), _shard_count("fetch", int(fetch[2]), device_count))
    put = _PUT.fullmatch(text)
    if put is not None:
        return _read_put(int(put[1]), put[2], device_count)
    found = _NUMBERED.fullmatch(text)
    if found is None:
        raise fail(
            Reason.UNSUPPORTED,
            "this plugin program is not supported: the Pathways door knows only `pathways-fence N`, `pathways-feed N`, "
            "`pathways-cancel N`, `pathways-fetch N N`, `pathways-put N ...`, `pathways-program ...`, `pathways-fuse ...`, "
            "`pathways-register ...` and what pathwaysutils asks for; use jax.jit, jax.pmap or pw.program",
        )
    number = int(found[2])
    if found[1] == b"fence":
        return FenceText(number)
    _shard_count(found[1].decode(), number, device_count)
    return FeedText(number) if found[1] == b"feed" else CancelText(number)


def _shard_count(what: str, number: int, device_count: int) -> int:
    if number > device_count:
        sentence = f"a {what} of {number} shards does not fit the {device_count} devices of this session"
        raise fail(Reason.INVALID_ARGUMENT, sentence)
    return number


def _read_put(number: int, text: bytes, device_count: int) -> PutText:
    specs = tuple(_read_base64(door_pb2.PluginPut, text).specs)
    if not specs:
        raise fail(Reason.INVALID_ARGUMENT, "a put names no arrays")
    for spec in specs:
        checked_devices(tuple(spec.devices), device_count)
    return PutText(number, specs)


def _read_program(text: bytes, device_count: int) -> ProgramText:
    message = _read_base64(door_pb2.PluginProgram, text[len(_PROGRAM) :])
    if not message.program.graphs or not message.program.graphs[0].nodes:
        raise _refused("it has no graph")
    specs = message.program.graphs[0].nodes[0].argument.specs
    groups = tuple(Group(group.shard_count, tuple(group.arguments)) for group in message.groups) or (Group(1, ()),)
    if sorted(position for group in groups for position in group.arguments) != list(range(len(specs))):
        raise _refused(f"its groups must name each of its {len(specs)} arguments once")
    if len({group.shard_count for group in groups}) != len(groups):
        raise _refused("two of its groups have the same shard count")
    for group in groups:
        if not 1 <= group.shard_count <= device_count:
            raise _refused(f"a group of {group.shard_count} shards does not fit the {device_count} devices of this session")
        for position in group.arguments:
            if len(specs[position].devices) != group.shard_count:
                raise _refused(f"argument {position} has {len(specs[position].devices)} shards, its group {group.shard_count}")
    if any(position >= len(specs) for position in message.donated):
        raise _refused(f"it donates an argument that is none of its {len(specs)}")
    first = groups[0]
    devices = tuple(specs[first.arguments[0]].devices) if first.arguments else tuple(range(first.shard_count))
    if len(set(devices)) != len(devices):
        raise _refused(f"its first argument lies twice on one device: {list(devices)}")
    checked_devices(devices, device_count)
    return ProgramText(message.program, groups, tuple(sorted(set(message.donated))), devices)


def _read_base64(kind: type[_Message], text: bytes) -> _Message:
    if len(text) > PROGRAM_BYTES_MAX:
        sentence = f"the program has {len(text)} bytes, the limit is {PROGRAM_BYTES_MAX}; split it"
        raise fail(Reason.RESOURCE_EXHAUSTED, sentence)
    try:
        return kind.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, DecodeError) as error:
        sentence = f"the text of a plugin program is not a {kind.__name__} of door.proto in base64: {error}"
        raise fail(Reason.INVALID_ARGUMENT, sentence) from None


def _refused(why: str) -> Exception:
    return fail(Reason.INVALID_ARGUMENT, f"the program cannot be defined: {why}")
