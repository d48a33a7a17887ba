"""Replicas: the devices that compute one microbatch at a time, as a mesh that is alike for all of them.

Whatever a function gives on one replica it gives on another, since programs, shardings and kinds of devices are the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pathways import errors

if TYPE_CHECKING:
    import jax


class Replica:
    """Its devices, in a mesh; one device is used as it is, without a mesh."""

    def __init__(self, devices: Sequence[jax.Device], axes: Mapping[str, int]) -> None:
        import numpy as np
        from jax.sharding import Mesh

        grid = np.empty(len(devices), dtype=object)
        grid[:] = list(devices)
        self.devices = tuple(devices)
        self.mesh = Mesh(grid.reshape(tuple(axes.values())), tuple(axes))

    def _sharding(self, leaf: Any) -> Any:
        from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

        if len(self.devices) == 1:
            return SingleDeviceSharding(self.devices[0])
        lies: Any = getattr(leaf, "sharding", None)
        alike = isinstance(lies, NamedSharding) and lies.mesh.shape == self.mesh.shape
        return NamedSharding(self.mesh, lies.spec if alike else PartitionSpec())

    def put(self, tree: Any) -> Any:
        """The arrays of a tree here: split as they are on a mesh alike, else whole on each device."""
        import jax

        return jax.device_put(tree, jax.tree.map(self._sharding, tree))

    def put_batch(self, batch: Any) -> Any:
        """A microbatch, its first dimension split over the first axis of the mesh."""
        import jax
        from jax.sharding import NamedSharding, PartitionSpec

        if len(self.devices) == 1:
            return jax.device_put(batch, self.devices[0])
        return jax.device_put(batch, NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names[0])))

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, what is made without a place is made here, and partition specs mean this mesh."""
        import jax

        with jax.default_device(self.devices[0]):
            if len(self.devices) == 1:
                yield
            else:
                with jax.set_mesh(self.mesh):
                    yield


def replicas_of(devices: Sequence[jax.Device], axes: Mapping[str, int]) -> list[Replica]:
    """As many as there are devices for; what is left over is not used."""
    size = math.prod(axes.values())
    return [Replica(devices[at : at + size], axes) for at in range(0, len(devices) - size + 1, size)]


def checked_axes(mesh: Mapping[str, int] | None) -> dict[str, int]:
    """Names and sizes of a replica's mesh; None: one device."""
    axes = {"replica": 1} if mesh is None else dict(mesh)
    if not axes or any(not isinstance(size, int) or isinstance(size, bool) or size < 1 for size in axes.values()):
        raise errors.InvalidArgumentError(f"mesh is {mesh!r}; it gives each axis a size, such as {{'data': 2, 'model': 2}}")
    return axes
