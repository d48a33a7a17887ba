"""What a session launched, as a table: a row per program and island, in the order in which they were launched first."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from pathways_proto.v1 import cluster_pb2, workers_pb2
from rich.console import Console
from rich.table import Table

from pathways.cli.trace_file import Names, begin_ns, first_ns, hosts_of


@dataclass(slots=True)
class Launches:
    """Those of one program on the hosts of an island. A launch of several hosts counts once; times are sums over hosts."""

    name: str
    island: str
    hosts: dict[str, None] = field(default_factory=dict)
    sequences: dict[int, None] = field(default_factory=dict)
    began_ns: int = 0
    ended: int = 0
    took_ns: int = 0
    longest_ns: int = 0

    def add(self, host: str, row: workers_pb2.TraceRow) -> None:
        """One host's part of a launch."""
        self.hosts[host] = self.sequences[row.sequence] = None
        self.began_ns = min(self.began_ns or begin_ns(row), begin_ns(row))
        if row.finished_ns:
            took_ns = row.finished_ns - row.started_ns
            self.ended += 1
            self.took_ns += took_ns
            self.longest_ns = max(self.longest_ns, took_ns)


def launches_of(answer: cluster_pb2.GetTraceResponse) -> list[Launches]:
    """The rows of the table."""
    names = Names(answer)
    found: dict[tuple[str, str], Launches] = {}
    for host in answer.hosts:
        for row in host.trace.rows:
            name = names.of(row.execution_id, row).what
            found.setdefault((name, host.island), Launches(name, host.island)).add(host.host, row)
    return sorted(found.values(), key=lambda each: each.began_ns)


def show_launches(answer: cluster_pb2.GetTraceResponse) -> None:
    """Prints the table."""
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
    console.print(f"session {answer.session_number}: {len(hosts_of(answer))} hosts; times are those on one host")
    table = Table("program", "island", "hosts", "launches", "began ms", "mean ms", "longest ms")
    origin_ns = first_ns(answer)
    for each in launches_of(answer):
        mean = f"{each.took_ns / each.ended / 1e6:.3f}" if each.ended else "not over"
        longest = f"{each.longest_ns / 1e6:.3f}" if each.ended else ""
        began = f"{(each.began_ns - origin_ns) / 1e6:.3f}"
        table.add_row(each.name, each.island, str(len(each.hosts)), str(len(each.sequences)), began, mean, longest)
    console.print(table)
