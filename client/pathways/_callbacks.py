"""Host callbacks under stock JAX: the callables stay in this process, the program carries their ids.

The proxy client refuses the callables that JAX passes to its compile step, so the step is wrapped: it keeps them under ids that
are unique in this process, writes the ids into the compile options, where the door finds and removes them, and passes none.
A callable is kept while JAX keeps its executable, and a while longer for executions still under way.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from pathways_common.model.bounds import LIST_ITEMS_MAX

from pathways import _jax, errors
from pathways._callback_stream import CallbackStream

OPTION = "pathways_host_callbacks"
# Executions in flight are bounded by the client's own stream (about 32,000 calls); programs among them are far fewer.
RETIRED_MAX = 4096

_ids = itertools.count(1)


class _Life:
    """Hung onto a callable that JAX holds; dies with it."""

    __slots__ = ("__weakref__",)


class CallbackTable:
    """Callables by id. Registering and looking up may happen on any thread."""

    def __init__(self, retired_max: int = RETIRED_MAX) -> None:
        self._lock = threading.Lock()
        self._live: dict[int, Callable[..., Any]] = {}
        self._retired: OrderedDict[int, Callable[..., Any]] = OrderedDict()
        self._retired_max = retired_max
        # Finalisers run inside the garbage collector, possibly while this very thread holds the lock: they only append here.
        self._dead: deque[int] = deque()

    def add(self, callables: Sequence[Callable[..., Any]]) -> list[int]:
        """Keeps the callables; returns one id for each, in order."""
        with self._lock:
            self._sweep()
            if len(self._live) + len(callables) > LIST_ITEMS_MAX:
                raise errors.ResourceExhaustedError(
                    f"this process holds {len(self._live)} host callbacks already, which is the limit; jit fewer functions"
                )
            return [self._add(function) for function in callables]

    def _add(self, function: Callable[..., Any]) -> int:
        identifier = next(_ids)
        if isinstance(function, FunctionType):
            # What is kept is a twin with the same closure, so that the original can die with the executable that holds it.
            life = _Life()
            function.__dict__.setdefault("_pathways_lives", []).append(life)
            weakref.finalize(life, self._dead.append, identifier).atexit = False
            self._live[identifier] = _twin(function)
        else:
            self._live[identifier] = function
        return identifier

    def discard(self, identifiers: Sequence[int]) -> None:
        """Forgets callables at once: their program was never made."""
        with self._lock:
            for identifier in identifiers:
                self._live.pop(identifier, None)

    def find(self, identifier: int) -> Callable[..., Any] | None:
        """The callable, also of an executable that is gone, as long as it is remembered."""
        with self._lock:
            return self._live.get(identifier) or self._retired.get(identifier)

    def __len__(self) -> int:
        with self._lock:
            self._sweep()
            return len(self._live)

    def _sweep(self) -> None:
        while self._dead:
            identifier = self._dead.popleft()
            function = self._live.pop(identifier, None)
            if function is not None:
                self._retired[identifier] = function
        while len(self._retired) > self._retired_max:
            self._retired.popitem(last=False)


def _twin(function: FunctionType) -> FunctionType:
    twin = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    twin.__kwdefaults__ = function.__kwdefaults__
    return twin


class CallbackHost:
    """The callbacks of one session: the table, and from the first callback on the stream that serves it."""

    def __init__(self, door_address: str, secret: str) -> None:
        self.table = CallbackTable()
        self._lock = threading.Lock()
        self._door_address = door_address
        self._secret = secret
        self._stream: CallbackStream | None = None

    def add(self, callables: Sequence[Callable[..., Any]]) -> list[int]:
        """Keeps the callables and makes sure that they are served."""
        with self._lock:
            if self._stream is None or self._stream.broken:
                self._stream = CallbackStream(self._door_address, self._secret, self.table.find)
        return self.table.add(callables)

    def close(self) -> None:
        """Serves no more."""
        with self._lock:
            if self._stream is not None:
                self._stream.close()


def compile_with_callbacks(original: _jax.Compile, host: Callable[[], CallbackHost]) -> _jax.Compile:
    """JAX's compile step, with host callbacks for clients of ours; every other client gets the original step."""

    def backend_compile_and_load(backend: Any, module: Any, executable_devices: Any, options: Any, host_callbacks: Any) -> Any:
        if not host_callbacks or not _jax.is_ours(backend):
            return original(backend, module, executable_devices, options, host_callbacks)
        table = host()
        identifiers = table.add(host_callbacks)
        before = list(options.env_option_overrides)
        options.env_option_overrides = [*before, (OPTION, ",".join(map(str, identifiers)))]
        try:
            return original(backend, module, executable_devices, options, ())
        except BaseException:
            table.table.discard(identifiers)
            raise
        finally:
            options.env_option_overrides = before

    return backend_compile_and_load
