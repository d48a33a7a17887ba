"""Every name of JAX that is not public, in one place, so that a new JAX release breaks one file.

Nothing here imports JAX before it is called.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pathways_common.model.jaxlibs import version_numbers

from pathways import errors
from pathways._timers import lazy_timers

PLATFORM = "proxy"
# compile(backend, module, devices, options, host_callbacks) -> loaded executable
Compile = Callable[[Any, Any, Any, Any, Any], Any]
# put(aval, sharding, one value per device, devices, ...) -> array
Put = Callable[..., Any]


def initialised() -> bool:
    """Whether JAX already has devices in this process; does not import it."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bool(bridge and bridge.backends_are_initialized())


def platforms() -> list[str]:
    """What JAX_PLATFORMS, or the configuration after it, names."""
    import jax

    return [name.strip() for name in (jax.config.jax_platforms or "").split(",") if name.strip()]


def backend_target() -> str:
    """JAX_BACKEND_TARGET: the address of a door that somebody else runs; empty if not set."""
    import jax

    return str(jax.config.read("jax_backend_target") or "")


def get_option(name: str) -> Any:
    """A configuration value."""
    import jax

    return getattr(jax.config, name)


def set_option(name: str, value: Any) -> None:
    """Changes a configuration value for this process."""
    import jax

    jax.config.update(name, value)


def register(make: Callable[[], Any]) -> None:
    """Makes `make` the factory of the platform; it runs when JAX is first used. Lower than any local platform unless named."""
    from jax.extend import backend

    backend.register_backend_factory(PLATFORM, make, priority=-1, fail_quietly=False)


def unregister() -> None:
    """Forgets the platform; its client must be cleared already."""
    from jax._src import xla_bridge

    xla_bridge._backend_factories.pop(PLATFORM, None)


def clear_backends() -> None:
    """Drops all clients and caches; waits for effects of this thread first, and raises what they raised."""
    from jax.extend import backend

    backend.clear_backends()


def drop_backends() -> None:
    """Drops all clients and caches without waiting for anything."""
    from jax._src import dispatch

    dispatch.runtime_tokens.clear()
    clear_backends()


def abandon_backends() -> None:
    """In a forked child: keeps JAX from taking leave of clients whose threads did not come along, which would hang or crash.

    Clients, executables and arrays stay for good: destroying one would say so to a door that is the parent's.
    """
    from jax._src import api, dispatch, xla_bridge

    atexit.unregister(api.clean_up)
    atexit.unregister(dispatch.wait_for_tokens)
    for client in xla_bridge._backends.values():
        for kept in (client, *client.live_executables(), *client.live_arrays()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))


def open_client(address: str, initialization_data: Mapping[str, str], timeout_s: int) -> Any:
    """A client of the IFRT proxy protocol at `grpc://HOST:PORT`; raises jax.errors.JaxRuntimeError."""
    from jax.extend.backend import ifrt_proxy

    options = ifrt_proxy.ClientConnectionOptions()
    options.connection_timeout_in_seconds = timeout_s
    if initialization_data:
        options.initialization_data = {name: value.encode() for name, value in initialization_data.items()}
    with lazy_timers():
        return ifrt_proxy.get_client(address, options)


def quieten() -> None:
    """Lets jaxlib speak before an abort only, for good; does nothing if the user chose a level.

    The proxy client warns of its credentials when it connects, and complains of the end of the session once per executable: at
    exit, after `clear_backends`, or whenever the last array of the session is collected. What matters to a script is raised.
    """
    from jaxlib import utils

    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":  # 1 is what JAX sets by itself
        utils.absl_set_min_log_level(3)


def is_ours(client: Any) -> bool:
    """Whether a client of JAX speaks the proxy protocol."""
    return str(getattr(client, "runtime_type", "")).startswith(PLATFORM)


def our_client() -> Any:
    """The client of the platform; makes JAX connect if it has not yet. Raises what JAX raises if there is none."""
    from jax.extend import backend

    return backend.get_backend(PLATFORM)


def all_devices(client: Any) -> list[Any]:
    """Every device of a client, also those that `jax.devices()` does not show."""
    return list(client._get_all_devices())


_forgotten = 0


def forget_programs() -> None:
    """Has JAX compile everything anew at its next use; what the user compiled ahead of time stays as it is."""
    global _forgotten
    import jax

    _forgotten += 1
    jax.clear_caches()


def times_forgotten() -> int:
    """How often programs were forgotten: what was compiled before the last time must not be used again."""
    return _forgotten


def execute_plugin_program(client: Any, text: str, arguments: Sequence[Any] = ()) -> None:
    """Compiles and executes a plugin program without results, behind what this thread dispatched before."""
    from jax.extend.ifrt_programs import ifrt_programs

    program = ifrt_programs.make_plugin_program(text)
    loaded = client.compile_ifrt_program(program, ifrt_programs.make_plugin_compile_options())
    loaded.execute_sharded(list(arguments), with_tokens=False)


def leaves(tree: Any) -> list[Any]:
    """The leaves of a tree."""
    import jax

    return list(jax.tree.leaves(tree))


def flatten(tree: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The leaves of a tree, and how to rebuild it."""
    import jax

    leaves, structure = jax.tree.flatten(tree)
    return leaves, lambda results: jax.tree.unflatten(structure, results)


def is_key(array: Any) -> bool:
    """Whether an array is of random keys, which NumPy does not know."""
    import jax

    return bool(jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key))


def start_read(array: Any) -> None:
    """Begins to read an array that NumPy will be given."""
    if not is_key(array):
        array.copy_to_host_async()


def canonical_dtype(dtype: Any) -> Any:
    """The type that an array of this one becomes."""
    import jax

    return jax.dtypes.canonicalize_dtype(dtype)


def shape_of(value: Any) -> Any:
    """Shape and type of a host array, as one that lies on devices."""
    import jax

    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def fits(value: Any, sharding: Any) -> bool:
    """Whether a sharding of a cluster of ours cuts a host array evenly, and XLA has its type; what does not JAX refuses."""
    from jax.sharding import Mesh, NamedSharding, SingleDeviceSharding

    from pathways._arrays import element_number

    if not isinstance(sharding, SingleDeviceSharding) and not (
        isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh)
    ):
        return False
    try:
        element_number(canonical_dtype(value.dtype))
        sharding.shard_shape(value.shape)
    except (KeyError, TypeError, ValueError):
        return False
    return is_ours(next(iter(sharding.device_set)).client)


def typed_error(error: Exception) -> Exception | None:
    """What the cluster said, of an error that it made; None of any other."""
    import jax

    return errors.of(error) if isinstance(error, jax.errors.JaxRuntimeError) else None


def flatten_with_prefix(tree: Any, shardings: Any) -> tuple[list[Any], list[Any], Callable[[list[Any]], Any]]:
    """Leaves, the sharding of each (`shardings` is a prefix of the tree; devices stand for themselves), and how to rebuild."""
    import jax
    from jax.sharding import Sharding, SingleDeviceSharding

    def single(value: Any) -> bool:
        return isinstance(value, (Sharding, jax.Device))

    leaves, structure = jax.tree.flatten(tree)
    spread: list[Any] = []

    def fill(sharding: Any, part: Any) -> None:
        if not single(sharding):
            raise TypeError(f"{sharding!r} is neither a sharding nor a device")
        wanted = SingleDeviceSharding(sharding) if isinstance(sharding, jax.Device) else sharding
        spread.extend([wanted] * jax.tree.structure(part).num_leaves)

    jax.tree.map(fill, shardings, tree, is_leaf=single)
    return leaves, spread, lambda results: jax.tree.unflatten(structure, results)


def is_on_cluster(value: Any) -> bool:
    """Whether a value is an array that a cluster of ours holds; a traced one is nowhere yet."""
    import jax

    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        return False
    return is_ours(next(iter(value.sharding.device_set)).client)


def lies_as(array: Any, sharding: Any) -> bool:
    """Whether an array has this sharding, or one that puts the same parts on the same devices and kind of memory."""
    same: bool = array.sharding == sharding or (
        array.sharding.is_equivalent_to(sharding, array.ndim) and array.sharding.memory_kind == sharding.memory_kind
    )
    return same


def device_put(value: Any, sharding: Any, donate: bool) -> Any:
    """JAX's own way to put a value somewhere."""
    import jax

    return jax.device_put(value, sharding, donate=donate)


def can_ask_to_move() -> bool:
    """Whether the proxy client can ask for arrays to be moved; before jaxlib 0.9 it knows no such request."""
    return version_numbers(jaxlib_version())[:2] >= (0, 9)


def transfer_to_shardings(arrays: list[Any], shardings: list[Any], donate: bool) -> list[Any]:
    """The same arrays with other shardings; raises ValueError for a shape that a sharding does not cut evenly."""
    import jax
    from jax._src.sharding_impls import physical_sharding

    if not arrays:
        return []
    if not can_ask_to_move():
        with jax.enable_x64(True):  # else JAX cuts what it fetches and uploads to 32 bits
            put = [device_put(array, sharding, donate) for array, sharding in zip(arrays, shardings, strict=True)]
        for array, sharding in zip(arrays, shardings, strict=True):
            # What went by this process JAX leaves as it was; on a device of both the result may be the same memory.
            if donate and array.sharding.device_set.isdisjoint(sharding.device_set):
                array.delete()
        return put
    from jaxlib import _pathways

    plain, physical, keys = [], [], []
    for array, sharding in zip(arrays, shardings, strict=True):
        sharding.shard_shape(array.shape)
        key = jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key)
        keys.append(jax.random.key_impl(array) if key else None)
        plain.append(jax.random.key_data(array) if key else array)
        physical.append(physical_sharding(array.aval, sharding) if key else sharding)
    moved = _pathways._transfer_to_shardings(plain, physical, donate)
    return [array if key is None else jax.random.wrap_key_data(array, impl=key) for array, key in zip(moved, keys, strict=True)]


def wrap_compile(wrapper: Callable[[Compile], Compile]) -> Callable[[], None]:
    """Replaces JAX's compile step by `wrapper(original)`; returns how to undo it."""
    from jax._src import compiler, traceback_util

    # Errors of a compilation pass through here; to the user it is a part of JAX.
    traceback_util.register_exclusion(str(Path(__file__).with_name("_callbacks.py")))
    original = compiler.backend_compile_and_load
    compiler.backend_compile_and_load = wrapper(original)

    def undo() -> None:
        compiler.backend_compile_and_load = original

    return undo


def wrap_put(wrapper: Callable[[Put], Put]) -> Callable[[], None]:
    """Replaces the step through which JAX puts arrays onto devices by `wrapper(original)`; returns how to undo it.

    A jitted call puts NumPy arguments by itself, and comes here when the client refuses one.
    """
    from jax._src.lib import xla_client

    original = xla_client.batched_device_put
    xla_client.batched_device_put = wrapper(original)

    def undo() -> None:
        xla_client.batched_device_put = original

    return undo


def wrap_profiler(wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Callable[[], None]:
    """Replaces the constructor of the sessions behind `jax.profiler` by `wrapper(original)`; returns how to undo it.

    Names that a script imported from `jax.profiler` before lead there, too, and JAX's file for Perfetto is made afterwards.
    A JAX that has its profiler elsewhere keeps it as it is.
    """
    try:
        from jax._src.lib import _profiler

        original = _profiler.ProfilerSession
    except (ImportError, AttributeError):
        return lambda: None
    _profiler.ProfilerSession = wrapper(original)

    def undo() -> None:
        _profiler.ProfilerSession = original

    return undo


def profile_start_ns(path: Path) -> int:
    """The moment that is 0 in an exported profile, by this machine's clock; raises ValueError if it is not told."""
    from jax.profiler import ProfileData

    for plane in ProfileData.from_file(str(path)).planes:
        for name, value in plane.stats:
            if name == "profile_start_time":
                return int(value)
    raise ValueError(f"{path} does not say when it begins")


def report_failed_effects_once() -> Callable[[], None]:
    """Makes JAX forget an effect that failed as soon as it has raised its error; returns how to undo it.

    Otherwise the token of an ordered effect stays failed, and with it every later ordered effect of the thread.
    """
    from jax._src import core, dispatch
    from jax._src.interpreters import pxla

    wait, put = dispatch.RuntimeTokenSet.block_until_ready, pxla.shard_arg_handlers[core.Token]

    def block_until_ready(tokens: Any) -> None:
        try:
            wait(tokens)
        except Exception:
            for token in (*tokens.current_tokens.values(), *tokens.output_runtime_tokens.values()):
                with suppress(Exception):  # the first error is on its way
                    token.block_until_ready()
            tokens.clear()
            raise

    def shard_token(values: Any, *others: Any) -> Any:
        try:
            return put(values, *others)
        except Exception:
            current = dispatch.runtime_tokens.current_tokens
            for effect in [effect for effect, token in current.items() if any(token is value for value in values)]:
                del current[effect]
            raise

    def undo() -> None:
        dispatch.RuntimeTokenSet.block_until_ready = wait
        pxla.shard_arg_handlers[core.Token] = put

    dispatch.RuntimeTokenSet.block_until_ready = block_until_ready
    pxla.shard_arg_handlers[core.Token] = shard_token
    return undo


def analyse_costs_locally() -> Callable[[], None]:
    """Lets JAX's local CPU client count what a lowered program costs, which the proxy client refuses; returns how to undo it.

    The count is made from the text of the program, before anything is compiled.
    """
    from jax._src import xla_bridge
    from jax._src.lib import _jax

    original = _jax.hlo_module_cost_analysis

    def hlo_module_cost_analysis(client: Any, module: Any) -> Any:
        return original(xla_bridge.get_backend("cpu") if is_ours(client) else client, module)

    def undo() -> None:
        _jax.hlo_module_cost_analysis = original

    _jax.hlo_module_cost_analysis = hlo_module_cost_analysis
    return undo


def jaxlib_version() -> str:
    """The version of the installed jaxlib."""
    import jaxlib

    return str(jaxlib.__version__)


def user_line(error: BaseException) -> tuple[str, int, str] | None:
    """File, line and function of the innermost frame that is neither JAX's nor ours."""
    import jax

    ours = (str(Path(jax.__file__).parent), str(Path(__file__).parent))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(ours):
            return frame.filename, frame.lineno or 0, frame.name
    return None
