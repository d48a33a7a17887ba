"""Our IFRT messages against the descriptors inside the installed jaxlib: numbers, types, labels, packing and enum values."""

from __future__ import annotations

import re
from pathlib import Path

import jaxlib
import pytest
from google.protobuf import descriptor_pb2
from pathways_proto.ifrt import (
    arrays_pb2,
    colocated_pb2,
    compile_options_pb2,
    error_codes_pb2,
    grpc_service_pb2,
    programs_pb2,
    session_pb2,
    status_pb2,
    strides_pb2,
    strings_pb2,
    values_pb2,
    xla_data_pb2,
)

OURS = (
    arrays_pb2, colocated_pb2, compile_options_pb2, error_codes_pb2, grpc_service_pb2, programs_pb2,
    session_pb2, status_pb2, strides_pb2, strings_pb2, values_pb2, xla_data_pb2,
)  # fmt: skip
_FIELD = descriptor_pb2.FieldDescriptorProto
_LAST_FIELD = 14  # of FileDescriptorProto


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
        if shift > 35:
            raise ValueError("not a varint")


def _file_at(data: bytes, start: int) -> descriptor_pb2.FileDescriptorProto | None:
    """The longest run of fields of a FileDescriptorProto that begins here and parses."""
    at = start
    try:
        while True:
            tag, after = _varint(data, at)
            number, wire = tag >> 3, tag & 7
            if not 1 <= number <= _LAST_FIELD or (number == 1 and at != start) or wire not in (0, 2):
                break
            length, after = _varint(data, after)
            at = after + length if wire == 2 else after
    except (ValueError, IndexError):
        return None
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(data[start:at])
    except Exception:
        return None


def _shipped() -> tuple[dict[str, descriptor_pb2.DescriptorProto], dict[str, descriptor_pb2.EnumDescriptorProto]]:
    """Messages and enums of every descriptor in the library, by full name."""
    data = (Path(jaxlib.__path__[0]) / "libjax_common.so").read_bytes()
    messages: dict[str, descriptor_pb2.DescriptorProto] = {}
    enums: dict[str, descriptor_pb2.EnumDescriptorProto] = {}

    def walk(message: descriptor_pb2.DescriptorProto, prefix: str) -> None:
        name = f"{prefix}.{message.name}"
        messages[name] = message
        for enum in message.enum_type:
            enums[f"{name}.{enum.name}"] = enum
        for nested in message.nested_type:
            walk(nested, name)

    for match in re.finditer(rb"\x0a([\x05-\x7f])((?:xla|tensorflow)/[\w\-/.]+\.proto)", data):
        if match[1][0] != len(match[2]):
            continue
        found = _file_at(data, match.start())
        if found is not None:
            for message in found.message_type:
                walk(message, found.package)
            for enum in found.enum_type:
                enums[f"{found.package}.{enum.name}"] = enum
    return messages, enums


@pytest.fixture(scope="module")
def shipped() -> tuple[dict[str, descriptor_pb2.DescriptorProto], dict[str, descriptor_pb2.EnumDescriptorProto]]:
    return _shipped()


def _our_messages() -> dict[str, descriptor_pb2.DescriptorProto]:
    out: dict[str, descriptor_pb2.DescriptorProto] = {}

    def walk(message: descriptor_pb2.DescriptorProto, prefix: str) -> None:
        name = f"{prefix}.{message.name}"
        out[name] = message
        for nested in message.nested_type:
            walk(nested, name)

    for module in OURS:
        file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        for message in file.message_type:
            walk(message, file.package)
    return out


def _our_enums() -> dict[str, descriptor_pb2.EnumDescriptorProto]:
    out: dict[str, descriptor_pb2.EnumDescriptorProto] = {}
    for module in OURS:
        file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        for enum in file.enum_type:
            out[f"{file.package}.{enum.name}"] = enum
        for message in file.message_type:
            for enum in message.enum_type:
                out[f"{file.package}.{message.name}.{enum.name}"] = enum
    return out


def _facts(message: descriptor_pb2.DescriptorProto, field: descriptor_pb2.FieldDescriptorProto) -> tuple[object, ...]:
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") and not field.proto3_optional else ""
    packed = field.options.packed if field.options.HasField("packed") else None
    return field.name, field.type, field.label, field.type_name, field.proto3_optional, oneof, packed


@pytest.mark.parametrize("name", sorted(_our_messages()))
def test_every_field_of_ours_is_a_field_of_the_installed_jaxlib(
    shipped: tuple[dict[str, descriptor_pb2.DescriptorProto], dict[str, descriptor_pb2.EnumDescriptorProto]], name: str
) -> None:
    ours = _our_messages()[name]
    theirs = shipped[0][name]
    numbers = {field.number: field for field in theirs.field}
    for field in ours.field:
        assert field.number in numbers, f"{name}.{field.name} = {field.number} is not in jaxlib"
        assert _facts(ours, field) == _facts(theirs, numbers[field.number])


@pytest.mark.parametrize("name", sorted(_our_enums()))
def test_every_enum_value_of_ours_is_one_of_the_installed_jaxlib(
    shipped: tuple[dict[str, descriptor_pb2.DescriptorProto], dict[str, descriptor_pb2.EnumDescriptorProto]], name: str
) -> None:
    theirs = {value.name: value.number for value in shipped[1][name].value}
    for value in _our_enums()[name].value:
        assert theirs[value.name] == value.number


def test_all_element_types_of_the_installed_jaxlib_are_known(
    shipped: tuple[dict[str, descriptor_pb2.DescriptorProto], dict[str, descriptor_pb2.EnumDescriptorProto]],
) -> None:
    theirs = {value.number for value in shipped[1]["xla.ifrt.DTypeProto.Kind"].value}
    assert theirs == set(values_pb2.DTypeProto.Kind.values())
