"""Every name of JAX that is not public, in one place, so that a new JAX release breaks one file.

Nothing here imports JAX before it is called.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

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
