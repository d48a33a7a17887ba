"""`pw.microbatched`: the mean of a function over the microbatches of a batch, the same to the bit on any number of devices.

A batch is cut into as many parts as the function says, wherever they are computed. The parts' results are added in pairs, pairs
of pairs and so on, always the same ones, where the first of a pair lies. So one device that does all of them one after the other
and eight that share them get the same sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any

from pathways import errors

if TYPE_CHECKING:
    from pathways._replicas import Replica

# Where microbatches are computed now, the one that has the state first; empty outside of an elastic step.
_current: ContextVar[tuple[Replica, ...]] = ContextVar("pathways_replicas", default=())


@contextmanager
def computed_on(replicas: Sequence[Replica]) -> Iterator[None]:
    """Inside, microbatches are shared out over these."""
    token = _current.set(tuple(replicas))
    try:
        yield
    finally:
        _current.reset(token)


class Microbatched:
    """A function of whole batches. Made by `microbatched`."""

    def __init__(self, function: Callable[..., Any], count: int) -> None:
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise errors.InvalidArgumentError(f"{count!r} microbatches make no batch; give a positive whole number")
        self._function = function
        self.count = count

    def __call__(self, *arguments: Any) -> Any:
        """The mean of `function(*others, microbatch)`, with the batch as the last argument."""
        if not arguments:
            raise errors.InvalidArgumentError("a microbatched function needs a batch, as its last argument")
        *shared, batch = arguments
        parts = split(batch, self.count)
        replicas = _current.get()
        if not replicas:
            return _mean(_sum(0, self.count, lambda index: self._function(*shared, parts[index]), _anywhere), self.count)
        placed: dict[Replica, Any] = {}

        def replica_of(index: int) -> Replica:
            return replicas[index * len(replicas) // self.count]

        def result_of(index: int) -> Any:
            replica = replica_of(index)
            if replica not in placed:
                placed[replica] = replica.put(shared)
            with replica.entered():
                return self._function(*placed[replica], replica.put_batch(parts[index]))

        return _mean(_sum(0, self.count, result_of, lambda index: replica_of(index).entered()), self.count)


def microbatched(function: Callable[..., Any], count: int) -> Microbatched:
    """A function of a whole batch: the mean of `function` over `count` equal parts of it.

        gradients = pw.microbatched(jax.jit(jax.value_and_grad(loss)), 8)
        loss, gradient = gradients(parameters, batch)          # as jax.value_and_grad(loss)(parameters, batch), in 8 parts

    `function` takes anything and, as its last argument, a microbatch; it returns any tree of numbers, such as a mean loss and its
    gradients. `batch` is a tree of arrays whose first dimension `count` divides. In a step of `pw.elastic` the microbatches are
    computed side by side on the devices that are there; elsewhere, on plain JAX too, one after the other. The result is the same
    to the bit. Raises errors.InvalidArgumentError for a batch that cannot be cut.
    """
    return Microbatched(function, count)


def split(batch: Any, count: int) -> list[Any]:
    """The parts of a batch, each with the same part of every array."""
    import jax

    leaves, form = jax.tree.flatten(batch)
    sizes = {leaf.shape[0] if getattr(leaf, "shape", ()) else 0 for leaf in leaves}
    if len(sizes) != 1 or (size := sizes.pop()) < 1 or size % count:
        shapes = ", ".join(str(list(getattr(leaf, "shape", ()))) for leaf in leaves[:4]) or "none"
        raise errors.InvalidArgumentError(
            f"a batch with arrays of shape {shapes} has no {count} equal parts; make its first dimension a multiple of {count}"
        )
    step = size // count
    return [jax.tree.unflatten(form, [leaf[at * step : (at + 1) * step] for leaf in leaves]) for at in range(count)]


def _anywhere(index: int) -> AbstractContextManager[None]:
    return nullcontext()


def _sum(first: int, count: int, result_of: Callable[[int], Any], where: Callable[[int], AbstractContextManager[None]]) -> Any:
    """Of `count` results from `first` on, a power of two of them against the rest, where the first one lies."""
    if count == 1:
        return result_of(first)
    left = 1 << (count - 1).bit_length() - 1
    total = _sum(first, left, result_of, where)
    more = _sum(first + left, count - left, result_of, where)
    with where(first):
        return _add(total, more)


@cache
def _adding() -> Any:
    import jax

    return jax.jit(lambda left, right: jax.tree.map(lambda x, y: x + y, left, right))


@cache
def _dividing() -> Any:
    import jax

    return jax.jit(lambda total, count: jax.tree.map(lambda x: x / count, total), static_argnums=1)


def _add(left: Any, right: Any) -> Any:
    """Where the left one lies."""
    import jax

    places = jax.tree.map(lambda leaf: leaf.sharding, left)
    return _adding()(left, jax.device_put(right, places))


def _mean(total: Any, count: int) -> Any:
    return _dividing()(total, count)
