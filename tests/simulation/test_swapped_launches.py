"""Adjacent launches change places on the way to one of two hosts: with the host's check the numbers stay exact."""

from __future__ import annotations

from typing import Any

from pathways_server.core import effects as out

from tests.simulation.sim_arithmetic import Program
from tests.simulation.sim_client import Client
from tests.simulation.sim_cluster import SECOND_NS, Cluster
from tests.simulation.sim_world import World

GANGS = 24


def swap_for_one_host(cluster: Cluster) -> list[str]:
    """Swaps every pair of adjacent launches in frames for host a1; returns the growing list of swaps."""
    swaps: list[str] = []

    def swap(host: str, commands: list[Any]) -> list[Any]:
        index = 0
        while host == "a1" and index + 1 < len(commands):
            first, second = commands[index : index + 2]
            if isinstance(first, out.Prepare) and isinstance(second, out.Prepare):
                commands[index : index + 2] = [second, first]
                swaps.append(host)
                index += 1
            index += 1
        return commands

    cluster.faults.maybe_swap = swap  # type: ignore[method-assign, assignment]
    return swaps


def test_launches_swapped_on_one_hosts_link_still_give_exact_numbers() -> None:
    world = World(1)
    cluster = Cluster(world, {"a": 2}, 1, (), 64)
    client = Client(cluster, 1, (), 0)
    world.run_until(lambda: False, SECOND_NS)
    cluster.connect_client(client)
    assert world.run_until(lambda: bool(client.devices), 2 * SECOND_NS)
    client.start_compilation((0, 1), Program(1, 1, (), False, 0, False, 1))
    assert world.run_until(lambda: not client.open_questions, 3 * SECOND_NS)
    arrays = [client.upload((0, 1)) for _ in range(GANGS)]
    world.run_until(lambda: False, 4 * SECOND_NS)
    swaps = swap_for_one_host(cluster)
    compilation = next(iter(client.programs.values()))
    for array in arrays:
        client.run(compilation, [array])
    client.read_everything()
    assert world.run_until(lambda: not client.open_questions, 20 * SECOND_NS), client.open_questions
    assert world.violations == []
    assert len(swaps) >= 3
    assert client.values >= 2 * GANGS - 4
