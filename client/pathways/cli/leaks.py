"""`pathways leaks`: what hosts hold and nobody owns, one line each. What is in flight is none: hosts answer in their turn."""

from __future__ import annotations

import sys

import click
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_proto.v1 import cluster_pb2

from pathways.cli.options import address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.showing import output_option, print_json


@click.command()
@address_option
@output_option
@state_option
def leaks(address: str | None, output: str, state: StateDir) -> int:
    """Find what hosts hold and nobody owns. Exit code 1 if there is any, 3 if some host did not answer and there is none.

    JSON: leaks (host, kind, id, size_bytes, session_number, session_open, tenant, missing), hosts, late_hosts, lost_hosts,
    objects, left_out.
    """
    with Controller(find_address(address, state), find_token(state)) as controller:
        answer = controller.leaks()
    if output == "json":
        print_json(answer)
    else:
        for leak in answer.leaks:
            sys.stdout.write(sentence(leak) + "\n")
        if answer.left_out:
            sys.stdout.write(f"and {answer.left_out} objects more, which were too many to tell\n")
        if not answer.leaks:
            sys.stdout.write(f"no leaks: {answer.objects} objects on {len(answer.hosts)} hosts have owners\n")
    silent = [*answer.late_hosts, *answer.lost_hosts]
    if silent:
        click.echo(f"pathways: {_silent(answer)}; ask again", err=True)
    return 1 if answer.leaks else 3 if silent else 0


def sentence(leak: cluster_pb2.Leak) -> str:
    """One leak in words."""
    what = f"host {leak.host}: {leak.kind.lower()} {leak.id}"
    if leak.missing:
        return f"{what} is missing there; {_owner(leak)} relies on it"
    size = f", {leak.size_bytes} bytes" if leak.size_bytes else ""
    return f"{what}{size}, {_owner(leak)}"


def _owner(leak: cluster_pb2.Leak) -> str:
    if not leak.session_number:
        return "of nobody"
    if not leak.session_open:
        return f"of session {leak.session_number}, which is over"
    return f"session {leak.session_number} of tenant {leak.tenant}"


def _silent(answer: cluster_pb2.FindLeaksResponse) -> str:
    parts = []
    if answer.late_hosts:
        parts.append(f"{', '.join(answer.late_hosts)} did not answer in time, being at work")
    if answer.lost_hosts:
        parts.append(f"{', '.join(answer.lost_hosts)} went away or changed executors meanwhile")
    return " and ".join(parts)
