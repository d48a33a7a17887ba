"""`pathways story`: what happened to one thing, in order of time, in words; from what the controller remembers."""

from __future__ import annotations

import sys
import time

import click
from pathways_common.model.ids import SESSION_SHIFT
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_proto.v1 import cluster_pb2

from pathways.cli.options import address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.showing import output_option, print_json, seconds

_NAMED = ("host", "island", "failure")
_NUMBERED = ("session", "run", "program", "slice")


@click.command()
@click.argument("words", nargs=-1, metavar="[KIND] ID")
@address_option
@output_option
@state_option
def story(words: tuple[str, ...], address: str | None, output: str, state: StateDir) -> int:
    """Tell what happened to one thing, in order of time.

    \b
    pathways story session 3     the session, its slices, and the last of its work
    pathways story run 3.17      an execution or a run of a program
    pathways story program 3.5   a compiled program, and its work
    pathways story slice 3.1     slice 1 of session 3
    pathways story host a1       a host, and failures that began there (`island a` in the same way)
    pathways story failure f12   a cause, by the id in an error's last line, and all that failed for it

    With an id alone it is tried as what it looks like: 3 a session, 3.17 a run, a1 a host, f12 a failure.

    JSON: lines (time_ns, subject, text), remembered_seconds.
    """
    request = request_of(words)
    with Controller(find_address(address, state), find_token(state)) as controller:
        answer = controller.story(request)
    if output == "json":
        print_json(answer)
        return 0
    for line in answer.lines:
        sys.stdout.write(told(line) + "\n")
    click.echo(f"pathways: the controller remembers the last {seconds(answer.remembered_seconds)}", err=True)
    return 0


def told(line: cluster_pb2.StoryLine) -> str:
    """One line: when, what it is about, what happened."""
    clock = time.strftime("%H:%M:%S", time.localtime(line.time_ns / 1e9))
    return f"{clock}.{line.time_ns // 10**6 % 1000:03d}  {line.subject}  {line.text}"


def request_of(words: tuple[str, ...]) -> cluster_pb2.GetStoryRequest:
    """What to ask; raises click.UsageError if the words name nothing."""
    if not words or len(words) > 2:
        raise click.UsageError("name one thing, such as `pathways story run 3.17`, `story host a1` or `story f12`")
    kind = words[0] if len(words) == 2 else _looks_like(words[0])
    name = words[-1]
    if kind in _NAMED:
        return cluster_pb2.GetStoryRequest(kind=kind.upper(), name=name)
    if kind not in _NUMBERED:
        raise click.UsageError(f"{kind!r} has no story; there is one of {', '.join((*_NUMBERED, *_NAMED))}")
    session, dot, number = name.partition(".")
    if not session.isdecimal() or bool(dot) == (kind == "session") or (dot and not number.isdecimal()):
        raise click.UsageError(f"{name!r} is not the id of a {kind}; write for example {'3' if kind == 'session' else '3.17'}")
    found = int(session) << SESSION_SHIFT | int(number) if dot else int(session)
    if found >= 1 << 64:
        raise click.UsageError(f"{name} is larger than any id")
    return cluster_pb2.GetStoryRequest(kind=kind.upper(), number=found)


def _looks_like(name: str) -> str:
    if name.isdecimal():
        return "session"
    if name.partition(".")[0].isdecimal():
        return "run"
    hexadecimal = len(name) == 8 and all(letter in "0123456789abcdef" for letter in name)
    if hexadecimal or (name[:1] == "f" and name[1:].isdecimal()):
        return "failure"
    return "host"
