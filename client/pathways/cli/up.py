"""`pathways up`: a cluster on this machine, in the foreground until Ctrl-C, or left running with --detach."""

from __future__ import annotations

import sys

import click
from pathways_common.process.state import StateDir

from pathways.cli.cluster import READY_TIMEOUT_S, LocalCluster, Shape, island_names
from pathways.cli.faults import Interrupted, Refusal
from pathways.cli.launch import how_it_ended
from pathways.cli.options import DEVICES, HOSTS, ISLANDS, Bytes, Seconds, check_kinds, check_topology, state_option
from pathways.cli.signals import Interrupts


@click.command()
@click.option("--islands", type=ISLANDS, default=1, show_default=True, help="Islands: groups of hosts that compute together.")
@click.option("--hosts", type=HOSTS, default=1, show_default=True, help="Hosts in each island.")
@click.option("--devices", type=DEVICES, default=1, show_default=True, help="Devices of each host.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=29000, show_default=True, help="Port of the controller; 0: a free one."
)
@click.option("--detach", is_flag=True, help="Leave the cluster running; stop it with `pathways down`.")
@click.option("--device-memory", type=Bytes(), metavar="SIZE", help="Memory of each device: what does not fit waits.")
@click.option("--topology", default="", metavar="AxB", help="How the devices of each island lie. Default: in a line.")
@click.option("--kinds", default="", metavar="a=KIND,...", help="What to call the devices of an island. Default: as JAX does.")
@click.option("--timeout", type=Seconds(), default=READY_TIMEOUT_S, show_default=True, help="Seconds to wait for the hosts.")
@state_option
def up(
    islands: int,
    hosts: int,
    devices: int,
    port: int,
    detach: bool,
    device_memory: int | None,
    topology: str,
    kinds: str,
    timeout: float,
    state: StateDir,
) -> int:
    """Start a cluster on this machine: one controller, and one worker per host."""
    shape = Shape(
        islands=islands,
        hosts=hosts,
        devices=devices,
        port=port,
        device_memory_bytes=device_memory,
        topology=check_topology(topology, hosts, devices),
        kinds=check_kinds(kinds, island_names(islands)),
        stay=detach,
        ready_timeout_s=timeout,
    )
    with Interrupts() as interrupts:
        cluster = LocalCluster(shape, state, interrupts)
        try:
            seconds = cluster.start()
        except BaseException:
            if cluster.daemons():  # else the state directory is somebody else's
                cluster.stop()
            raise
        if detach:
            _announce(cluster, seconds)
            return 0
        try:
            _announce(cluster, seconds)
            _watch(cluster, interrupts)
        except Interrupted:
            pass  # being asked to stop is how this command ends
        finally:
            cluster.stop()
    return 0


def _announce(cluster: LocalCluster, seconds: float) -> None:
    shape = cluster.shape
    total = shape.islands * shape.hosts * shape.devices
    sys.stdout.write(f"ready {cluster.address}\n")
    sys.stdout.flush()
    sys.stderr.write(
        f"pathways: {shape.islands} x {shape.hosts} hosts, {total} devices, up in {seconds:.1f} s; "
        f"{'stop it with `pathways down`' if shape.stay else 'Ctrl-C stops it'}\n"
    )


def _watch(cluster: LocalCluster, interrupts: Interrupts) -> None:
    gone: set[str] = set()
    while True:
        interrupts.wait(0.5)
        for daemon in cluster.daemons():
            code = daemon.exit_code
            if code is None or daemon.name in gone:
                continue
            gone.add(daemon.name)
            if daemon is cluster.controller:
                raise Refusal(f"the controller {how_it_ended(code)}; the end of its log ({daemon.log}):\n{daemon.tail()}")
            sys.stderr.write(f"pathways: the worker of host {daemon.name} {how_it_ended(code)}; its log is {daemon.log}\n")
