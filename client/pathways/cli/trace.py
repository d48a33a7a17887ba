"""`pathways trace`: one run of a program, as a table for people or as a file for a trace viewer."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

import click
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_proto.v1 import cluster_pb2, workers_pb2
from rich.console import Console
from rich.table import Table

from pathways.cli.faults import Refusal
from pathways.cli.options import address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.trace_file import begin_ns, first_ns, is_launch, name_of, trace_file


@click.command()
@address_option
@click.option("--last", is_flag=True, help="The last run that was granted (the default).")
@click.option("--run", "number", type=click.IntRange(1, 2**64 - 1), metavar="N", help="The run with this number.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write a trace for Perfetto, and no table.")
@state_option
def trace(address: str | None, last: bool, number: int | None, output: str | None, state: StateDir) -> int:
    """Show what happened in one run of a program: every launch and every move, host by host."""
    if last and number is not None:
        raise click.UsageError("--last and --run name two runs; give one of them")
    with Controller(find_address(address, state), find_token(state)) as controller:
        answer = controller.trace(number or 0)
    if answer.HasField("failure") and not answer.hosts:
        raise Refusal(answer.failure.message)
    if output is None:
        _show(answer)
        return 0
    content = trace_file(answer)
    try:
        Path(output).write_text(json.dumps(content) + "\n")
    except OSError as error:
        raise Refusal(f"cannot write {output} ({error.strerror}); choose another -o") from None
    events = sum(event["ph"] != "M" for event in content["traceEvents"])
    sys.stdout.write(f"wrote {output}: {events} events of {len(answer.hosts)} hosts; open it at ui.perfetto.dev\n")
    return 0


@dataclass(slots=True)
class _Step:
    """One step on all hosts of an island. Times are the earliest and latest, 0 = not yet."""

    island: str
    row: workers_pb2.TraceRow
    hosts: list[str] = field(default_factory=list)
    granted_ns: int = 0
    began_ns: int = 0
    finished_ns: int = 0
    unfinished: bool = False
    size_bytes: int = 0

    def add(self, host: str, row: workers_pb2.TraceRow) -> None:
        self.hosts.append(host)
        self.granted_ns = _earlier(self.granted_ns, row.granted_ns)
        self.began_ns = _earlier(self.began_ns, begin_ns(row))
        self.finished_ns = max(self.finished_ns, row.finished_ns)
        self.unfinished |= not row.finished_ns
        self.size_bytes += row.pulled_bytes + row.copied_bytes


def _earlier(known_ns: int, time_ns: int) -> int:
    return min(known_ns, time_ns) if known_ns and time_ns else known_ns or time_ns


def steps_of(answer: cluster_pb2.GetTraceResponse) -> list[_Step]:
    """The steps of a run in the order of the program, per island."""
    steps: dict[tuple[int, str], _Step] = {}
    for host in answer.hosts:
        for row in host.trace.rows:
            steps.setdefault((row.step, host.island), _Step(host.island, row)).add(host.host, row)
    return [steps[key] for key in sorted(steps)]


def _show(answer: cluster_pb2.GetTraceResponse) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
    origin = first_ns(answer)
    console.print(
        f"run {answer.execution_id} of program {answer.program or '(without a name)'}, session {answer.session_number}: "
        f"{len(answer.hosts)} hosts"
    )
    if answer.HasField("failure"):
        console.print(f"failed: {answer.failure.message}")
    nodes = {node.node: node for node in answer.nodes}
    hosts = Table("host", "island", "received ms", "prepared ms", "launches", "moves")
    for host in answer.hosts:
        launches = sum(is_launch(row) for row in host.trace.rows)
        times = (_ms(host.trace.received_ns, origin), _ms(host.trace.prepared_ns, origin))
        hosts.add_row(host.host, host.island, *times, str(launches), str(len(host.trace.rows) - launches))
    console.print(hosts)
    table = Table("step", "what", "source", "island", "sequence", "hosts", "granted ms", "began ms", "took ms", "bytes")
    for step in steps_of(answer):
        launch = is_launch(step.row)
        node = nodes.get(step.row.node) if launch else None
        what = name_of(step.row, nodes)
        began, ended = step.began_ns, step.finished_ns
        took = "not over" if step.unfinished else _ms(max(began, ended), began)
        table.add_row(
            str(step.row.step),
            what,
            node.source if node else "",
            step.island,
            str(step.row.sequence or ""),
            str(len(step.hosts)),
            _ms(step.granted_ns, origin),
            _ms(began, origin),
            took,
            str(step.size_bytes or ""),
        )
    console.print(table)


def _ms(time_ns: int, origin_ns: int) -> str:
    return f"{(time_ns - origin_ns) / 1e6:.3f}" if time_ns else ""
