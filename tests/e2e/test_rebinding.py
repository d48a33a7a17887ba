"""Programs on other devices than those they were compiled for, on two islands of two hosts: right numbers, and no compilation.

What is told apart is counted: `executables_compiled` and `executables_reused` of every host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.cluster import Cluster, running_cluster, wait_until
from tests.e2e.lines import Lines, stop
from tests.e2e.plain_session import plain_session

SCRIPTS = Path(__file__).with_name("scripts")
NODES = 2
# Of a registered program: those of its nodes, and the one that stands for both of them.
EXECUTABLES = NODES + 1


@pytest.fixture(scope="module")
def islands() -> Iterator[Cluster]:
    # Without files: a host would find what another one of this machine has just written.
    with running_cluster(islands=2, hosts=2, devices=1, PATHWAYS_WORKER_IMAGE_DISK="0") as running:
        yield running


def counts(cluster: Cluster) -> dict[str, tuple[int, int]]:
    """Compiled and reused, by host."""
    hosts = [host for island in cluster.status().islands for host in island.hosts]
    return {host.name: (host.executables_compiled, host.executables_reused) for host in hosts}


def settled(cluster: Cluster, complete: Callable[[dict[str, tuple[int, int]]], bool]) -> dict[str, tuple[int, int]]:
    """The same when it is complete, or after a while: what a host loads beside a run may be told behind the run's end.

    To be asked while the session is there: runs do not wait for what stands for several nodes, and a load ends with its session.
    """
    with suppress(AssertionError):
        wait_until(lambda: complete(counts(cluster)), "the counts to be complete", 20)
    return counts(cluster)


@pytest.mark.alone
def test_a_program_by_name_runs_on_other_slices_and_is_compiled_once(islands: Cluster) -> None:
    script = islands.start(str(SCRIPTS / "register_centre.py"), "centre", islands="a", stdin=True)
    try:
        assert (Lines(script).next(120) or "").startswith("version"), islands.logs()
        compiled = settled(islands, lambda found: sum(map(sum, found.values())) >= 2 * EXECUTABLES)
    finally:
        stop(script)
    # One host compiles for both; which one follows from the program.
    assert [sum(figures) for figures in zip(compiled["a0"], compiled["a1"], strict=True)] == [EXECUTABLES, EXECUTABLES]
    assert sum(compiled["a0"]) == EXECUTABLES
    assert [compiled[host] for host in ("b0", "b1")] == [(0, 0)] * 2
    value = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    squashed = jnp.tanh(jax.device_put(value, jax.local_devices(backend="cpu")[0]))
    expected = np.asarray(squashed - squashed.mean())
    with plain_session(islands) as session:
        a, b = session.positions("a"), session.positions("b")
        for devices in (a, b, b[::-1]):
            program = session.open_program("centre", devices)
            assert not program.HasField("failure"), program.failure.message
            assert list(program.arguments[0].devices) == devices
            np.testing.assert_allclose(session.run(program, value), expected, rtol=1e-6, atol=1e-6)
        # On a: from its own images. On b, which never compiled them: from the images of a; in the other order from those it got.
        wanted = {
            "a0": (compiled["a0"][0], compiled["a0"][1] + EXECUTABLES),
            "a1": (compiled["a1"][0], compiled["a1"][1] + EXECUTABLES),
            "b0": (0, 2 * EXECUTABLES),
            "b1": (0, 2 * EXECUTABLES),
        }
        assert settled(islands, lambda found: found == wanted) == wanted


@pytest.mark.cluster
def test_a_traced_program_on_another_slice_and_the_same_script_once_more_compile_nothing(cluster: Cluster) -> None:
    before = counts(cluster)
    outputs = []
    for _ in range(2):
        done = cluster.run(str(SCRIPTS / "slices_again.py"))
        assert done.returncode == 0, done.stderr
        outputs.append(sorted(done.stdout.splitlines()))
    assert outputs == [["a0 [1.0, 3.0, 5.0, 7.0]", "a1 [1.0, 3.0, 5.0, 7.0]"]] * 2
    total = sum(map(sum, before.values())) + 4 * NODES
    after = settled(cluster, lambda found: sum(map(sum, found.values())) >= total)
    grown = {host: (after[host][0] - before[host][0], after[host][1] - before[host][1]) for host in after}
    # The host of the first slice compiles; the other host pulls; the second run finds everything where it is.
    assert sorted(grown.values()) == [(0, 2 * NODES), (NODES, NODES)]


def code_in_memory(pid: int) -> int:
    """Mappings of a process with code that is of no file: an executable of XLA has one of its own."""
    lines = (line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines())
    return sum("x" in words[1] and len(words) == 5 for words in lines)


@pytest.mark.slow
def test_an_executor_that_may_keep_few_programs_unloads_the_others_and_loads_them_again() -> None:
    programs, most = 60, 16
    with running_cluster(islands=1, hosts=1, devices=1, PATHWAYS_SERVER_LOADED_EXECUTABLES=str(most)) as cluster:
        process = cluster.start(str(SCRIPTS / "many_programs.py"), str(programs), stdin=True)
        try:
            assert Lines(process).next(120) == "right"
            (host,) = [host for island in cluster.status().islands for host in island.hosts]
            # Each was compiled once, and came back from its image for its second run.
            assert (host.executables_compiled, host.executables_reused) == (programs, programs)
            assert 0 < host.executables_loaded <= most
            assert host.executables_loaded + host.executables_unloaded == 2 * programs
            # The figures are the controller's; the process has let go of the code as well.
            assert max(code_in_memory(executor.pid) for executor in cluster.executors("a0")) < programs
        finally:
            stop(process)


@pytest.mark.slow
def test_a_cluster_that_starts_again_compiles_nothing_that_it_has_seen() -> None:
    with running_cluster(islands=1, hosts=2, devices=1) as cluster:
        words = (str(SCRIPTS / "slices_again.py"),)
        outputs = [cluster.run(*words)]
        assert sorted(counts(cluster).values()) == [(0, NODES), (NODES, 0)]
        images = cluster.state / "images"
        wait_until(lambda: len(list(images.glob("*.image"))) == NODES, "the images to be on disk")
        assert cluster.down().returncode == 0
        # One is poisoned: that program is compiled, and the other ones are not.
        poisoned = sorted(images.glob("*.image"))[0]
        content = poisoned.read_bytes()
        poison = content[:100] + bytes(8) + content[108:]
        poisoned.write_bytes(poison)
        cluster.up()
        outputs.append(cluster.run(*words))
        assert sum(compiled for compiled, _ in counts(cluster).values()) == 1
        wait_until(lambda: poisoned.exists() and poisoned.read_bytes() != poison, "the poisoned image to be replaced")
        assert cluster.down().returncode == 0
        cluster.up()
        outputs.append(cluster.run(*words))
        assert sorted(counts(cluster).values()) == [(0, NODES)] * 2
        expected = ["a0 [1.0, 3.0, 5.0, 7.0]", "a1 [1.0, 3.0, 5.0, 7.0]"]
        assert [(done.returncode, sorted(done.stdout.splitlines())) for done in outputs] == [(0, expected)] * 3
