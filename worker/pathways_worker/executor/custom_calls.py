"""A program may call only what this list names: a custom call runs native code inside the executor.

Targets that XLA expands by itself or that only carry a mark cannot fail. Library calls (LAPACK) can fail on one member alone
and make a program fallible. Callbacks are our own stand-ins: allowed only with an index that a callback of this load has, because
XLA looks an unknown index up in memory that is not there (SIGSEGV).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pathways_common.model.failure import Reason

from pathways_worker.executor.failures import refuse

CALLBACK_TARGETS = frozenset({"xla_ffi_python_cpu_callback", "xla_ffi_partitioned_python_cpu_callback"})

# Marks, and operations that XLA expands into ordinary ones before code generation.
_INFALLIBLE = frozenset(
    {
        "AllocateBuffer",
        "ApproxTopK",
        "LayoutConstraint",
        "MoveToDevice",
        "MoveToHost",
        "PadToStatic",
        "PartialReduce",
        "SPMDFullToShardShape",
        "SPMDShardToFullShape",
        "SetBound",
        "Sharding",
        "TopK",
        "X64Combine",
        "X64SplitHigh",
        "X64SplitLow",
        "annotate_device_placement",
        "dce_sink",
        "shape_assertion",
    }
)
_INFALLIBLE_PREFIXES = ("xla.sdy.", "stablehlo.", "mhlo.", "chlo.")

# Native libraries that jaxlib registers for CPU, and decompositions that XLA has an expander for on every platform.
_FALLIBLE = frozenset(
    {
        "Cholesky",
        "Eigh",
        "LuDecomposition",
        "ProductOfElementaryHouseholderReflectors",
        "Qr",
        "cpu_csr_sparse_dense_ffi",
        "ducc_fft",
        "dynamic_ducc_fft",
        "tridiagonal_solve_perturbed_ffi",
    }
)
_LAPACK_ROUTINES = [
    "trsm",
    "getrf",
    "geqrf",
    "geqp3",
    "orgqr",
    "ungqr",
    "ormqr",
    "unmqr",
    "potrf",
    "gesdd",
    "gesvd",
    "syevd",
    "heevd",
    "geev",
    "sytrd",
    "hetrd",
    "gees",
    "gehrd",
    "gtsv",
]
_NONE: Mapping[str, bool] = MappingProxyType({})
_LAPACK = frozenset(f"lapack_{kind}{routine}_ffi" for kind in "sdcz" for routine in _LAPACK_ROUTINES)


@dataclass(frozen=True, slots=True)
class CustomCall:
    """One custom call of a module. `callback_index` is None when the attribute is missing or ambiguous."""

    target: str
    callback_index: int | None = None


def infallible(target: str) -> bool:
    """Whether this call cannot fail on one member alone."""
    return target in _INFALLIBLE or target in CALLBACK_TARGETS or target.startswith(_INFALLIBLE_PREFIXES)


def allowed(target: str) -> bool:
    """Whether a program may name this target."""
    return infallible(target) or target in _FALLIBLE or target in _LAPACK


def check_custom_calls(calls: Sequence[CustomCall], callback_count: int, of_this_host: Mapping[str, bool] = _NONE) -> bool:
    """Refuses a module that calls anything off the list; returns whether it is fallible.

    `of_this_host`: targets that this host has beside the list, and whether they are infallible.
    """
    for call in calls:
        if not allowed(call.target) and call.target not in of_this_host:
            raise refuse(
                Reason.PROGRAM_REFUSED,
                f"the program calls {call.target!r}, which executors do not allow; remove it",
                target=call.target,
            )
        if call.target not in CALLBACK_TARGETS:
            continue
        if call.callback_index is None or not 0 <= call.callback_index < callback_count:
            raise refuse(
                Reason.PROGRAM_REFUSED,
                f"the program calls host callback {call.callback_index}, but it came with {callback_count};"
                " connect with pathways.connect() or `pathways run`, which carry callbacks",
                callback=call.callback_index,
                count=callback_count,
            )
    return any(not infallible(call.target) and not of_this_host.get(call.target) for call in calls)
