"""Arrays of a cluster that have to be cut anew go by the cluster's mover; JAX by itself would fetch and upload them.

It is the one step behind `device_put` and behind calls whose arguments lie otherwise than the program wants them. Where the parts
that are wanted exist already JAX copies them on the cluster, or uses them again; that stays JAX's, as does all that is local. The
same devices in another order go by the mover, too: JAX would compile a program for that. Between the cluster and devices of this
process nothing can be copied, so what goes there or comes from there passes as numbers, also with a jaxlib that cannot ask for
moves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pathways import _jax


def move_on_the_cluster() -> Callable[[], None]:
    """Replaces JAX's step for arrays among the values that shardings want, and for another order; returns how to undo it."""
    from jax._src import array as jax_array
    from jax._src import dispatch, util
    from jax._src.interpreters import pxla

    asks = _jax.can_ask_to_move()  # else JAX fetches and uploads
    # Cleared with JAX's other caches, since shardings hold on to a client.
    has_parts = util.cache(max_size=4096, trace_context_in_key=False)(_has_parts)
    original = pxla.shard_arg_handlers[jax_array.ArrayImpl]
    in_order = dispatch._different_device_order_reshard

    def shard_arg(values: Sequence[Any], shardings: Sequence[Any], layouts: Sequence[Any], semantics: Sequence[Any]) -> Any:
        crossing = [at for at, (value, sharding) in enumerate(zip(values, shardings, strict=True)) if _crosses(value, sharding)]
        moving = [
            position
            for position, (value, sharding, layout) in enumerate(zip(values, shardings, layouts, strict=True))
            if asks and _moves(value, sharding, layout) and not has_parts(value.sharding, sharding, value.shape)
        ]
        if not moving and not crossing:
            return original(values, shardings, layouts, semantics)
        for at in crossing:
            _jax.start_read(values[at])
        results: list[Any] = [None] * len(values)
        # Also without any that stay: JAX counts how often it comes here.
        stay = sorted(set(range(len(values))) - set(moving) - set(crossing))
        taken = ([given[position] for position in stay] for given in (values, shardings, layouts, semantics))
        for position, result in zip(stay, original(*taken), strict=True):
            results[position] = result
        for at in crossing:
            results[at] = _as_numbers(values[at], shardings[at], layouts[at], semantics[at])
        for donate in (False, True):
            chosen = [position for position in moving if _donates(semantics[position]) is donate]
            arrays = [values[position] for position in chosen]
            moved = _jax.transfer_to_shardings(arrays, [shardings[position] for position in chosen], donate)
            for position, result in zip(chosen, moved, strict=True):
                results[position] = result
        return results

    def reorder(array: Any, sharding: Any, semantics: Any) -> Any:
        if not _moves(array, sharding, None):
            return in_order(array, sharding, semantics)
        return _jax.transfer_to_shardings([array], [sharding], _donates(semantics))[0]

    def undo() -> None:
        pxla.shard_arg_handlers[jax_array.ArrayImpl] = original
        dispatch._different_device_order_reshard = in_order

    if asks:
        dispatch._different_device_order_reshard = reorder
    pxla.shard_arg_handlers[jax_array.ArrayImpl] = shard_arg
    return undo


def _moves(array: Any, sharding: Any, layout: Any) -> bool:
    """Whether an array goes from a cluster to the same cluster, and how it lies can be said to the mover."""
    from jax.sharding import NamedSharding, SingleDeviceSharding

    before = array.sharding
    if layout is not None or before is sharding or array.is_deleted():
        return False
    if not isinstance(before, NamedSharding) or not isinstance(sharding, NamedSharding | SingleDeviceSharding):
        return False
    client = _client(before)
    if not _jax.is_ours(client) or _client(sharding) is not client:
        return False
    return not _is_unreduced(before) and not _is_unreduced(sharding)


def _crosses(array: Any, sharding: Any) -> bool:
    """Whether an array goes from a cluster to devices of this process, or the other way."""
    before = array.sharding
    if before is sharding or array.is_deleted():
        return False
    there, here = _client(before), _client(sharding)
    return there is not here and _jax.is_ours(there) is not _jax.is_ours(here)


def _as_numbers(array: Any, sharding: Any, layout: Any, semantics: Any) -> Any:
    import jax
    import numpy as np
    from jax._src.interpreters import pxla

    with jax.enable_x64(True):  # whatever holds at this moment, the array has its type already
        (result,) = pxla.shard_arg_handlers[np.ndarray]([np.asarray(array)], [sharding], [layout], [semantics])
    if _donates(semantics):
        array.delete()
    return result


def _has_parts(before: Any, wanted: Any, shape: tuple[int, ...]) -> bool:
    """Whether every part that is wanted is a shard already."""
    if before.num_devices == 1:
        return True  # JAX cuts it where it is
    parts = {_corners(index) for index in before.devices_indices_map(shape).values()}
    return all(_corners(index) in parts for index in wanted.devices_indices_map(shape).values())


def _corners(index: Any) -> tuple[tuple[int | None, int | None], ...]:
    return tuple((part.start, part.stop) for part in index)


def _client(sharding: Any) -> Any:
    return sharding._internal_device_list[0].client


def _is_unreduced(sharding: Any) -> bool:
    return bool(getattr(getattr(sharding, "spec", None), "unreduced", ()))


def _donates(semantics: Any) -> bool:
    from jax._src.lib import xla_client

    return bool(semantics == xla_client.ArrayCopySemantics.DONATE_INPUT)
