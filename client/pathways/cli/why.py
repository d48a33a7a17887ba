"""`pathways why`: in words, what a session, a program or a slice waits for, who holds it, since when and until when."""

from __future__ import annotations

import sys

import click
from pathways_common.model.ids import GlobalId, local_id, session_of
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_proto.v1 import cluster_pb2

from pathways.cli.options import address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.showing import Identifier, output_option, print_json, seconds


@click.command()
@click.argument("kind", type=click.Choice(["session", "run", "slice"]))
@click.argument("number", type=Identifier(), metavar="ID")
@address_option
@output_option
@state_option
def why(kind: str, number: int, address: str | None, output: str, state: StateDir) -> int:
    """Say why something does not go on.

    \b
    pathways why session 3     everything that session 3 waits for
    pathways why run 3.17      an execution or a run of a program, by the id that `pathways ps` shows
    pathways why slice 3.1     slice 1 of session 3

    JSON: sentences, reasons (kind, what, holder, waited_seconds, deadline_seconds), work (as in `pathways ps`),
    estimate_seconds.
    """
    with Controller(find_address(address, state), find_token(state)) as controller:
        answer = controller.explain(request_of(kind, number))
    if output == "json":
        print_json(answer)
        return 0
    for sentence in answer.sentences:
        sys.stdout.write(sentence + "\n")
    if answer.HasField("estimate_seconds"):
        sys.stdout.write(f"it begins in about {seconds(answer.estimate_seconds)}\n")
    return 0


def request_of(kind: str, number: int) -> cluster_pb2.ExplainRequest:
    """What to ask; raises click.UsageError if the id cannot be one of this kind."""
    session, own = session_of(GlobalId(number)), local_id(GlobalId(number))
    if kind == "session":
        if session or not own:
            raise click.UsageError("a session has one number, such as 3")
        return cluster_pb2.ExplainRequest(session_number=own)
    if not session or not own:
        raise click.UsageError(f"write the {kind} with its session, such as 3.1")
    if kind == "run":
        return cluster_pb2.ExplainRequest(execution_id=number)
    return cluster_pb2.ExplainRequest(session_number=session, slice_id=own)
