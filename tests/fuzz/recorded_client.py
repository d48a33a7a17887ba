"""What the recording records: a stock JAX client that uses much of JAX a little. Values mean nothing here, nothing is checked."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

import jax
import numpy as np
from jax._src import xla_bridge
from jax.extend.backend import ifrt_proxy, register_backend_factory
from jax.extend.ifrt_programs import ifrt_programs
from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P


def _make() -> object:
    options = ifrt_proxy.ClientConnectionOptions()
    options.connection_timeout_in_seconds = 20
    options.initialization_data = {"pathways_door_secret": os.environ["DOOR_SECRET"].encode()}
    return ifrt_proxy.get_client(jax.config.read("jax_backend_target"), options)


def _rows() -> NamedSharding:
    return NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))


def computes() -> None:
    add = jax.jit(lambda x, y: (x + y, x * 2))
    x = jax.device_put(np.arange(4, dtype=np.float32))
    for _ in range(3):
        x, _ = add(x, x)
    np.asarray(x)
    jax.block_until_ready([x])


def computes_sharded() -> None:
    x = jax.device_put(np.arange(8, dtype=np.float32), _rows())
    total = jax.jit(lambda a: a.sum(), in_shardings=_rows())
    np.asarray(total(x))
    np.asarray(x)


def donates() -> None:
    x = jax.device_put(np.arange(8, dtype=np.int32), _rows())
    y = jax.jit(lambda a: a + 1, donate_argnums=0)(x)
    y.delete()


def rearranges() -> None:
    parts = [jax.device_put(np.full((2,), float(i)), device) for i, device in enumerate(jax.devices())]
    whole = jax.make_array_from_single_device_arrays((4,), _rows(), parts)
    turned = NamedSharding(Mesh(np.array(jax.devices()[::-1]), ("x",)), P("x"))
    jax.device_put(whole, turned)
    jax.device_put(parts[0], jax.devices()[1])
    jax.device_put(parts[0], SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host"))
    np.asarray(jax.device_put(np.arange(24, dtype=np.int32).reshape(4, 6)[:, 1:3]))


def uploads_much() -> None:
    np.asarray(jax.device_put(np.zeros((200, 200), np.float32), jax.devices()[1]))


def inspects() -> None:
    compiled = jax.jit(lambda a: a @ a).lower(jax.ShapeDtypeStruct((3, 3), np.float32)).compile()
    compiled.as_text()
    compiled.cost_analysis()


def marks_a_place() -> None:
    client = jax.devices()[0].client
    program = ifrt_programs.make_plugin_program("pathways-fence 7")
    client.compile_ifrt_program(program, ifrt_programs.make_plugin_compile_options()).execute_sharded([], with_tokens=False)


DEEDS: list[Callable[[], None]] = [computes, computes_sharded, donates, rearranges, uploads_much, inspects, marks_a_place]


def _main() -> None:
    xla_bridge.discover_pjrt_plugins = lambda: None  # stock JAX: no plugin of anybody
    register_backend_factory("proxy", _make, priority=-1)
    for deed in DEEDS:
        try:
            deed()
        except Exception:
            traceback.print_exc()


if __name__ == "__main__":
    _main()
