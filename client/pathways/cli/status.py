"""`pathways status` and `pathways version`: what there is, as tables for people or as JSON for programs."""

from __future__ import annotations

import sys
from contextlib import suppress

import click
from pathways_common.model.failure import PathwaysError
from pathways_common.model.sizes import size_text
from pathways_common.model.topology import coordinates_text
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_common.rpc.channels import parse_address
from pathways_common.rpc.version import grouped, mismatch, own_versions, row, table
from pathways_proto.v1 import cluster_pb2
from rich.table import Table

from pathways.cli.faults import Refusal
from pathways.cli.options import address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.showing import output_option, print_json, print_table


@click.command()
@address_option
@output_option
@state_option
def status(address: str | None, output: str, state: StateDir) -> int:
    """Show islands, hosts, devices, sessions and programs; executors of single tenants as islands of their own (cells)."""
    found = find_address(address, state)
    with Controller(found, find_token(state)) as controller:
        answer = controller.status()
    if output == "json":
        print_json(answer)
        return 0
    islands = [island for island in answer.islands if not island.tenant]
    cells = len(answer.islands) - len(islands)
    devices = sum(host.device_count for island in islands for host in island.hosts)
    hosts = sum(len(island.hosts) for island in islands)
    sys.stdout.write(
        f"grpc://{parse_address(found)}  version {answer.pathways_version}  up {_duration(answer.uptime_seconds)}  "
        f"{len(islands)} islands  {hosts} hosts  {devices} devices  {len(answer.sessions)} sessions"
        f"{f'  {cells} cells' if cells else ''}\n"
    )
    print_table(_hosts(answer))
    if answer.sessions:
        print_table(_sessions(answer))
    if answer.slices:
        print_table(_slices(answer))
    return 0


def _hosts(answer: cluster_pb2.GetStatusResponse) -> Table:
    table = Table(
        "island", "kind", "state", "epoch", "host", "state", "devices", "at", "gangs", "late", "compiled", "reused", "loaded",
        "live", "pid", "data address",
    )  # fmt: skip
    for island in answer.islands:
        if not island.hosts:
            table.add_row(island.name, island.device_kind, island.state, str(island.epoch), *[""] * 12)
        for index, host in enumerate(island.hosts):
            first = (_island(island), island.device_kind, island.state, str(island.epoch)) if index == 0 else ("",) * 4
            where = (str(host.device_count), _at(island, host))
            executables = (host.executables_compiled, host.executables_reused, host.executables_loaded)
            counts = (str(host.gangs_granted), f"{host.late_seconds:.1f} s", *map(str, executables))
            table.add_row(
                *first, host.name, host.state, *where, *counts, size_text(host.live_bytes), str(host.pid), host.data_address
            )
    return table


def _island(island: cluster_pb2.IslandStatus) -> str:
    return f"{island.name} ({'x'.join(map(str, island.topology))})" if island.topology else island.name


def _at(island: cluster_pb2.IslandStatus, host: cluster_pb2.HostStatus) -> str:
    """The coordinates of a host's devices, such as 0,0:0,1."""
    numbers = iter(host.coordinates)
    return coordinates_text(tuple(zip(*[numbers] * len(island.topology), strict=True)))


def _sessions(answer: cluster_pb2.GetStatusResponse) -> Table:
    table = Table("session", "client", "islands", "devices", "programs", "buffers", "live", "executions", "age")
    for session in answer.sessions:
        table.add_row(
            str(session.session_number),
            session.client,
            ",".join(session.islands),
            str(session.device_count),
            str(session.programs),
            str(session.buffers),
            size_text(session.live_bytes),
            str(session.executions),
            _duration(session.age_seconds),
        )
    return table


def _slices(answer: cluster_pb2.GetStatusResponse) -> Table:
    table = Table("slice", "session", "state", "devices", "exclusive", "island", "positions", "hosts", "waits for")
    for held in answer.slices:
        table.add_row(
            str(held.slice_id),
            str(held.session_number),
            held.state,
            str(held.device_count),
            "yes" if held.exclusive else "",
            held.island,
            ",".join(map(str, held.positions)),
            ",".join(held.hosts),
            held.waits_for,
        )
    return table


def _duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@click.command(name="version")
@address_option
@state_option
def show_version(address: str | None, state: StateDir) -> int:
    """Show the versions of this installation, and of the cluster if one answers. Exit code 1 if the two do not fit."""
    own = own_versions(with_jax=True)
    sys.stdout.write(f"pathways {own.pathways} (python {own.python}, jax {own.jax}, jaxlib {own.jaxlib})\n")
    try:
        found = find_address(address, state)
    except PathwaysError:
        return 0  # no cluster is known here
    try:
        with Controller(found, find_token(state)) as controller:
            said = controller.version()
            rows = [row("this installation", own), row("controller", said.versions)]
            refusal = mismatch(said.versions, own, "client") if said.versions.pathways else None
            with suppress(PathwaysError):  # its workers are for those with a token
                hosts = [host for island in controller.status(timeout_s=2.0).islands for host in island.hosts]
                rows += [row(f"worker {host.name}", host.versions) for host in hosts]
    except PathwaysError as error:
        click.echo(f"pathways: {error}", err=True)
        return 0 if address is None else 1
    if refusal is not None:
        raise Refusal(refusal.message)
    sys.stdout.write(f"grpc://{parse_address(found)}\n{table(grouped(rows))}\n")
    return 0
