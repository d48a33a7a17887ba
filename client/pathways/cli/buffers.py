"""`pathways buffers`: the memory of sessions, by device, with the largest arrays and what is poisoned."""

from __future__ import annotations

import sys

import click
from pathways_common.model.sizes import size_text
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_proto.v1 import cluster_pb2
from rich.table import Table

from pathways.cli.options import address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.showing import identifier, output_option, print_json, print_table, tenant_option


@click.command()
@address_option
@tenant_option
@click.option("--session", type=click.IntRange(1, 2**63 - 1), metavar="N", help="Only this session.")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, show_default=True, help="Largest arrays per session.")
@output_option
@state_option
def buffers(address: str | None, tenant: str, session: int | None, limit: int, output: str, state: StateDir) -> int:
    """Show the memory of sessions: by host and device, the largest arrays, pending and poisoned ones.

    JSON: sessions (session_number, tenant, client, buffers, pending_buffers, live_bytes, spilled_bytes, devices (host, device,
    live_bytes), largest (buffer_id, state, size_bytes, shards, island), poisoned (count, failure)).
    """
    with Controller(find_address(address, state), find_token(state)) as controller:
        answer = controller.buffers(tenant, session or 0, limit)
    if output == "json":
        print_json(answer)
        return 0
    if not answer.sessions:
        sys.stdout.write("no session is open\n" if session is None else f"session {session} is not open\n")
        return 0
    for each in answer.sessions:
        _show(each)
    return 0


def _show(session: cluster_pb2.SessionMemory) -> None:
    client = f" ({session.client})" if session.client else ""
    live, spilled = size_text(session.live_bytes), size_text(session.spilled_bytes)
    sys.stdout.write(
        f"session {session.session_number} of tenant {session.tenant}{client}: {session.buffers} arrays,"
        f" {live} on devices, {spilled} spilled, {session.pending_buffers} pending\n"
    )
    if session.devices:
        table = Table("host", "device", "live")
        for device in session.devices:
            table.add_row(device.host, str(device.device), size_text(device.live_bytes))
        print_table(table)
    if session.largest:
        table = Table("array", "state", "bytes", "shards", "island")
        for row in session.largest:
            table.add_row(identifier(row.buffer_id), row.state, size_text(row.size_bytes), str(row.shards), row.island)
        print_table(table)
    for poisoned in session.poisoned:
        plural = "arrays" if poisoned.count > 1 else "array"
        sys.stdout.write(f"{poisoned.count} {plural} will never hold a value: {poisoned.failure.message}\n")
