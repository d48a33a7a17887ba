"""Between the cluster and devices of this process arrays pass as numbers, whether or not its jaxlib asks for moves.

The last local device stands for this process's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

_CHECKS = """
import json, sys
import jax, numpy as np
from jax._src.lib import xla_client
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding, PartitionSpec as P
from pathways import _jax, _jax_moving

moved, copied, passed, order = [], [], [], []
def transfer(arrays, shardings, donate):
    moved.extend((str(a.sharding.spec), donate) for a in arrays)
    return [jax.make_array_from_callback(a.shape, s, lambda index, a=a: np.asarray(a)[index]) for a, s in zip(arrays, shardings)]
_jax.transfer_to_shardings = transfer
_jax.jaxlib_version = lambda: sys.argv[1]
# As if the last device had a client of its own; JAX could copy there and must not be asked to.
d = jax.devices()
_jax_moving._client = lambda sharding: "local" if d[3] in sharding.device_set else "cluster"
_jax.is_ours = lambda client: client == "cluster"
copy = xla_client.batched_copy_array_to_devices_with_sharding
def copying(arrays, *more):
    copied.extend(arrays)
    return copy(arrays, *more)
xla_client.batched_copy_array_to_devices_with_sharding = copying
as_numbers = _jax_moving._as_numbers
def passing(array, *more):
    passed.append(array)
    order.append("read")
    return as_numbers(array, *more)
_jax_moving._as_numbers = passing
start_read = _jax.start_read
def starting(array):
    order.append("started")
    start_read(array)
_jax.start_read = starting
_jax_moving.move_on_the_cluster()

def on(devices, spec):
    return NamedSharding(Mesh(np.array(devices), ("x",)), spec)
local, first = SingleDeviceSharding(d[3]), SingleDeviceSharding(d[0])
columns = on(d[:2], P(None, "x"))
values = np.arange(16.0, dtype=np.float32).reshape(4, 4)
rows, copies = jax.device_put(values, on(d[:2], P("x"))), jax.device_put(values * 2, on(d[:2], P()))
one, here = jax.device_put(values * 3, d[0]), jax.device_put(values * 4, local)
found = {}
def crosses(name, sources, shardings, values, donate=False):
    moved.clear(), copied.clear(), passed.clear()
    results = jax.device_put(sources, shardings, donate=donate)
    right = [bool(np.array_equal(np.asarray(array), value)) for array, value in zip(results, values, strict=True)]
    placed = [array.sharding == sharding for array, sharding in zip(results, shardings, strict=True)]
    found[name] = [list(moved), len(copied), len(passed), right, placed]

crosses("to this process, cut", [rows], [local], [values])
crosses("to this process, copies", [copies], [local], [values * 2])
crosses("to this process, one", [one], [local], [values * 3])
crosses("from this process", [here], [first], [values * 4])
crosses("from this process, cut", [here], [columns], [values * 4])
crosses("stays on the cluster", [one], [SingleDeviceSharding(d[2])], [values * 3])
given = jax.device_put(values, on(d[:2], P("x")))
crosses("to this process, donated", [given], [local], [values], donate=True)
found["given"] = given.is_deleted()
anywhere = [local, columns, SingleDeviceSharding(d[1]), columns]
crosses("mixed", [rows, copies, one, here], anywhere, [values, values * 2, values * 3, values * 4])
order.clear()
jax.device_put([rows, one, copies, here], [local, first, local, first])
found["order"] = list(order)
keys = jax.device_put(jax.random.split(jax.random.key(5), 2), d[0])
words = np.asarray(jax.random.key_data(keys))
moved.clear(), copied.clear(), passed.clear()
taken = jax.device_put(keys, local)
crossed = [list(moved), len(copied), len(passed)]
right = bool(np.array_equal(jax.random.key_data(taken), words))
found["keys"] = [*crossed, [right], [taken.device.id == 3]]
found["asks"] = _jax.can_ask_to_move()

wide = [np.array([2**40 + 3, 7]), np.array([1 / 3, 2 / 3])]
with jax.enable_x64(True):
    there, cut, inside = (jax.device_put(wide, [lies] * 2) for lies in (first, on(d[:2], P("x")), local))
ways = ("to", there, local), ("to, cut", cut, local), ("from", inside, first), ("from, cut", inside, cut[0].sharding)
for name, sources, sharding in ways:
    results = [np.asarray(array) for array in jax.device_put(sources, [sharding] * 2)]
    found[f"wide, {name}"] = [[str(array.dtype), array.tobytes() == value.tobytes()] for array, value in zip(results, wide)]
found["narrow"] = str(jax.device_put(np.arange(2), first).dtype)
print(json.dumps(found))
"""


@pytest.fixture(scope="module", params=["0.8.3", "0.10.2"])
def found(request: pytest.FixtureRequest) -> dict[str, list[object]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "PATHWAYS_"))}
    environment |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
    command = [sys.executable, "-c", _CHECKS, request.param]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    result: dict[str, list[object]] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("name", ["to this process, cut", "to this process, copies", "to this process, one"])
def test_what_goes_to_devices_of_this_process_is_not_copied_there_by_the_cluster(
    found: dict[str, list[object]], name: str
) -> None:
    assert found[name] == [[], 0, 1, [True], [True]]


@pytest.mark.parametrize("name", ["from this process", "from this process, cut"])
def test_what_comes_from_devices_of_this_process_is_uploaded(found: dict[str, list[object]], name: str) -> None:
    assert found[name] == [[], 0, 1, [True], [True]]


def test_what_stays_on_the_cluster_is_copied_there(found: dict[str, list[object]]) -> None:
    assert found["stays on the cluster"] == [[], 1, 0, [True], [True]]


def test_a_donated_array_is_gone_behind_its_numbers(found: dict[str, list[object]]) -> None:
    assert found["to this process, donated"] == [[], 0, 1, [True], [True]]
    assert found["given"] is True


def test_keys_leave_the_cluster_like_other_arrays(found: dict[str, list[object]]) -> None:
    assert found["keys"] == [[], 0, 1, [True], [True]]


def test_of_several_arrays_each_goes_its_way_and_comes_back_in_its_place(found: dict[str, list[object]]) -> None:
    moved = [["P()", False]] if found["asks"] else []
    assert found["mixed"] == [moved, 1, 2, [True] * 4, [True] * 4]


def test_all_reads_are_started_before_the_first_is_waited_for(found: dict[str, list[object]]) -> None:
    assert found["order"] == ["started"] * 3 + ["read"] * 3


@pytest.mark.parametrize("name", ["to", "to, cut", "from", "from, cut"])
def test_arrays_made_with_64_bits_keep_them_where_these_are_off(found: dict[str, list[object]], name: str) -> None:
    assert found[f"wide, {name}"] == [["int64", True], ["float64", True]]


def test_numbers_are_cut_to_32_bits_as_ever(found: dict[str, list[object]]) -> None:
    assert found["narrow"] == "int32"
