"""`pathways drain` and `pathways migrate`: what is emptied or moved while everything goes on."""

from __future__ import annotations

import sys
import time

import click
from pathways_common.model.sizes import size_text
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_proto.v1 import movements_pb2

from pathways.cli.options import address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.showing import output_option, print_json

_LOOK_S = 0.2


@click.command()
@click.argument("host")
@click.option("--undo", is_flag=True, help="Take the host back; it computes again when nobody uses its island.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait.",
)
@address_option
@output_option
@state_option
def drain(host: str, undo: bool, timeout_s: float, address: str | None, output: str, state: StateDir) -> int:
    """Empty HOST, so that its worker may be stopped and nothing fails. Exit code 3 if it is not empty in time; it goes on.

    What runs ends, arrays and slices go to other islands, and the island forms again without the host. JSON: island, state,
    waits_for; with --undo: island.
    """
    with Controller(find_address(address, state), find_token(state)) as controller:
        if undo:
            back = controller.movements("UndrainHost", movements_pb2.UndrainHostRequest(host=host))
            assert isinstance(back, movements_pb2.UndrainHostResponse)
            if output == "json":
                print_json(back)
            else:
                sys.stdout.write(f"host {host} is taken back; it computes again when nobody uses island {back.island}\n")
            return 0
        answer = _wait(controller, host, timeout_s, output)
    if output == "json":
        print_json(answer)
    elif answer.state == "DRAINED":
        sys.stdout.write(f"host {host} is DRAINED: its worker may be stopped\n")
    else:
        sys.stdout.write(f"host {host} is not empty yet and goes on being drained: {answer.waits_for}\n")
    return 0 if answer.state == "DRAINED" else 3


def _wait(controller: Controller, host: str, timeout_s: float, output: str) -> movements_pb2.DrainHostResponse:
    """Asks again until it is drained or the time is over; says on stderr what it waits for."""
    until, said = time.monotonic() + timeout_s, ""
    while True:
        answer = controller.movements("DrainHost", movements_pb2.DrainHostRequest(host=host))
        assert isinstance(answer, movements_pb2.DrainHostResponse)
        if answer.state == "DRAINED" or time.monotonic() >= until:
            return answer
        if answer.waits_for != said and output == "text":
            said = answer.waits_for
            click.echo(f"pathways: waits for: {said}", err=True)
        time.sleep(_LOOK_S)


@click.command()
@click.argument("slice_name", metavar="SLICE")
@click.option("--to", "island", required=True, metavar="ISLAND", help="The island to move it to.")
@address_option
@output_option
@state_option
def migrate(slice_name: str, island: str, address: str | None, output: str, state: StateDir) -> int:
    """Move a slice to another island, with its arrays and programs; its client sees a pause.

    SLICE is its session's number and its own, such as 3.1. JSON: island, hosts, array_count, size_bytes.
    """
    session, _, slice_id = slice_name.partition(".")
    if not (session.isdigit() and slice_id.isdigit()):
        raise click.UsageError(f"{slice_name!r} is no slice; give the numbers of its session and of itself, such as 3.1")
    request = movements_pb2.MigrateSliceRequest(session_number=int(session), slice_id=int(slice_id), island=island)
    with Controller(find_address(address, state), find_token(state)) as controller:
        answer = controller.movements("MigrateSlice", request, timeout_s=100.0)
    assert isinstance(answer, movements_pb2.MigrateSliceResponse)
    if output == "json":
        print_json(answer)
    else:
        arrays = f"{answer.array_count} array{'' if answer.array_count == 1 else 's'} ({size_text(answer.size_bytes)})"
        hosts = ", ".join(dict.fromkeys(answer.hosts))
        sys.stdout.write(f"slice {slice_name} lies on island {answer.island} ({hosts}); {arrays} moved\n")
    return 0
