"""Writes docs/api.md from the comments of the public .proto files and the opening beside this file.

Rule: the document is committed and never edited; `--check` fails when it is not what the sources give. Whatever a public message
names is in it, also if it is declared in a source that is not public.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from google.protobuf import descriptor_pb2
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent
OPENING = ROOT / "api_opening.md"
OUTPUT = ROOT.parent / "docs" / "api.md"
PUBLIC = ("sessions", "programs", "types", "data", "cluster", "diagnosis", "tenants", "movements")
_PACKAGE = ".pathways.v1."
# Numbers of the fields of descriptor.proto of which the paths of comments are made.
_MESSAGES, _ENUMS, _SERVICES, _FIELDS, _VALUES, _METHODS, _SYNTAX = 4, 5, 6, 2, 2, 2, 12

Comments = dict[tuple[int, ...], str]
Field = descriptor_pb2.FieldDescriptorProto


def read() -> dict[str, descriptor_pb2.FileDescriptorProto]:
    """All sources with their comments, by name; raises RuntimeError when protoc refuses one."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "set")
        names = [f"pathways/v1/{name}.proto" for name in PUBLIC]
        arguments = ["protoc", f"-I{ROOT}", "--include_imports", "--include_source_info", f"--descriptor_set_out={out}", *names]
        if protoc.main(arguments):
            raise RuntimeError("protoc failed; its message is above")
        files = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    return {Path(file.name).stem: file for file in files}


def _comments(file: descriptor_pb2.FileDescriptorProto) -> Comments:
    return {
        tuple(place.path): " ".join(place.leading_comments.split())
        for place in file.source_code_info.location
        if place.leading_comments
    }


def _about(file: descriptor_pb2.FileDescriptorProto) -> str:
    """The comment at the head of a source, which stands on its package or apart in front of it."""
    for place in file.source_code_info.location:
        if tuple(place.path) in ((2,), (_SYNTAX,)):
            texts = [*place.leading_detached_comments, place.leading_comments]
            text = " ".join(" ".join(texts).split())
            if text:
                return text
    return ""


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _type(field: Field, entries: dict[str, descriptor_pb2.DescriptorProto]) -> str:
    entry = entries.get(field.type_name)
    if entry is not None:
        key, value = entry.field
        return f"map of {_type(key, entries)} to {_type(value, entries)}"
    if field.type_name.startswith(_PACKAGE):
        name = _link(field.type_name.removeprefix(_PACKAGE))
    else:
        name = Field.Type.Name(field.type).removeprefix("TYPE_").lower()
    return f"{name}, any number" if field.label == Field.LABEL_REPEATED else name


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _service(service: descriptor_pb2.ServiceDescriptorProto, path: tuple[int, ...], comments: Comments) -> Iterator[str]:
    yield f"### service {service.name}\n"
    if path in comments:
        yield comments[path] + "\n"
    for index, method in enumerate(service.method):
        took, gave = (_link(name.removeprefix(_PACKAGE)) for name in (method.input_type, method.output_type))
        took = f"stream of {took}" if method.client_streaming else took
        gave = f"stream of {gave}" if method.server_streaming else gave
        yield f"**{method.name}** ({took}) → {gave}\n"
        yield comments.get((*path, _METHODS, index), "") + "\n"


def _message(message: descriptor_pb2.DescriptorProto, path: tuple[int, ...], comments: Comments) -> Iterator[str]:
    yield f"### {message.name}\n"
    if path in comments:
        yield comments[path] + "\n"
    if not message.field:
        yield "No fields.\n"
        return
    entries = {f"{_PACKAGE}{message.name}.{entry.name}": entry for entry in message.nested_type if entry.options.map_entry}
    rows = ["| field | number | type | |", "| --- | --- | --- | --- |"]
    told: set[int] = set()
    for index, field in enumerate(message.field):
        text = comments.get((*path, _FIELDS, index), "")
        if field.HasField("oneof_index") and not field.proto3_optional and field.oneof_index not in told:
            told.add(field.oneof_index)
            text = f"One of those marked *{message.oneof_decl[field.oneof_index].name}*. {text}".strip()
        kind = _type(field, entries)
        if field.HasField("oneof_index") and not field.proto3_optional:
            kind += f" (*{message.oneof_decl[field.oneof_index].name}*)"
        rows.append(f"| `{field.name}` | {field.number} | {kind} | {_cell(text)} |")
    yield "\n".join(rows) + "\n"


def _enum(enum: descriptor_pb2.EnumDescriptorProto, path: tuple[int, ...], comments: Comments) -> Iterator[str]:
    yield f"### {enum.name}\n"
    if path in comments:
        yield comments[path] + "\n"
    rows = ["| value | number | |", "| --- | --- | --- |"]
    for index, value in enumerate(enum.value):
        rows.append(f"| `{value.name}` | {value.number} | {_cell(comments.get((*path, _VALUES, index), ''))} |")
    yield "\n".join(rows) + "\n"


def _file(file: descriptor_pb2.FileDescriptorProto, wanted: set[str] | None = None) -> Iterator[str]:
    """Everything of one source, or the messages and enums that are wanted."""
    comments = _comments(file)
    if wanted is None:
        for index, service in enumerate(file.service):
            yield from _service(service, (_SERVICES, index), comments)
    for index, message in enumerate(file.message_type):
        if wanted is None or message.name in wanted:
            yield from _message(message, (_MESSAGES, index), comments)
    for index, enum in enumerate(file.enum_type):
        if wanted is None or enum.name in wanted:
            yield from _enum(enum, (_ENUMS, index), comments)


def _named(message: descriptor_pb2.DescriptorProto) -> set[str]:
    names = {field.type_name.removeprefix(_PACKAGE) for field in message.field if field.type_name.startswith(_PACKAGE)}
    return names.union(*(_named(inner) for inner in message.nested_type))


def _borrowed(files: dict[str, descriptor_pb2.FileDescriptorProto]) -> set[str]:
    """What public messages name and no public source declares, and what those name in turn."""
    messages = {message.name: message for file in files.values() for message in file.message_type}
    public = {each.name for name in PUBLIC for each in (*files[name].message_type, *files[name].enum_type)}
    todo, found = sorted(public), set(public)
    while todo:
        message = messages.get(todo.pop())
        new = sorted(_named(message) - found) if message is not None else []
        new = [name for name in new if "." not in name]
        found.update(new)
        todo.extend(new)
    return found - public


def document() -> str:
    """The whole text."""
    files = read()
    parts = [OPENING.read_text()]
    for name in PUBLIC:
        parts.append(f"## {name}.proto\n\n{_about(files[name])}\n")
        parts.extend(_file(files[name]))
    borrowed = _borrowed(files)
    if borrowed:
        parts.append("## Also named above\n")
        for name in sorted(set(files) - set(PUBLIC)):
            parts.extend(_file(files[name], borrowed))
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with what is committed and write nothing")
    options = parser.parse_args()
    text = document()
    if not options.check:
        OUTPUT.write_text(text)
        return 0
    stale = not OUTPUT.exists() or OUTPUT.read_text() != text
    if stale:
        print("docs/api.md is stale; run `python proto/document.py`", file=sys.stderr)
    return int(stale)


if __name__ == "__main__":
    raise SystemExit(main())
