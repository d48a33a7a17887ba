"""The devices of an elastic run in groups that are lost together, which of them are there, and how that is found out.

On every group lies a small array, the *mark*. A group that was lost has lost it, also if it is back by now, so a sum with it says
which. Another small array is put on a lost group: it lands when the group is back. Nothing here asks the cluster how it is: all
of it is ordinary work on its devices, in the order of the run's own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pathways import errors
from pathways._replicas import Replica, replicas_of
from pathways._slices import VirtualSlice
from pathways._waiting import Waiting

if TYPE_CHECKING:
    import jax

log = logging.getLogger("pathways.elastic")
# A result that takes longer is waited for with an eye on the groups.
LOOK_S = 0.25
_POLL_S = 0.05
# After a loss without a host, how long groups are asked whether it was theirs.
_ASK_S = 10.0
_LOSSES = (errors.SliceLostError, errors.BufferLostError, errors.UnavailableError)


class GroupLostError(Exception):
    """A group is gone, and which."""

    def __init__(self, group: Group, cause: errors.PathwaysError) -> None:
        super().__init__(str(cause))
        self.group = group
        self.cause = cause


class Group:
    """Devices of one island. `is_lost` from the moment that the loss was seen until they are back."""

    def __init__(self, name: str, hosts: Iterable[str], devices: Sequence[jax.Device], axes: dict[str, int]) -> None:
        self.name = name
        self.hosts = frozenset(hosts)
        self.replicas: list[Replica] = replicas_of(devices, axes)
        self.is_lost = False
        self._device = devices[0]
        self._mark: Any = None
        self._look: Waiting[Any] | None = None
        self._back: Waiting[Any] | None = None

    @property
    def device_count(self) -> int:
        return sum(len(replica.devices) for replica in self.replicas)

    def lose(self) -> None:
        self.is_lost = True
        self._mark = self._look = None
        self._ask_back()

    def _ask_back(self) -> None:
        import jax
        import numpy as np

        landed = jax.device_put(np.zeros(1, np.float32), self._device)
        self._back = Waiting(landed.block_until_ready)

    def await_answer(self, within_s: float) -> None:
        """Waits so long at most for a lost group to be back, or not to be for now."""
        if self._back is not None:
            self._back.is_over(within_s)

    def is_back(self) -> bool:
        """Whether a lost group can be used again; from then on it counts as there."""
        if self._back is None or not self._back.is_over():
            return False
        try:
            self._mark = self._back.result()
        except Exception as error:
            if not is_loss(error):
                raise
            time.sleep(_POLL_S)
            self._ask_back()
            return False
        self.is_lost, self._back = False, None
        return True

    def look(self) -> Waiting[Any]:
        """A question whether it is there, the one under way if there is one."""
        import jax
        import numpy as np

        if self._mark is None:
            self._mark = jax.device_put(np.zeros(1, np.float32), self._device)
        if self._look is None:
            self._look = Waiting((self._mark + self._mark).block_until_ready)
        return self._look

    def check(self) -> bool:
        """Whether the question was answered with yes; raises GroupLostError for a no."""
        look = self.look()
        if not look.is_over():
            return False
        self._look = None
        try:
            look.result()
        except Exception as error:
            if not is_loss(error):
                raise
            raise GroupLostError(self, errors.of(error)) from None
        return True


class Fleet:
    """All groups of a run, and those that are there, the oldest first, which has the state: its first replica is home."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = list(groups)
        self.there = list(groups)
        for group in self.groups:
            group.look()

    @property
    def replicas(self) -> list[Replica]:
        """Those that are there, home first."""
        return [replica for group in self.there for replica in group.replicas]

    @property
    def device_count(self) -> int:
        return sum(group.device_count for group in self.there)

    def grow(self) -> list[Group]:
        """Takes in what is back."""
        back = [group for group in self.groups if group.is_lost and group.is_back()]
        self.there += back
        return back

    def settle(self, call: Any) -> Any:
        """What a waiting call returns. Raises what it raises, and GroupLostError if a group is lost meanwhile."""
        waiting = Waiting(call)
        while not waiting.is_over(LOOK_S):
            for group in list(self.there):
                group.check()
        return waiting.result()

    def lose(self, error: Exception) -> errors.PathwaysError:
        """Notes which groups are lost, given how that was seen; raises the error if it tells of no loss."""
        if isinstance(error, GroupLostError):
            self._lose(error.group)
            return error.cause
        if not is_loss(error):
            raise error
        cause = errors.of(error)
        named = [group for group in self.there if cause.host and cause.host in group.hosts]
        for group in named or self._ask_all():
            self._lose(group)
        return cause

    def _lose(self, group: Group) -> None:
        if group in self.there:
            self.there.remove(group)
            group.lose()

    def _ask_all(self) -> list[Group]:
        """Those that say that they are lost; none if all of them answer, or none does so in time."""
        due = list(self.there)
        lost: list[Group] = []
        deadline_s = time.monotonic() + _ASK_S
        while due and not lost and time.monotonic() < deadline_s:
            due[0].look().is_over(_POLL_S)
            for group in list(due):
                try:
                    if group.check():
                        due.remove(group)
                except GroupLostError:
                    lost.append(group)
                    due.remove(group)
        return lost

    def await_devices(self, count: int, wait_s: float, cause: errors.PathwaysError) -> None:
        """Until so many devices are there. Raises errors.UnavailableError after the time."""
        deadline_s = time.monotonic() + wait_s
        while self.device_count < count:
            if time.monotonic() > deadline_s:
                gone = ", ".join(group.name for group in self.groups if group.is_lost)
                raise errors.UnavailableError(
                    f"{self.device_count} devices were left for {wait_s:g} s and min_devices is {count}: {gone} did not come"
                    f" back; look at pathways status, or allow fewer ({cause})"
                )
            if not self.grow():
                next(group for group in self.groups if group.is_lost).await_answer(_POLL_S)


def is_loss(error: BaseException) -> bool:
    """Whether work failed because devices, or what lay on them, went away, while the session lives."""
    return isinstance(errors.of(error), _LOSSES) and not errors.door_that_ended()


def groups_of(devices: Sequence[jax.Device | VirtualSlice | Sequence[jax.Device]] | None, axes: dict[str, int]) -> list[Group]:
    """Devices by island; slices, and lists of devices, each as one group."""
    import jax

    given = list(jax.devices()) if devices is None else list(devices)
    islands: dict[Any, list[jax.Device]] = {}
    groups: list[Group] = []
    for entry in given:
        if isinstance(entry, VirtualSlice):
            groups.append(Group(f"island {entry.island}", entry.hosts, entry.devices, axes))
        elif isinstance(entry, Sequence):
            groups.append(_group(f"group {len(groups)}", entry, axes))
        else:
            islands.setdefault(getattr(entry, "slice_index", 0), []).append(entry)
    for number, members in islands.items():
        groups.append(_group(f"island {getattr(members[0], 'island', number)}", members, axes))
    used = [group for group in groups if group.replicas]
    if not used:
        sizes = "x".join(map(str, axes.values()))
        raise errors.InvalidArgumentError(
            f"no island has the devices for one mesh of {sizes}; make it smaller, or give more devices"
        )
    return used


def _group(name: str, devices: Sequence[jax.Device], axes: dict[str, int]) -> Group:
    hosts = {getattr(device, "host_name", "") for device in devices}
    return Group(name, hosts - {""}, devices, axes)
