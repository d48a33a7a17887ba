"""`pw.cancel`: ends what computes arrays and has not begun; a loop ends between two iterations.

It travels as a plugin program in the client's own stream, with the arrays as its arguments, so it comes behind everything that
was dispatched before it.
"""

from __future__ import annotations

from typing import Any

from pathways import _jax, errors
from pathways import _jax_nodes as jn


def cancel(tree: Any) -> None:
    """Cancels what computes the arrays of `tree`, such as the result of a program: a loop in it ends at its next turn.

        result = f(x)                                                   # returns at once; the cluster is at work
        threading.Timer(60, pw.cancel, [result]).start()
        np.asarray(result)                                              # after a minute: CANCELLED, pw.errors.CancelledError

    Those arrays, and what is computed from them, then fail when they are read; arrays that are there already keep their values,
    and what has begun on the devices is carried out. Leaves that are no arrays of the cluster are left alone. Waits for nothing
    and may be called from any thread. Ctrl-C ends a read that waits, and not the work: call `pw.cancel(result)` after it.

    Raises errors.InvalidArgumentError if no leaf is an array of the cluster, errors.PathwaysError if the connection is gone.
    """
    leaves = _jax.leaves(tree)
    arrays = [leaf for leaf in leaves if _jax.is_on_cluster(leaf)]
    if leaves and not arrays:
        raise errors.InvalidArgumentError(
            f"pw.cancel was given {type(tree).__name__}, and no array of the cluster is in it; give it what the program returned"
        )
    groups: dict[tuple[Any, int], list[Any]] = {}
    for array in arrays:
        if not array.is_deleted():
            devices = jn.device_order(array.sharding)
            groups.setdefault((devices[0].client, len(devices)), []).append(jn.stored(array))
    for (client, shard_count), given in groups.items():
        try:
            _jax.execute_plugin_program(client, f"pathways-cancel {shard_count}", given)
        except Exception as error:
            raise errors.of(error) from None
