"""One island of two hosts: one is drained, the other takes what lies on it, scripts go on, every bit is what plain JAX has."""

from __future__ import annotations

import json

import pytest

from tests.cluster import running_cluster, wait_until
from tests.e2e.lines import Lines, stop
from tests.e2e.test_moving import expected as expected  # what the script prints in plain JAX
from tests.e2e.test_moving import go_on, hosts, pathways, start


@pytest.mark.alone
@pytest.mark.slow
def test_a_host_of_the_only_island_is_drained_and_stopped_under_scripts_that_notice_nothing(expected: list[str]) -> None:
    with running_cluster(islands=1, hosts=2, devices=2) as island:
        scripts = [start(island, "slice")]
        heard = [Lines(scripts[0])]
        try:
            said = [[heard[0].next(60)]]
            scripts.append(start(island, "slice"))
            heard.append(Lines(scripts[1]))
            said.append([heard[1].next(60)])
            for process, lines, words in zip(scripts, heard, said, strict=True):
                words.append(go_on(process, lines))
            assert sorted(list(held.hosts) for held in island.status().slices) == [["a0"], ["a1"]]
            drained = pathways(island, "drain", "a0", "-o", "json")
            assert drained.returncode == 0, drained.stdout + drained.stderr + island.logs()
            assert json.loads(drained.stdout) == {"island": "a", "state": "DRAINED", "waits_for": ""}
            assert {host.name: host.state for each in island.status().islands for host in each.hosts}["a0"] == "DRAINED"
            assert [list(held.hosts) for held in island.status().slices] == [["a1"], ["a1"]]
            before = island.gangs_by_host()["a1"]
            island.stop_worker("a0")
            wait_until(lambda: "a0" not in hosts(island), "the worker of a0 to be gone")
            for _ in range(2):
                for process, lines, words in zip(scripts, heard, said, strict=True):
                    words.append(go_on(process, lines))
            assert said == [expected, expected]
            assert island.gangs_by_host()["a1"] > before, "it computes there"
            assert [process.wait(30) for process in scripts] == [0, 0]
        finally:
            for process in scripts:
                stop(process)
