"""Every name of JAX that is not public, in one place, so that a new JAX release breaks one file.

Nothing here imports JAX before it is called.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

PLATFORM = "proxy"
# compile(backend, module, devices, options, host_callbacks) -> loaded executable
Compile = Callable[[Any, Any, Any, Any, Any], Any]


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


def open_client(address: str, initialization_data: Mapping[str, str], timeout_s: int) -> Any:
    """A client of the IFRT proxy protocol at `grpc://HOST:PORT`; raises jax.errors.JaxRuntimeError."""
    from jax.extend.backend import ifrt_proxy

    options = ifrt_proxy.ClientConnectionOptions()
    options.connection_timeout_in_seconds = timeout_s
    if initialization_data:
        options.initialization_data = {name: value.encode() for name, value in initialization_data.items()}
    return ifrt_proxy.get_client(address, options)


def quieten() -> None:
    """Lets jaxlib speak of errors only, for good; does nothing if the user chose a level.

    The proxy client warns of its credentials when it connects, and with a stack trace of the end of the session, which may come
    late: when the last array of the session is collected.
    """
    from jaxlib import utils

    if os.environ.get("TF_CPP_MIN_LOG_LEVEL", "1") == "1":  # 1 is what JAX sets by itself
        utils.absl_set_min_log_level(2)


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
