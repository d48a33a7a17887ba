"""`pathways trace`: one run of a program, or what a session launched, as a table for people or as a file for a trace viewer."""

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
from pathways.cli.session_launches import show_launches
from pathways.cli.trace_file import Names, begin_ns, first_ns, hosts_of, is_launch, pieces_told_of, trace_file


@click.command()
@address_option
@click.option("--last", is_flag=True, help="The last run that was granted (the default).")
@click.option("--run", "number", type=click.IntRange(1, 2**64 - 1), metavar="N", help="The run with this number.")
@click.option("--session", type=click.IntRange(1, 2**24 - 1), metavar="N", help="What this open session launched last.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write a trace for Perfetto, and no table.")
@state_option
def trace(address: str | None, last: bool, number: int | None, session: int | None, output: str | None, state: StateDir) -> int:
    """Show what happened in one run of a program, every launch and every move, or what a session launched; host by host."""
    if last + (number is not None) + (session is not None) > 1:
        raise click.UsageError("--last, --run and --session name different things; give one of them")
    with Controller(find_address(address, state), find_token(state)) as controller:
        answer = controller.trace(number or 0) if session is None else controller.launches(session)
    if answer.HasField("failure") and not answer.hosts:
        raise Refusal(answer.failure.message)
    for sentence in _gaps(answer):
        click.echo(f"pathways: {sentence}", err=True)
    if output is None:
        _show(answer) if session is None else show_launches(answer)
        return 0
    content = trace_file(answer)
    try:
        Path(output).write_text(json.dumps(content) + "\n")
    except OSError as error:
        raise Refusal(f"cannot write {output} ({error.strerror}); choose another -o") from None
    events = sum(event["ph"] != "M" for event in content["traceEvents"])
    sys.stdout.write(f"wrote {output}: {events} events of {len(hosts_of(answer))} hosts; open it at ui.perfetto.dev\n")
    return 0


def _gaps(answer: cluster_pb2.GetTraceResponse) -> list[str]:
    """What is missing and why, one sentence each."""
    found = []
    if answer.late_hosts:
        found.append(
            f"no full answer came from {', '.join(answer.late_hosts)} within the controller's deadline, and rows are missing: "
            "a host answers between two launches, ask again later"
        )
    if answer.lost_hosts and not answer.execution_id:
        found.append(f"{', '.join(answer.lost_hosts)} are not there, and what they launched is not told")
    elif answer.lost_hosts:
        found.append(f"the run's hosts {', '.join(answer.lost_hosts)} have gone since, and what they knew of it with them")
    if first := [host.host for host in answer.hosts if host.trace.forgotten]:
        found.append(
            f"the first launches are missing: {', '.join(first)} have had more of this session than they remember or tell"
        )
    known = pieces_told_of(answer)
    if known and answer.piece_count > known:
        found.append(f"the hosts remember the last {known} of the {answer.piece_count} pieces of this run")
    return found


@dataclass(slots=True)
class _Step:
    """One step on all hosts of an island. Times are the earliest and latest, 0 = not yet. `run` is the run or its piece."""

    island: str
    run: int
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
    """The steps of a run in the order of the program, per island; pieces one after another."""
    order = {piece.execution_id: position for position, piece in enumerate(answer.pieces)}
    steps: dict[tuple[int, int, str], _Step] = {}
    for host in answer.hosts:
        run = host.trace.execution_id
        for row in host.trace.rows:
            step = steps.setdefault((order.get(run, 0), row.step, host.island), _Step(host.island, run, row))
            step.add(host.host, row)
    return [steps[key] for key in sorted(steps)]


def _show(answer: cluster_pb2.GetTraceResponse) -> None:
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
    origin = first_ns(answer)
    console.print(
        f"run {answer.execution_id} of program {answer.program or '(without a name)'}, session {answer.session_number}: "
        f"{len(hosts_of(answer))} hosts" + (f", {answer.piece_count} pieces" if answer.piece_count else "")
    )
    if answer.HasField("failure"):
        console.print(f"failed: {answer.failure.message}")
    names = Names(answer)
    hosts = Table("host", "island", "received ms", "prepared ms", "launches", "moves")
    for host, traces in hosts_of(answer).items():
        rows = [row for each in traces for row in each.trace.rows]
        launches = sum(is_launch(row) for row in rows)
        received = min((each.trace.received_ns for each in traces if each.trace.received_ns), default=0)
        prepared = min((each.trace.prepared_ns for each in traces if each.trace.prepared_ns), default=0)
        times = (_ms(received, origin), _ms(prepared, origin))
        hosts.add_row(host, traces[0].island, *times, str(launches), str(len(rows) - launches))
    console.print(hosts)
    table = Table("step", "what", "source", "island", "sequence", "hosts", "granted ms", "began ms", "took ms", "bytes")
    for step in steps_of(answer):
        name = names.of(step.run, step.row)
        began, ended = step.began_ns, step.finished_ns
        took = "not over" if step.unfinished else _ms(max(began, ended), began)
        table.add_row(
            str(step.row.step),
            f"{name.where}: {name.what}" if name.where else name.what,
            name.source,
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
