"""Virtual slices: devices asked for by number and shape; the cluster chooses the physical ones.

A slice's devices are ordinary JAX devices that `jax.devices()` does not show. A slice lives until it is released, or until its
session ends; not shorter because nobody refers to it: compiled functions keep its devices, not the slice.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pathways_proto.v1 import sessions_pb2

from pathways import _plugin, errors

if TYPE_CHECKING:
    import jax

    from pathways._slice_calls import SliceCalls

DIMENSIONS_MAX = 3


class VirtualSlice:
    """Devices of one island that belong together. Made by `VirtualDeviceSet.add_slice`; a context manager that releases it.

    `island`, `hosts` (in the order of `devices`) and `kind` say what stands behind them: JAX has to be told of the devices before
    that is known, and shows the kind of the session's first island.
    """

    def __init__(self, calls: SliceCalls, added: sessions_pb2.SliceAdded, mesh_shape: tuple[int, ...]) -> None:
        self._calls = calls
        self._slice_id = added.slice_id
        self._lock = threading.Lock()
        self._released = False
        self._devices: list[jax.Device] = calls.devices(added.devices)
        self.mesh_shape = mesh_shape or (len(self._devices),)
        self.island = added.island
        self.hosts = tuple(added.hosts)
        self.kind = added.kind

    @property
    def devices(self) -> list[jax.Device]:
        """The devices, row-major over `mesh_shape`: for pmap(devices=...), device_put, or a mesh of one's own."""
        return list(self._devices)

    @property
    def tpus(self) -> list[jax.Device]:
        """The same as `devices`, under the name that the Pathways paper uses, whatever kind they are."""
        return list(self._devices)

    @property
    def released(self) -> bool:
        """Whether it was given back, or its session has ended."""
        return self._released or self._calls.closed

    def mesh(self, axis_names: str | Sequence[str]) -> jax.sharding.Mesh:
        """A mesh over `mesh_shape`, for NamedSharding and shard_map: one name per dimension.

        Raises errors.InvalidArgumentError if the number of names differs from the number of dimensions.
        """
        import numpy as np
        from jax.sharding import Mesh

        names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if len(names) != len(self.mesh_shape):
            raise errors.InvalidArgumentError(
                f"a mesh of shape {self.mesh_shape} has {len(self.mesh_shape)} axes, and {len(names)} names were given"
            )
        grid = np.empty(len(self._devices), dtype=object)
        grid[:] = self._devices
        return Mesh(grid.reshape(self.mesh_shape), names)

    def release(self) -> None:
        """Gives the devices back, behind the work that this thread dispatched before; arrays on them are deleted then.

        A loop (`pw.while_loop`) goes on to its end first; `pw.cancel` ends it earlier. Does not wait for any of that.
        Work that other threads still dispatch to the slice may come before or after. Does nothing the second time, or after the
        end of the session. Raises errors.PathwaysError if the door or the cluster cannot be reached.
        """
        with self._lock:
            if self.released:
                return
            self._calls.release(self._slice_id)
            self._released = True

    def suspend(self) -> None:
        """What `pw.suspend` does."""
        with self._lock:
            self._check()
            self._calls.suspend(self._slice_id)

    def resume(self) -> None:
        """What `pw.resume` does."""
        with self._lock:
            self._check()
            resumed = self._calls.resume(self._slice_id)
            self.island, self.hosts = resumed.island, tuple(resumed.hosts)

    def _check(self) -> None:
        if self.released:
            raise errors.InvalidArgumentError(f"{self!r} was given back; ask for another one")

    def __enter__(self) -> VirtualSlice:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _release_on_exit([self], error)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.mesh_shape))
        state = ", released" if self.released else ""
        return f"<pathways slice {self._slice_id}: {shape} devices on island {self.island} ({', '.join(self.hosts)}){state}>"


class VirtualDeviceSet:
    """Slices that are released together. Made by `make_virtual_device_set`; a context manager that releases them all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._slices: list[VirtualSlice] = []

    @property
    def slices(self) -> list[VirtualSlice]:
        """The slices of this set that are not released, in the order they were added."""
        with self._lock:
            self._slices = [each for each in self._slices if not each.released]
            return list(self._slices)

    def add_slice(
        self,
        tpu_devices: int | None = None,
        *,
        devices: int | None = None,
        mesh_shape: Sequence[int] | None = None,
        island: str = "any",
        kind: str = "",
        exclusive: bool = False,
        near: Iterable[VirtualSlice] = (),
        apart: Iterable[VirtualSlice] = (),
        wait: bool = False,
        timeout: float = 300.0,
    ) -> VirtualSlice:
        """Asks the cluster for devices of one island. Slices share physical devices unless another session's is exclusive.

        tpu_devices, devices: how many, in devices: two names for one number. Not needed with a mesh_shape.
        mesh_shape: one to three sizes, such as (2, 2): devices that lie so in the island's topology (which its hosts declare,
                    else it is a line); `mesh` has this shape.
        island:     a name, or "any".
        kind:       the device kind wanted, as `pathways status` shows it; empty for any.
        exclusive:  no slice of another session may share its physical devices.
        near:       slices of this session on whose physical devices it shall lie.
        apart:      slices of this session on whose physical devices it must not lie.
        wait:       wait for what is in use now, at most `timeout` seconds; what it waits for is logged once as a warning.
                    Without it, and for what can never be had, the answer comes at once.

        Raises errors.PathwaysError with one sentence: InvalidArgumentError if this can never be had, ResourceExhaustedError if
        not now (without `wait`), TimedOutError after `timeout`, UnavailableError without a connection, UnsupportedError if the
        door is somebody else's.
        """
        shape = _shape(mesh_shape)
        count = _count(tpu_devices, devices, shape)
        if wait and not 0 < timeout < 1e9:
            raise errors.InvalidArgumentError(f"timeout is {timeout!r}; it must be a positive number of seconds")
        request = sessions_pb2.AddSlice(
            device_count=count,
            mesh_shape=shape,
            kind=kind,
            island="" if island == "any" else island,
            exclusive=exclusive,
            wait=wait,
            timeout_ns=int(timeout * 1e9) if wait else 0,
        )
        calls = _plugin.slice_calls()
        request.with_slices.extend(_ids(near, calls, "near"))
        request.apart_from_slices.extend(_ids(apart, calls, "apart"))
        added = VirtualSlice(calls, calls.add(request), shape)
        with self._lock:
            self._slices.append(added)
        return added

    def release(self) -> None:
        """Releases all slices of this set, the newest first; raises the first error when all were tried."""
        _release_all(self.slices)

    def __enter__(self) -> VirtualDeviceSet:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _release_on_exit(self.slices, error)

    def __repr__(self) -> str:
        return f"<pathways virtual device set: {len(self.slices)} slices>"


def suspend(slice_: VirtualSlice) -> None:
    """Takes the arrays of a slice off its devices, into memory or on disk of its hosts, and gives the devices to others.

    Waits for the work that was dispatched before, at most a minute. Until `pw.resume`, programs that run on the slice and arrays
    that are put there fail with errors.UnavailableError; arrays may be read. Arrays keep their identity and all of their bits.

    Raises errors.PathwaysError: ResourceExhaustedError if a host has no room for the arrays, TimedOutError if the work does not
    end; then everything is as it was.
    """
    _slice(slice_).suspend()


def resume(slice_: VirtualSlice) -> None:
    """Gives a suspended slice devices again: the same if they are free, else others of their kind, on any island.

    Arrays come back when they are needed, programs are loaded again without being compiled. Raises errors.PathwaysError:
    ResourceExhaustedError if no devices are to be had now; ask again later.
    """
    _slice(slice_).resume()


def _slice(given: object) -> VirtualSlice:
    if not isinstance(given, VirtualSlice):
        raise errors.InvalidArgumentError(f"{given!r} is no slice; give what add_slice returned")
    return given


def make_virtual_device_set() -> VirtualDeviceSet:
    """An empty set; `add_slice` asks the cluster. Works after pw.connect(), in `pathways run`, and with JAX_PLATFORMS=proxy."""
    return VirtualDeviceSet()


def _release_all(slices: Sequence[VirtualSlice]) -> None:
    first: errors.PathwaysError | None = None
    for each in reversed(slices):
        try:
            each.release()
        except errors.PathwaysError as error:
            first = first or error
    if first is not None:
        raise first


def _release_on_exit(slices: Sequence[VirtualSlice], error: BaseException | None) -> None:
    try:
        _release_all(slices)
    except errors.PathwaysError:
        # With an error on its way, that one is what the user has to see.
        if error is None:
            raise


def _shape(mesh_shape: Sequence[int] | None) -> tuple[int, ...]:
    shape = () if mesh_shape is None else tuple(mesh_shape)
    good = all(isinstance(size, int) and not isinstance(size, bool) and 0 < size < 1 << 20 for size in shape)
    if mesh_shape is not None and not (good and 1 <= len(shape) <= DIMENSIONS_MAX):
        raise errors.InvalidArgumentError(
            f"mesh_shape is {mesh_shape!r}; it must be one to {DIMENSIONS_MAX} positive whole numbers, such as (2, 2)"
        )
    return shape


def _count(tpu_devices: int | None, devices: int | None, shape: tuple[int, ...]) -> int:
    wanted: list[Any] = [number for number in (tpu_devices, devices) if number is not None]
    if len(wanted) > 1:
        raise errors.InvalidArgumentError("tpu_devices and devices are two names for one number; give one of them")
    if not wanted:
        if not shape:
            raise errors.InvalidArgumentError("say how many devices the slice shall have: devices=n, or mesh_shape=(n, ...)")
        return math.prod(shape)
    count = wanted[0]
    if not isinstance(count, int) or isinstance(count, bool) or not 0 < count < 1 << 20:
        raise errors.InvalidArgumentError(f"{count!r} devices make no slice; it must be a positive whole number")
    if shape and math.prod(shape) != count:
        raise errors.InvalidArgumentError(f"mesh_shape {shape} has {math.prod(shape)} devices, and {count} were asked for")
    return count


def _ids(slices: Iterable[VirtualSlice], calls: SliceCalls, word: str) -> list[int]:
    listed = [slices] if isinstance(slices, VirtualSlice) else list(slices)
    for each in listed:
        if not isinstance(each, VirtualSlice):
            raise errors.InvalidArgumentError(f"{word} holds {each!r}, which is no slice; give what add_slice returned")
        if each.released or each._calls is not calls:
            raise errors.InvalidArgumentError(f"{word} names {each!r}, which is no slice of this session any more")
    return [each._slice_id for each in listed]
