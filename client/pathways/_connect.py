"""`pw.connect`: the cluster for a notebook or a script, before the first JAX call; as a context manager it puts JAX back."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from pathways_common.model.failure import Reason

from pathways import _fusing, _jax, errors
from pathways._quiet import load_grpc

if TYPE_CHECKING:
    from pathways._door import Door
    from pathways._target import Target


class Connection:
    """An open session. `close` (or the end of the `with` block) ends it and leaves JAX as it was; its arrays are gone then."""

    def __init__(self, target: Target, door: Door) -> None:
        self.address = f"grpc://{target.controller}"
        self.session_number = door.announcement.session_number
        self.device_count = door.announcement.device_count
        # What both ends are made of, in one line, for a report of a problem.
        self.versions = door.announcement.versions
        self._door = door
        self._open = True

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return not self._open

    def close(self) -> None:
        """Waits for effects that are under way, drops JAX's clients, restores its configuration, ends the session."""
        self._close(wait=True)

    def _close(self, wait: bool) -> None:
        from pathways import _plugin

        if not self._open:
            return
        self._open = False
        _fusing.finish()
        try:
            if wait:
                _jax.clear_backends()
        finally:
            # A failed effect is reported by the line above; the clients have to go all the same.
            _jax.drop_backends()
            _plugin.deactivate()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        # With an error on its way, that one is what the user has to see.
        self._close(wait=error is None)

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"session {self.session_number}, {self.device_count} devices"
        return f"<pathways connection to {self.address}: {state}>"


class JaxAlreadyInitialisedError(errors.PathwaysError):
    """JAX had made its devices before `connect` was called."""

    REASON = Reason.INVALID_ARGUMENT


def connect(address: str | None = None, *, token: str | None = None, islands: str | Iterable[str] | None = None) -> Connection:
    """Connects this process to a cluster; JAX then shows the cluster's devices. Call it before the first JAX call.

    address: `grpc://HOST:PORT` of the controller; else PATHWAYS_ADDRESS, else the cluster that `pathways up` started here.
    token:   else PATHWAYS_TOKEN, PATHWAYS_TOKEN_FILE, or the token in the state directory.
    islands: None for one island (the least loaded; PATHWAYS_ISLANDS is honoured), "all", or names.

    Raises errors.PathwaysError, which is a RuntimeError, with one sentence that says what to do.
    """
    try:
        return _connect(address, token, islands)
    except errors.PathwaysError as error:
        # The way through our own files tells the user nothing.
        raise error.with_traceback(None) from None


def _connect(address: str | None, token: str | None, islands: str | Iterable[str] | None) -> Connection:
    load_grpc()
    from pathways import _plugin
    from pathways._door import start_door
    from pathways._target import find_target

    if _jax.initialised():
        raise JaxAlreadyInitialisedError(
            "JAX already has its devices in this process, and they cannot be exchanged under it: call pw.connect() before the "
            "first JAX call (in a notebook: restart the kernel and connect in the first cell)",
            at_start=True,
        )
    if _plugin.current_door() is not None:
        raise errors.InvalidArgumentError("this process is connected already: close that connection first", at_start=True)
    target = find_target(address, token, islands)
    door = start_door(target, _jax.jaxlib_version())
    try:
        _plugin.deactivate()  # what JAX_PLATFORMS=proxy may have prepared
        _plugin.activate(target, door)
    except BaseException:
        door.close()
        raise
    return Connection(target, door)
