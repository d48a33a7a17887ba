"""`pathways down`: ends exactly the processes that cluster.json names, never one that merely has the same number."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import click
from pathways_common.process.child import terminate
from pathways_common.process.state import StateDir

from pathways.cli.cluster import known_processes, living_processes, names_process
from pathways.cli.launch import GRACE_S
from pathways.cli.options import state_option


@click.command()
@state_option
def down(state: StateDir) -> int:
    """Stop the cluster that `pathways up` started on this machine."""
    cluster = state.read_cluster()
    if cluster is None:
        sys.stdout.write(f"nothing to stop: no cluster is known in {state.path}\n")
        return 0
    entries = known_processes(cluster)
    running = len(living_processes(cluster))
    launcher = cluster.get("launcher")
    if running and launcher is not None and names_process(launcher):
        # `pathways up` in the foreground stops its own children, in order.
        terminate(launcher["pid"], launcher["start_time"], grace_s=2 * GRACE_S + 4)
    workers = [entry for entry in entries if entry.get("name") != "controller"]
    _end(workers)
    _end([entry for entry in entries if entry.get("name") == "controller"])
    state.remove_cluster()
    if not running:
        sys.stdout.write("nothing to stop: the cluster had ended already\n")
    else:
        sys.stdout.write(f"stopped {running} processes\n")
    return 0


def _end(entries: list[dict[str, Any]]) -> None:
    if not entries:
        return
    with ThreadPoolExecutor(max_workers=min(32, len(entries))) as pool:
        list(pool.map(lambda entry: terminate(entry["pid"], entry["start_time"], GRACE_S), entries))
