"""Arrays of a cluster that have to be cut anew go to the mover, all others to JAX; local devices stand for the cluster's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

_CHECKS = """
import json, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding, PartitionSpec as P
from pathways import _jax, _jax_moving

moved = []
def transfer(arrays, shardings, donate):
    moved.extend((str(a.sharding.spec), donate) for a in arrays)
    return [jax.make_array_from_callback(a.shape, s, lambda index, a=a: np.asarray(a)[index]) for a, s in zip(arrays, shardings)]
real_transfer, _jax.transfer_to_shardings = _jax.transfer_to_shardings, transfer
ours = [True]
_jax.is_ours = lambda client: ours[0]
undo = _jax_moving.move_on_the_cluster()

d = jax.devices()
def on(devices, spec):
    return NamedSharding(Mesh(np.array(devices), ("x",)), spec)
values = np.arange(16.0, dtype=np.float32).reshape(4, 4)
rows, copies = jax.device_put(values, on(d[:2], P("x"))), jax.device_put(values, on(d[:2], P()))
one = jax.device_put(values, d[0])
found = {}
def seen(name, work):
    moved.clear()
    result = work()
    found[name] = [list(moved), bool(np.array_equal(np.asarray(result), values))]

columns = on(d[:2], P(None, "x"))
seen("cut anew", lambda: jax.device_put(rows, columns))
seen("other devices", lambda: jax.device_put(rows, on(d[2:], P(None, "x"))))
seen("fewer devices", lambda: jax.device_put(rows, SingleDeviceSharding(d[3])))
seen("donated", lambda: jax.device_put(jax.device_put(values, on(d[:2], P("x"))), columns, donate=True))
seen("another order", lambda: jax.device_put(rows, on(d[1::-1], P("x"))))
seen("cut already", lambda: jax.device_put(copies, d[3]))
seen("same parts", lambda: jax.device_put(rows, on(d[2:], P("x"))))
seen("one device", lambda: jax.device_put(one, columns))
seen("numbers", lambda: jax.device_put(values, columns))
moved.clear()
both = jax.device_put([one, rows, copies], [columns] * 3)
found["in order"] = [list(moved), [bool(np.array_equal(np.asarray(array), values)) for array in both]]
ours[0] = False
seen("local", lambda: jax.device_put(rows, columns))
ours[0] = True
undo()
seen("undone", lambda: jax.device_put(jax.device_put(values, on(d[:2], P("x"))), columns))
_jax.jaxlib_version = lambda: "0.8.3"
_jax_moving.move_on_the_cluster()
seen("older jaxlib", lambda: jax.device_put(jax.device_put(values, on(d[:2], P("x"))), columns))
for name, source, wanted in (
    ("replicated to one of its devices", on(d[:2], P()), SingleDeviceSharding(d[0])),
    ("replicated to the other", on(d[:2], P()), SingleDeviceSharding(d[1])),
    ("one to replicated", SingleDeviceSharding(d[0]), on(d[:2], P())),
    ("rows to columns", on(d[:2], P("x")), columns),
    ("elsewhere", on(d[:2], P("x")), SingleDeviceSharding(d[3])),
):
    given = jax.jit(lambda x: x + 1)(jax.device_put(values - 1, source))
    (result,) = real_transfer([given], [wanted], True)
    found[f"0.8, {name}"] = [bool(np.array_equal(np.asarray(result), values)), given.is_deleted()]
wide = np.array([[2**40 + 3, 7], [5, -1]])
with jax.enable_x64(True):
    given = jax.device_put(wide, on(d[:2], P("x")))
for name, sharding in (("columns", columns), ("one", SingleDeviceSharding(d[3]))):
    result = np.asarray(real_transfer([given], [sharding], False)[0])
    found[f"0.8, wide to {name}"] = [str(result.dtype), result.tobytes() == wide.tobytes()]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found() -> dict[str, list[object]]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "PATHWAYS_"))}
    environment |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "4"}
    done = subprocess.run(
        [sys.executable, "-c", _CHECKS], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, list[object]] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize("name", ["cut anew", "other devices", "fewer devices", "another order"])
def test_what_has_to_be_cut_anew_goes_to_the_mover(found: dict[str, list[object]], name: str) -> None:
    assert found[name] == [[["P('x',)", False]], True]


def test_a_donated_array_is_donated_to_the_mover(found: dict[str, list[object]]) -> None:
    assert found["donated"] == [[["P('x',)", True]], True]


@pytest.mark.parametrize("name", ["cut already", "same parts", "one device", "numbers", "local", "undone", "older jaxlib"])
def test_all_else_is_left_to_jax(found: dict[str, list[object]], name: str) -> None:
    assert found[name] == [[], True]


def test_of_several_arrays_each_goes_its_way_and_comes_back_in_its_place(found: dict[str, list[object]]) -> None:
    assert found["in order"] == [[["P('x',)", False], ["P()", False]], [True, True, True]]


@pytest.mark.parametrize(
    "name", ["replicated to one of its devices", "replicated to the other", "one to replicated", "rows to columns"]
)
def test_a_client_that_cannot_ask_for_moves_keeps_a_donated_array_whose_memory_the_result_may_be(
    found: dict[str, list[object]], name: str
) -> None:
    assert found[f"0.8, {name}"] == [True, False]


def test_a_client_that_cannot_ask_for_moves_ends_a_donated_array_that_lies_elsewhere(found: dict[str, list[object]]) -> None:
    assert found["0.8, elsewhere"] == [True, True]


@pytest.mark.parametrize("name", ["columns", "one"])
def test_a_client_that_cannot_ask_for_moves_keeps_64_bits_where_these_are_off(found: dict[str, list[object]], name: str) -> None:
    assert found[f"0.8, wide to {name}"] == ["int64", True]
