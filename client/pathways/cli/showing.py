"""How views are shown: as tables and sentences for people, as JSON with stable keys for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from google.protobuf import json_format
from google.protobuf.message import Message
from pathways_common.model.ids import SESSION_SHIFT, id_text
from rich.console import Console
from rich.table import Table

Command = TypeVar("Command", bound=Callable[..., Any])
_UNKNOWN = "-"


def output_option(command: Command) -> Command:
    """-o: text or json."""
    return click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the answer."
    )(command)


def tenant_option(command: Command) -> Command:
    """--tenant."""
    return click.option("--tenant", default="", metavar="NAME", help="Only what belongs to this tenant.")(command)


def json_text(answer: Message) -> str:
    """Every field by the name that it has in the API, also those that are zero; what is not known is left out."""
    return str(json_format.MessageToJson(answer, preserving_proto_field_name=True, always_print_fields_with_no_presence=True))


def print_json(answer: Message) -> None:
    """The same on standard output."""
    sys.stdout.write(json_text(answer) + "\n")


def print_table(table: Table) -> None:
    """As wide as the terminal, or wide enough for a file."""
    Console(width=None if sys.stdout.isatty() else 200, highlight=False, markup=False).print(table)


def identifier(number: int) -> str:
    """A number of the cluster for people: that of its session and its own there, such as 3.17."""
    return id_text(number)


class Identifier(click.ParamType[int]):
    """A number of the cluster, or SESSION.NUMBER as the tables write it."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number in the cluster, or a refusal."""
        if isinstance(value, int):
            return value
        session, dot, number = str(value).partition(".")
        if not session.isdecimal() or (dot and not number.isdecimal()):
            self.fail(f"{value!r} is not an id; write for example 3.17, as `pathways ps` does", param, ctx)
        found = int(session) << SESSION_SHIFT | int(number) if dot else int(session)
        if found >= 1 << 64:
            self.fail(f"{value} is larger than any id", param, ctx)
        return found


def seconds(value: float) -> str:
    """A time span for people."""
    if value < 60:
        return f"{value:.1f} s"
    whole = int(value)
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def known(message: Message, field: str, shown: Callable[[Any], str]) -> str:
    """A field that may be absent."""
    return shown(getattr(message, field)) if message.HasField(field) else _UNKNOWN
