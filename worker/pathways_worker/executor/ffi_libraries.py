"""Native code that an operator adds to one host: libraries of XLA FFI handlers, whose targets programs may call there.

A library lists its targets in `pathways_ffi_targets`, an array that ends with a null name:

    struct { const char* name; void* handler; int64_t infallible; }
    pathways_ffi_targets[] = {{"ours", (void*)Ours, 0}, {0, 0, 0}};

`infallible` promises that the handler never returns an error; without it, gangs of several hosts that call the target wait for
their result before the next one is launched.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pathways_worker.executor import runtime
from pathways_worker.executor.custom_calls import allowed

TABLE = "pathways_ffi_targets"
TARGETS_MAX = 1000


class LibraryRefused(Exception):
    """A library cannot be used; one sentence for the operator."""


class Target(NamedTuple):
    """One entry of a library's table."""

    name: str
    handler: int
    infallible: bool


class _Entry(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("handler", ctypes.c_void_p), ("infallible", ctypes.c_int64))


def load_libraries(paths: Sequence[str]) -> Mapping[str, bool]:
    """Loads the libraries and registers their targets; target -> whether it cannot fail. Raises LibraryRefused."""
    found: dict[str, bool] = {}
    for path in paths:
        for target in targets_of(path):
            if allowed(target.name) or target.name in found:
                raise LibraryRefused(
                    f"{path} names the target {target.name!r}, which executors have already; give it another name"
                )
            runtime.register_ffi_target(target.name, target.handler)
            found[target.name] = target.infallible
    return found


def targets_of(path: str) -> list[Target]:
    """What a library lists; it is loaded, and stays loaded. Raises LibraryRefused."""
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise LibraryRefused(f"the FFI library {path} cannot be loaded ({error}); correct ffi_libraries of this host") from error
    try:
        table = (_Entry * TARGETS_MAX).in_dll(library, TABLE)
    except ValueError:
        raise LibraryRefused(f"the FFI library {path} has no {TABLE!r}; let it list its targets there") from None
    targets = list(read_table(table))
    if not targets or not all(target.handler for target in targets):
        raise LibraryRefused(f"{TABLE!r} of the FFI library {path} names no target, or one without a handler; correct it")
    return targets


def read_table(table: ctypes.Array[_Entry]) -> Iterator[Target]:
    """The entries before the first without a name."""
    for entry in table:
        if not entry.name:
            return
        yield Target(entry.name.decode("utf-8", "replace"), entry.handler or 0, bool(entry.infallible))
