"""Slices in two and three dimensions on hosts that declare where they are, slices by kind, and who waits for whom there.

Expected values are NumPy's or arithmetic. Which hosts are neighbours follows from the names: `pathways up --topology 2x2` puts
a0 and a1 above a2 and a3.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cluster import Cluster, running_cluster
from tests.e2e.lines import Lines, stop

pytestmark = pytest.mark.alone
SCRIPTS = Path(__file__).with_name("scripts")
COLUMNS, ROWS = [["a0", "a2"], ["a1", "a3"]], [["a0", "a1"], ["a2", "a3"]]
CALLS = 5
X = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.fixture(scope="module")
def square() -> Iterator[Cluster]:
    """One island of 2x2 hosts."""
    with running_cluster(islands=1, hosts=4, more=("--topology", "2x2", "--kinds", "a=square")) as running:
        yield running


@pytest.fixture(scope="module")
def said(square: Cluster) -> dict[str, Any]:
    """What scripts/square.py printed, and the gangs of each host during its last calls."""
    process = square.start(str(SCRIPTS / "square.py"), stdin=True)
    lines = Lines(process)
    found: dict[str, Any] = {}

    def read_to(name: str) -> None:
        while name not in found:
            line = lines.next(90)
            assert line is not None, f"{name!r} did not come after {list(found)}: {_error(process)}"
            found.update([json.loads(line)])

    def go() -> None:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()

    try:
        read_to("program on both")
        before = square.gangs_by_host()
        go()
        read_to("ran")
        after = square.gangs_by_host()
        go()
        assert process.wait(30) == 0
    finally:
        stop(process)
    return found | {"gangs": {host: after[host] - before[host] for host in before}}


def _error(process: subprocess.Popen[str]) -> str:
    process.terminate()
    assert process.stderr is not None
    return process.stderr.read()


def test_hosts_say_where_they_are_and_status_shows_it(square: Cluster) -> None:
    (island,) = square.status().islands
    assert (list(island.topology), island.device_kind) == ([2, 2], "square")
    assert {host.name: list(host.coordinates) for host in island.hosts} == {
        "a0": [0, 0],
        "a1": [0, 1],
        "a2": [1, 0],
        "a3": [1, 1],
    }


def test_mesh_of_a_square_slice_lies_as_its_hosts_do(said: dict[str, Any]) -> None:
    assert said["whole"] == [[2, 2], {"rows": 2, "columns": 2}, ["a0", "a1", "a2", "a3"], "square"]
    assert said["tiles"] == [[[0, 0], "a0"], [[0, 3], "a1"], [[2, 0], "a2"], [[2, 3], "a3"]]


def test_jitted_functions_use_both_axes_of_a_square_slice(said: dict[str, Any]) -> None:
    assert said["product"] == (X @ X.T).tolist()
    over_rows, over_columns = X[:2] + X[2:], X[:, :3] + X[:, 3:]
    assert said["sums"] == [over_rows.tolist(), over_columns.tolist()]


def test_three_dimensions_lie_on_two_where_one_is_flat(said: dict[str, Any]) -> None:
    assert said["cube"] == [{"planes": 1, "rows": 2, "columns": 2}, (X.reshape(2, 4, 3)[:, :2, :2] * 2 + 1).tolist()]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("line", "a 4x1 slice cannot lie on island a, which is 2x2; ask for another shape"),
        ("row of four", "a 4 slice cannot lie on island a, which is 2x2; ask for another shape"),
        ("eight", "virtual slice needs 8 devices in one island; the largest island has 4"),
        (
            "contradiction",
            "the slices it must lie with and apart from contradict: they leave 0 devices on island a and it needs 1",
        ),
        ("too many apart", "the slices it must lie apart from are in the way: they leave 2 devices on island a and it needs 3"),
    ],
)
def test_what_can_never_be_is_refused_in_a_sentence_of_its_own(said: dict[str, Any], asked: str, sentence: str) -> None:
    kind, text = said[asked]
    assert (kind, text.splitlines()[0]) == ("InvalidArgumentError", sentence)


def test_programs_run_on_a_square_slice(said: dict[str, Any]) -> None:
    assert said["program on the square"] == (X * 4).tolist()


def test_program_on_a_slice_near_another_and_one_apart_runs_on_the_hosts_that_were_asked_for(said: dict[str, Any]) -> None:
    first, near, apart = said["placed"]
    assert first in COLUMNS + ROWS
    assert near == first
    assert sorted(near + apart) == ["a0", "a1", "a2", "a3"]
    assert said["program on both"] == (X * 8 + (X * 8).sum(axis=1, keepdims=True)).tolist()
    # Three launches near, one apart.
    assert said["gangs"] == {host: CALLS * (3 if host in near else 1) for host in near + apart}


@contextmanager
def _asking(cluster: Cluster) -> Iterator[Any]:
    """A client that asks for what it is sent, and the lines that it answers."""
    process = cluster.start(str(SCRIPTS / "held.py"), stdin=True)
    lines = Lines(process)

    def ask(**wanted: Any) -> None:
        assert process.stdin is not None
        process.stdin.write((json.dumps(wanted) if wanted else "release") + "\n")
        process.stdin.flush()

    try:
        assert lines.next(60) == "connected", _error(process)
        yield ask, lines
    finally:
        stop(process)


def test_exclusive_column_is_waited_for_in_its_shape_by_name(square: Cluster) -> None:
    with _asking(square) as (hold, held), _asking(square) as (ask, heard):
        hold(mesh_shape=[2, 1], exclusive=True)
        got = (held.next(60) or "").split()
        assert got[:3] == ["got", "a", "square"]
        assert got[3:] in COLUMNS + ROWS
        others = sorted({"a0", "a1", "a2", "a3"} - set(got[3:]))
        ask(mesh_shape=[1, 2])
        assert heard.next(60) == f"got a square {' '.join(others)}"
        ask(mesh_shape=[2, 2])
        said = heard.next(60) or ""
        wanted = "2 devices more of island a in the shape 2x2, held exclusively by slice 1 of session "
        assert said.startswith(f"ResourceExhaustedError virtual slice cannot be had now: it needs {wanted}"), said
        ask(mesh_shape=[2, 2], wait=True, timeout=60)
        said = heard.next(60) or ""
        assert said.startswith(f"log virtual slice waits for {wanted}"), said
        assert "held.py" in said, "the client that holds it is named"
        waiting = [each.waits_for for each in square.status().slices if each.waits_for]
        assert [text.startswith(wanted) for text in waiting] == [True]
        hold()
        assert held.next(60) == "released"
        assert heard.next(60) == "got a square a0 a1 a2 a3"
        hold(devices=1, exclusive=True)
        said = held.next(60) or ""
        assert said.startswith(
            "ResourceExhaustedError virtual slice cannot be had now: it needs 1 device more of island a, in use by"
        )


_KINDS = """
import json, jax, numpy as np, pathways as pw
from jax.sharding import NamedSharding, PartitionSpec as P
device_set = pw.make_virtual_device_set()
def refusal(**wanted):
    try:
        device_set.add_slice(**wanted)
    except pw.errors.PathwaysError as error:
        return str(error).splitlines()[0]
found = {"seen": [[device.island, device.device_kind] for device in jax.devices()]}
slices = [device_set.add_slice(mesh_shape=(2, 1), kind=kind) for kind in ("fast", "slow", "fast")]
found["given"] = [[each.island, each.kind, *each.hosts] for each in slices]
places = [NamedSharding(each.mesh(("x", "y")), P("x")) for each in slices]
calls = [jax.jit(lambda x: x * 2 + 1, in_shardings=place, out_shardings=place) for place in places]
@pw.program
def around(x):
    for call in calls:
        x = call(x)
    return x
found["value"] = np.asarray(around(jax.device_put(np.arange(4, dtype=np.float32), places[0]))).tolist()
found["unknown"] = refusal(devices=1, kind="huge")
found["not there"] = refusal(devices=1, kind="slow", island="a")
found["too many"] = refusal(devices=3, kind="slow")
print(json.dumps(found))
"""


def test_slices_by_kind_lie_on_the_islands_of_that_kind() -> None:
    with running_cluster(islands=2, hosts=1, devices=2, more=("--topology", "2x1", "--kinds", "a=fast,b=slow")) as cluster:
        done = cluster.run("-c", _KINDS, islands="all")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["seen"] == [["a", "fast"], ["a", "fast"], ["b", "slow"], ["b", "slow"]]
    assert found["given"] == [["a", "fast", "a0", "a0"], ["b", "slow", "b0", "b0"], ["a", "fast", "a0", "a0"]]
    assert found["value"] == [8.0 * number + 7.0 for number in range(4)]
    assert found["unknown"] == "no island has devices of kind 'huge'; the kinds there are: fast, slow"
    assert found["not there"] == "island a has devices of kind fast, not 'slow'; the kinds there are: fast"
    assert found["too many"] == "virtual slice needs 3 devices of kind 'slow' in one island; the largest island has 2"


_COLUMN_MAJOR = """
import json, jax, numpy as np, pathways as pw
from jax.sharding import NamedSharding, PartitionSpec as P
device_set = pw.make_virtual_device_set()
added = device_set.add_slice(mesh_shape=(2, 2))
mesh = added.mesh(("rows", "columns"))
x = jax.device_put(np.arange(4, dtype=np.float32).reshape(2, 2), NamedSharding(mesh, P("rows", "columns")))
rolled = jax.shard_map(lambda t: jax.lax.ppermute(t, "rows", [(0, 1), (1, 0)]), mesh=mesh, in_specs=P("rows", "columns"),
    out_specs=P("rows", "columns"))
value = np.asarray(jax.jit(rolled)(x)).tolist()
row = device_set.add_slice(mesh_shape=(2,), apart=[column := device_set.add_slice(mesh_shape=(2, 1))])
print(json.dumps(value))
"""


def test_devices_lie_where_their_host_says_and_not_in_their_own_order() -> None:
    places = {"PATHWAYS_WORKER_TOPOLOGY": "2x2", "PATHWAYS_WORKER_COORDINATES": "0,0:1,1:0,1:1,0"}
    with running_cluster(islands=1, hosts=1, devices=4, **places) as cluster:
        process = cluster.start("-c", _COLUMN_MAJOR + "import sys; sys.stdout.flush(); sys.stdin.readline()\n", stdin=True)
        lines = Lines(process)
        try:
            said = lines.next(60)
            assert said is not None, _error(process)
            whole, column, other = [list(each.positions) for each in cluster.status().slices]
        finally:
            stop(process)
    assert json.loads(said) == [[2.0, 3.0], [0.0, 1.0]]
    # Devices 0 and 2 lie above 3 and 1; rows and columns may change places.
    assert whole in ([0, 2, 3, 1], [0, 3, 2, 1])
    assert sorted(map(sorted, [column, other])) in ([[0, 2], [1, 3]], [[0, 3], [1, 2]])


def test_hosts_that_contradict_one_another_do_not_come_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # a cluster that fails keeps its logs
    places = {"PATHWAYS_WORKER_TOPOLOGY": "2", "PATHWAYS_WORKER_COORDINATES": "0"}
    with (
        pytest.raises(AssertionError, match=r"host a[01] is at 0 of island a, and host a[01] is there"),
        running_cluster(**places),
    ):
        pass
