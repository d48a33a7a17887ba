"""Array specs and executable facts as the cores see them: shardings and layouts are opaque bytes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pathways_common.model.agreement import FieldDigest

TOKEN = 17
# Bytes per element by xla.PrimitiveType number; sub-byte types travel one byte per element; TOKEN (17) has none.
ITEM_BYTES = {
    1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 2, 8: 4, 9: 8, 10: 2, 11: 4, 12: 8, 15: 8, 16: 2, 17: 0, 18: 16,
    19: 1, 20: 1, 21: 1, 22: 1, 23: 1, 24: 1, 25: 1, 26: 1, 27: 1, 28: 1, 29: 1, 30: 1, 31: 1, 32: 1, 33: 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """Type, global shape (elements), shard shape (elements) and placement of one array.

    `sharding` is a serialized xla.OpSharding over positions in `devices`; empty means replicated.
    """

    dtype: int
    shape: tuple[int, ...]
    sharding: bytes
    shard_shape: tuple[int, ...]
    devices: tuple[int, ...]
    memory_kind: str = ""

    @property
    def shard_bytes(self) -> int:
        """Bytes of one shard; 0 for tokens and types without a fixed size."""
        return prod(self.shard_shape) * ITEM_BYTES.get(self.dtype, 0)


@dataclass(frozen=True, slots=True)
class ExecutableFacts:
    """What the controller needs to know of a compiled program; `payload` is the ExecutableInfo message, untouched.

    `parameter_count` is -1 where it is not known. Per device: `peak_bytes` are arguments, results and temporary bytes together,
    `alias_bytes` those of its results that take the place of donated arguments.
    """

    digest: bytes
    output_count: int
    output_shard_bytes: tuple[int, ...]
    donated: frozenset[int]
    fallible: bool
    peak_bytes: int
    payload: bytes
    parameter_count: int = -1
    temporary_bytes: int = 0
    alias_bytes: int = 0
    # What people call it.
    name: str = ""
    # What the digest is made of, by name.
    fields: tuple[FieldDigest, ...] = ()
    # What one shard of each result is, with no devices named; empty where it is not known.
    outputs: tuple[ArraySpec, ...] = ()
    # Colocated Python: nobody knows how long a call takes.
    python: bool = False
    # Python that holds nothing between its calls, as requests for storage do.
    stateless: bool = False

    @property
    def holds_state(self) -> bool:
        """Whether a process of the hosts may hold what only it knows."""
        return self.python and not self.stateless
