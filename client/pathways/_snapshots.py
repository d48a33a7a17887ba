"""Snapshots of a training state: copies on two groups of devices that are not lost together, or one in the client's memory.

One copy stays beside the state, whose own arrays steps may donate, and one goes to another group, so that the loss of either
group leaves one. Copies are made behind the step whose state they are, and nobody waits for them until they are needed.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pathways._fleet import Fleet, Group, GroupLostError
from pathways._waiting import Waiting


class Snapshot:
    """A state and how many steps it has behind it."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self._on_groups: list[tuple[Group, Any, Waiting[Any]]] = []
        self._in_client: Any = None
        self._is_in_client = False

    def add_copy(self, group: Group, tree: Any) -> None:
        import jax

        self._on_groups.append((group, tree, Waiting(lambda: jax.block_until_ready(tree))))

    def keep_here(self, tree: Any) -> None:
        self._in_client, self._is_in_client = tree, True

    def lose(self, group: Group) -> None:
        """What lay there is gone."""
        self._on_groups = [copy for copy in self._on_groups if copy[0] is not group]

    @property
    def is_complete(self) -> bool:
        """Whether all of its copies are known to be there."""
        return self._is_in_client or bool(self._on_groups and all(made.succeeded for _, _, made in self._on_groups))

    def settle(self, fleet: Fleet) -> None:
        """Waits for the copies; raises what went wrong with one."""
        for _, _, made in self._on_groups:
            fleet.settle(made.result)

    def state_on(self, fleet: Fleet) -> Any:
        """The state anew, at home; None if no copy is left. What is wrong with a copy that was being made drops it."""
        home = fleet.replicas[0]
        for group, tree, made in list(self._on_groups):
            try:
                fleet.settle(made.result)
            except GroupLostError:
                raise
            except Exception:
                self._on_groups = [copy for copy in self._on_groups if copy[1] is not tree]
                continue
            # Made anew also where it lies right, because the next step may donate it.
            return copied(tree) if group is fleet.there[0] else home.put(tree)
        with home.entered():
            return home.put(to_device(self._in_client)) if self._is_in_client else None


def take(fleet: Fleet, state: Any, steps: int) -> Snapshot:
    """A snapshot of a state that lies at home."""
    snapshot = Snapshot(steps)
    home, *others = fleet.there
    if others:
        snapshot.add_copy(home, copied(state))
        # The first of the others has one most surely: every group has a whole replica.
        snapshot.add_copy(others[0], others[0].replicas[0].put(state))
    else:
        import jax

        plain = to_host(state)
        snapshot.keep_here(fleet.settle(lambda: _restored(jax.device_get(plain[0]), plain[1])))
    return snapshot


@cache
def _copying() -> Any:
    import jax
    import jax.numpy as jnp

    return jax.jit(lambda tree: jax.tree.map(jnp.copy, tree))


def copied(tree: Any) -> Any:
    """The same values in arrays of their own, where they are."""
    return _copying()(tree)


class _Keys:
    """Stands for an array of random keys in the client's memory: its numbers, and the kind of keys."""

    def __init__(self, numbers: Any, kind: Any) -> None:
        self.numbers, self.kind = numbers, kind


def to_host(tree: Any) -> tuple[list[Any], tuple[Any, list[Any]]]:
    """Arrays of plain numbers in place of keys, and what makes the tree of them again."""
    import jax

    leaves, form = jax.tree.flatten(tree)
    kinds = [jax.random.key_impl(leaf) if _are_keys(leaf) else None for leaf in leaves]
    plain = [jax.random.key_data(leaf) if kind is not None else leaf for leaf, kind in zip(leaves, kinds, strict=True)]
    return plain, (form, kinds)


def _restored(plain: list[Any], shape: tuple[Any, list[Any]]) -> Any:
    import jax

    form, kinds = shape
    return jax.tree.unflatten(
        form, [leaf if kind is None else _Keys(leaf, kind) for leaf, kind in zip(plain, kinds, strict=True)]
    )


def to_device(tree: Any) -> Any:
    """Keys again, where numbers stand for them."""
    import jax

    def made(leaf: Any) -> Any:
        return jax.random.wrap_key_data(leaf.numbers, impl=leaf.kind) if isinstance(leaf, _Keys) else leaf

    return jax.tree.map(made, tree, is_leaf=lambda leaf: isinstance(leaf, _Keys))


def _are_keys(leaf: Any) -> bool:
    import jax

    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
