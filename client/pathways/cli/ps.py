"""`pathways ps`: what is in line and in flight, the oldest first."""

from __future__ import annotations

import sys

import click
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_proto.v1 import cluster_pb2
from rich.table import Table

from pathways.cli.options import address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.showing import identifier, known, output_option, print_json, print_table, seconds, tenant_option


@click.command()
@address_option
@tenant_option
@click.option("--limit", type=click.IntRange(1, 1000), default=1000, show_default=True, help="Rows at most.")
@output_option
@state_option
def ps(address: str | None, tenant: str, limit: int, output: str, state: StateDir) -> int:
    """Show programs and executions in line and in flight, the oldest first.

    JSON: work (execution_id, session_number, tenant, kind, name, islands, state, age_seconds, steps, steps_granted, position,
    waits_for (kind, what, holder, waited_seconds, deadline_seconds), device_ns, finished_hosts, unfinished_hosts), left_out.
    """
    with Controller(find_address(address, state), find_token(state)) as controller:
        answer = controller.work(tenant, limit)
    if output == "json":
        print_json(answer)
        return 0
    if not answer.work:
        sys.stdout.write("nothing is in line or in flight\n")
        return 0
    print_table(table_of(answer))
    if answer.left_out:
        sys.stdout.write(f"and {answer.left_out} more\n")
    return 0


def table_of(answer: cluster_pb2.ListWorkResponse) -> Table:
    """One row per piece of work."""
    table = Table("id", "tenant", "kind", "name", "islands", "state", "age", "steps", "line", "device time", "waits for")
    for row in answer.work:
        steps = f"{row.steps_granted}/{row.steps}" if row.steps else str(row.steps_granted)
        waits = known(row, "waits_for", lambda reason: f"{reason.what}: {reason.holder}" if reason.holder else reason.what)
        table.add_row(
            identifier(row.execution_id),
            row.tenant,
            row.kind.lower(),
            row.name,
            ",".join(row.islands),
            row.state,
            seconds(row.age_seconds),
            steps,
            str(row.position or "-"),
            known(row, "device_ns", lambda value: seconds(value / 1e9)),
            waits,
        )
    return table
