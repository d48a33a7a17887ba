"""The `jax_plugins` entry point: gives JAX the platform `proxy`, and acts only when asked for it.

JAX calls `initialize` once, before it makes its first client. If JAX_PLATFORMS names `proxy`, a factory is registered; the
factory starts a door and connects to it when JAX wants the client. `activate` and `deactivate` are what `pw.connect` uses.
One session at a time: making a new client ends the door of the old one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from pathways_common.model.jaxlibs import unserved_client

from pathways import _jax, errors
from pathways._jax_moving import move_on_the_cluster
from pathways._profiling import with_cluster
from pathways._quiet import load_grpc
from pathways._strides import put_with_copies

if TYPE_CHECKING:
    from pathways._bulk import Bulk
    from pathways._callbacks import CallbackHost
    from pathways._door import Door
    from pathways._slice_calls import SliceCalls
    from pathways._target import Target

_CREDENTIALS = "IFRT_PROXY_USE_INSECURE_GRPC_CREDENTIALS"
_CONNECT_TIMEOUT_S = 20


@dataclass(slots=True)
class _Active:
    """What to undo, and what is running."""

    target: Target | None
    options_before: dict[str, Any] = field(default_factory=dict)
    credentials_before: str | None = None
    undo: list[Callable[[], None]] = field(default_factory=list)
    door: Door | None = None
    callbacks: CallbackHost | None = None
    slices: SliceCalls | None = None
    bulk: Bulk | None = None
    # The client of JAX, and what was traced and compiled for it.
    programs: tuple[Any, Any] | None = None


_active: _Active | None = None


def initialize() -> None:
    """Called by JAX for every installed plugin, in every program: does nothing unless JAX_PLATFORMS names `proxy`."""
    if _active is not None:
        _jax.register(_make_client)  # `pathwaysutils.initialize()`, called behind `connect`, put its own in the place of it
    elif _jax.PLATFORM in _jax.platforms():
        activate(None)


def activate(target: Target | None, door: Door | None = None) -> None:
    """Makes JAX use the cluster from its first call on. `target` None: look around when JAX asks for the client.

    `door` is one that already runs and serves the first client. A jaxlib that is not served is refused when JAX asks for the
    client; with a door at once, by errors.VersionMismatchError.
    """
    global _active
    if unserved := unserved_client(_jax.jaxlib_version()):
        if door is not None:
            _refuse(unserved)
        _jax.register(partial(_refuse, unserved))  # before anything that this JAX may not have
        return
    load_grpc()
    active = _Active(target, credentials_before=os.environ.get(_CREDENTIALS), door=door)
    # The stock client would otherwise want Google's own credentials. The door listens on loopback and wants a secret.
    os.environ[_CREDENTIALS] = "true"
    names = _jax.platforms()
    # Callbacks put their operands on a local CPU device, so there has to be one.
    wanted = [_jax.PLATFORM, *(name for name in names if name != _jax.PLATFORM)] if door is not None else names
    _set(active, "jax_platforms", ",".join(wanted if "cpu" in wanted else [*wanted, "cpu"]))
    # Executables of the cluster cannot be serialised here; without this every compilation warns.
    _set(active, "jax_enable_compilation_cache", False)
    _jax.register(_make_client)
    active.undo = [
        _install_callbacks(),
        _jax.wrap_put(put_with_copies),
        move_on_the_cluster(),
        _jax.report_failed_effects_once(),
        _jax.analyse_costs_locally(),
        _jax.wrap_profiler(with_cluster(_profiled)),
    ]
    _jax.quieten()
    _active = active


def deactivate() -> None:
    """Leaves JAX as it was before `activate`; JAX's clients must be cleared already."""
    global _active
    active, _active = _active, None
    if active is None:
        return
    for undo in active.undo:
        undo()
    _jax.unregister()
    for name, value in active.options_before.items():
        _jax.set_option(name, value)
    if active.credentials_before is None:
        os.environ.pop(_CREDENTIALS, None)
    else:
        os.environ[_CREDENTIALS] = active.credentials_before
    _end(active)


def is_active() -> bool:
    """Whether JAX is, or will be, connected to a cluster in this process."""
    return _active is not None


def current_door() -> Door | None:
    """The door of the running session."""
    return _active.door if _active else None


def callback_host() -> CallbackHost:
    """Where this session's callbacks run. Raises errors.UnsupportedError if the door is somebody else's."""
    if _active is None or _active.callbacks is None:
        raise errors.UnsupportedError(
            "host callbacks (jax.debug.print, pure_callback, io_callback) need a door beside this process: "
            "unset JAX_BACKEND_TARGET and give the controller's address in PATHWAYS_ADDRESS"
        )
    return _active.callbacks


def slice_calls() -> SliceCalls:
    """The way to this session's slices; connects first if need be. Raises errors.PathwaysError if no door of ours serves JAX."""
    from pathways_common.model.failure import PathwaysError

    if _active is None:
        initialize()
    if unserved := unserved_client(_jax.jaxlib_version()):
        _refuse(unserved)
    if _active is None:
        raise errors.UnavailableError(
            "virtual slices are cut from a cluster, and this process is not connected to one: "
            "call pw.connect() before the first JAX call, or start the script with `pathways run`"
        )
    try:
        _jax.our_client()
    except RuntimeError as error:
        if isinstance(error, PathwaysError):
            raise
        raise errors.of(error) from error
    if _active.slices is None:
        raise errors.UnsupportedError(
            "virtual slices need a door beside this process: "
            "unset JAX_BACKEND_TARGET and give the controller's address in PATHWAYS_ADDRESS"
        )
    return _active.slices


def bulk() -> Bulk | None:
    """How this session moves large arrays; None if there is no door beside this process, or no shared memory."""
    return _active.bulk if _active is not None else None


def kept_for_programs(client: Any) -> Any:
    """What was kept for the programs of this session, or None."""
    kept = _active.programs if _active is not None else None
    return kept[1] if kept is not None and kept[0] is client else None


def keep_for_programs(client: Any, value: Any) -> None:
    """Keeps something for the programs of this session, until the session ends."""
    if _active is not None:
        _active.programs = client, value


def _profiled() -> tuple[Target, int] | None:
    """Where the session that a profile is made of is known, and its number; None if the door is somebody else's."""
    from pathways._target import find_target

    if _active is None or _active.door is None:
        return None
    return _active.target or find_target(), _active.door.announcement.session_number


def _set(active: _Active, name: str, value: Any) -> None:
    before = _jax.get_option(name)
    if before != value:
        active.options_before[name] = before
        _jax.set_option(name, value)


def _refuse(sentence: str) -> Any:
    raise errors.VersionMismatchError(sentence, at_start=True)


def _make_client() -> Any:
    """JAX's backend factory. What it raises is shown by JAX behind "Unable to initialize backend 'proxy'"."""
    assert _active is not None, "the factory is unregistered when the plugin is"
    far = _jax.backend_target()
    if far:
        return _connect_far(far)
    from pathways._callbacks import CallbackHost
    from pathways._slice_calls import SliceCalls

    door = _active.door
    if door is None or _active.callbacks is not None:  # none yet, or it served an earlier client of this process
        _end(_active)
        door = _active.door = _start(_active.target)
    _active.callbacks = CallbackHost(door.announcement.address, door.secret)
    _active.slices = SliceCalls(door.announcement.address, door.secret)
    if door.announcement.bulk_socket:
        from pathways._bulk import Bulk

        _active.bulk = Bulk(door.announcement.bulk_socket, door.secret)
    address = f"grpc://{door.announcement.address}"
    try:
        return _jax.open_client(address, {"pathways_door_secret": door.secret}, _CONNECT_TIMEOUT_S)
    except Exception as error:
        found = errors.of(error)
        found.at_start = True
        raise found from error


def _connect_far(address: str) -> Any:
    if address.partition("://")[0] != "grpc":
        raise errors.InvalidArgumentError(
            f"JAX_BACKEND_TARGET is {address!r}, which is no address; write grpc://HOST:PORT, or unset it", at_start=True
        )
    try:
        return _jax.open_client(address, {}, _CONNECT_TIMEOUT_S)
    except Exception as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise errors.UnavailableError(
            f"no door answered at {address} within {_CONNECT_TIMEOUT_S} s ({first_line}); check JAX_BACKEND_TARGET, "
            "or unset it and give the controller's address in PATHWAYS_ADDRESS",
            at_start=True,
        ) from error


def _start(target: Target | None) -> Door:
    from pathways._door import start_door
    from pathways._target import find_target

    return start_door(target or find_target(), _jax.jaxlib_version())


def _install_callbacks() -> Callable[[], None]:
    from pathways._callbacks import compile_with_callbacks

    return _jax.wrap_compile(lambda original: compile_with_callbacks(original, callback_host))


def _end(active: _Active) -> None:
    callbacks, active.callbacks = active.callbacks, None
    slices, active.slices = active.slices, None
    bulk, active.bulk = active.bulk, None
    active.programs = None
    door, active.door = active.door, None
    if slices is not None:
        slices.close()
    if bulk is not None:
        bulk.close()
    if callbacks is not None:
        callbacks.close()
    if door is not None:
        door.close()


def _abandon_in_child() -> None:
    if _active is not None and _jax.initialised():
        _jax.abandon_backends()


os.register_at_fork(after_in_child=_abandon_in_child)
