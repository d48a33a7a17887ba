"""`pw.reshard`: arrays in other layouts, on other devices, hosts and islands; the bytes never pass the client.

With jaxlib 0.8, whose client cannot ask for it, they do: it is a `device_put` then, and a donated array ends only if it shares
no device with its result. A leaf that already has its sharding is returned as it is. Values that are no arrays of the cluster yet
are uploaded.
"""

from __future__ import annotations

from typing import Any

from pathways import _jax


def reshard(tree: Any, shardings: Any, donate: bool = False) -> Any:
    """The arrays of `tree` with the given shardings: one for all, or a tree (or a prefix of one) of shardings or devices.

    With `donate`, arrays that move end: their memory is given back as soon as they were read.
    """
    leaves, wanted, rebuild = _jax.flatten_with_prefix(tree, shardings)
    results: list[Any] = [None] * len(leaves)
    moving: list[int] = []
    for position, (leaf, sharding) in enumerate(zip(leaves, wanted, strict=True)):
        if not _jax.is_on_cluster(leaf):
            results[position] = _jax.device_put(leaf, sharding, donate)
        elif _jax.lies_as(leaf, sharding):
            results[position] = leaf
        else:
            moving.append(position)
    moved = _jax.transfer_to_shardings([leaves[at] for at in moving], [wanted[at] for at in moving], donate)
    for position, array in zip(moving, moved, strict=True):
        results[position] = array
    return rebuild(results)
