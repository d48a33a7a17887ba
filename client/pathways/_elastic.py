"""`pw.elastic`: a training loop that goes on when devices are lost, and gives what it would have given without that.

Since the last snapshot the batches are kept. After a loss the state of the snapshot is made anew on what is left, and the steps
since then are repeated with their batches, which is invisible: steps are functions, and `pw.microbatched` makes the same
sums on any number of devices. Groups of devices (islands) are lost and come back as a whole; they are taken in between two steps.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pathways import _fleet, _snapshots, errors
from pathways._microbatches import computed_on
from pathways._replicas import checked_axes

if TYPE_CHECKING:
    import jax

    from pathways._slices import VirtualSlice

log = logging.getLogger("pathways.elastic")
State = TypeVar("State")
Step = Callable[[State, Any], tuple[State, Any]]
_TRIES_MAX = 20


class Elastic(Generic[State]):
    """Made by `elastic`; called as its step is. Not for several threads at once."""

    def __init__(
        self,
        step: Step[State],
        fleet: _fleet.Fleet,
        snapshot_every: int,
        min_devices: int,
        wait_s: float,
        checkpoint: Callable[[], tuple[State, int]] | None,
    ) -> None:
        self._step = step
        self._fleet = fleet
        self._snapshot_every = snapshot_every
        self._min_devices = min_devices
        self._wait_s = wait_s
        self._checkpoint = checkpoint
        self._lock = threading.Lock()
        self._shown: State | None = None  # what the user was last given
        self._state: State | None = None
        self._done = 0
        self._first_kept = 0
        self._batches: deque[Any] = deque()
        self._snapshots: deque[_snapshots.Snapshot] = deque()
        self._checkpointed = 0
        self.restored = 0

    @property
    def devices(self) -> list[jax.Device]:
        """The devices that steps use now; the first has the state."""
        return [device for replica in self._fleet.replicas for device in replica.devices]

    @property
    def steps(self) -> int:
        """How many steps the state has behind it, since the trainer was given one that it did not return."""
        return self._done

    def __call__(self, state: State, batch: Any) -> tuple[State, Any]:
        """One step: the new state, on the cluster, and what else the step returns, on the host.

        A `state` that is not the one returned last begins anew, from a snapshot of it. Raises what the step raises, and, if too
        few devices are left for too long or no snapshot is, errors.UnavailableError and errors.BufferLostError.
        """
        with self._lock:
            if state is not self._shown:
                self._begin(state)
            self.grow()
            self._batches.append(_kept(batch))
            self._shown = None  # until the step is made: after an error the user begins anew
            aux = self._catch_up_whatever_happens()
            assert self._state is not None
            self._shown = self._state
            return self._state, aux

    def grow(self) -> bool:
        """Takes in devices that are back, as every step does before it begins; whether there were any."""
        back = self._fleet.grow()
        for group in back:
            log.info("%s is back: %d devices after step %d", group.name, self._fleet.device_count, self._done)
        return bool(back)

    def checkpointed(self, steps: int) -> None:
        """Says that `checkpoint` gives a state with so many steps behind it from now on; older batches are let go."""
        self._checkpointed = max(self._checkpointed, steps)
        self._let_go()

    # ---- steps --------------------------------------------------------------------------------------------------------

    def _begin(self, state: State) -> None:
        self._done = self._first_kept = self._checkpointed = 0
        self._batches.clear()
        self._snapshots.clear()
        self._fleet.grow()
        cause: errors.PathwaysError = errors.UnavailableError("they were lost before the first step")
        for left in range(_TRIES_MAX, -1, -1):
            self._fleet.await_devices(self._min_devices, self._wait_s, cause)
            try:
                self._state = self._fleet.replicas[0].put(state)
                self._snapshots.append(_snapshots.take(self._fleet, self._state, 0))
                return
            except Exception as error:
                if not left:
                    raise
                cause = self._lose(error)  # what was given is put once more

    def _catch_up_whatever_happens(self) -> Any:
        tries = 0
        while True:
            try:
                return self._catch_up()
            except Exception as error:
                tries += 1
                if tries > _TRIES_MAX:
                    raise
                self._recover(error)

    def _catch_up(self) -> Any:
        """Makes the steps whose batches are there; what the last one returned, on the host."""
        aux: Any = None
        while self._done < self._first_kept + len(self._batches):
            batch = self._batches[self._done - self._first_kept]
            replicas = self._fleet.replicas
            with computed_on(replicas), replicas[0].entered():
                returned = self._step(self._state, batch)  # type: ignore[arg-type]
            if not isinstance(returned, tuple) or len(returned) != 2:
                raise errors.InvalidArgumentError(
                    f"the step returned {type(returned).__name__}; return a state and something else"
                )
            aux = self._fetched(returned[1])
            self._state = returned[0]
            self._done += 1
            if len(self._snapshots) > 1 and self._snapshots[-1].is_complete:
                self._keep_last()
            if self._done % self._snapshot_every == 0:
                self._take_snapshot()
        return aux

    def _fetched(self, aux: Any) -> Any:
        import jax

        return self._fleet.settle(lambda: jax.device_get(aux))

    def _take_snapshot(self) -> None:
        """A new one beside the last, which stays until the new one is known to be there."""
        if len(self._snapshots) > 1:
            self._snapshots[-1].settle(self._fleet)
            self._keep_last()
        self._snapshots.append(_snapshots.take(self._fleet, self._state, self._done))

    def _keep_last(self) -> None:
        while len(self._snapshots) > 1:
            self._snapshots.popleft()
        self._let_go()

    def _let_go(self) -> None:
        """Of batches that neither a snapshot nor the checkpoint needs."""
        needed = self._snapshots[0].steps if self._snapshots else self._done
        if self._checkpoint is not None:
            needed = min(needed, self._checkpointed)
        while self._first_kept < needed and self._batches:
            self._batches.popleft()
            self._first_kept += 1

    # ---- losses -------------------------------------------------------------------------------------------------------

    def _recover(self, error: Exception) -> None:
        """Goes back to the newest state that is left, on the devices that are left. Raises the error if nothing was lost."""
        cause = self._lose(error)
        failed = self._done
        while True:
            self._fleet.await_devices(self._min_devices, self._wait_s, cause)
            try:
                self._restore(cause)
                break
            except Exception as again:
                if isinstance(again, errors.PathwaysError) and again is not cause:
                    raise
                cause = self._lose(again)
        self.restored += 1
        count = self._fleet.device_count
        log.warning("%s; step %d is repeated from step %d on %d devices", cause, failed + 1, self._done, count)

    def _lose(self, error: Exception) -> errors.PathwaysError:
        cause = self._fleet.lose(error)
        for snapshot in self._snapshots:
            for group in self._fleet.groups:
                if group.is_lost:
                    snapshot.lose(group)
        return cause

    def _restore(self, cause: errors.PathwaysError) -> None:
        """Sets state and step; what was lost is then made good by a snapshot of it."""
        while self._snapshots:
            snapshot = self._snapshots[-1]
            state = snapshot.state_on(self._fleet)
            if state is not None:
                self._state, self._done = state, snapshot.steps
                self._snapshots.append(_snapshots.take(self._fleet, state, snapshot.steps))
                return
            self._snapshots.pop()
        if self._checkpoint is None:
            raise errors.BufferLostError(
                f"step {self._done + 1} has no state to go on from: every island that kept a snapshot is lost ({cause}); start"
                " from a checkpoint of your own, or name one: pw.elastic(checkpoint=...)"
            )
        home = self._fleet.replicas[0]
        with home.entered():
            state, steps = self._checkpoint()
        if not self._first_kept <= steps <= self._first_kept + len(self._batches):
            raise errors.InvalidArgumentError(
                f"the checkpoint has {steps} steps behind it, and batches are kept from step {self._first_kept} on; call"
                " checkpointed(steps) only for what the checkpoint has"
            )
        self._state, self._done = home.put(state), steps
        self._snapshots.append(_snapshots.take(self._fleet, self._state, steps))


def elastic(
    step: Step[State],
    *,
    snapshot_every: int = 10,
    min_devices: int = 1,
    devices: Sequence[jax.Device | VirtualSlice | Sequence[jax.Device]] | None = None,
    mesh: Mapping[str, int] | None = None,
    wait_s: float = 300.0,
    checkpoint: Callable[[], tuple[State, int]] | None = None,
) -> Elastic[State]:
    """A trainer that makes training steps and goes on when islands are lost, with the same results to the bit.

        gradients = pw.microbatched(jax.jit(jax.value_and_grad(loss)), 8)

        def step(state, batch):
            value, gradient = gradients(state.parameters, batch)
            return update(state, gradient), value

        trainer = pw.elastic(step, snapshot_every=10, min_devices=1)
        for batch in batches:
            state, value = trainer(state, batch)

    step:           from a state and a batch to the next state and something else, such as a loss. Any Python that calls JAX; the
                    state is any tree of arrays. Called again with the same arguments it must do the same. What it passes through
                    `pw.microbatched` is shared out over the devices that are there; the rest runs on the first of them.
    snapshot_every: steps between two snapshots: at most so many are repeated, and so many batches kept, twice that for a moment.
    min_devices:    with fewer left it waits, `wait_s` seconds at most, and then raises errors.UnavailableError.
    devices:        devices, which are grouped by island, slices, or lists of devices that are lost together; None: jax.devices().
    mesh:           axes of the devices that compute one microbatch, such as {"data": 2, "model": 2}, all in one group; None: one
                    device. A microbatch is split over the first axis; parameters keep the specs that they have on a mesh of
                    these axes, else they are whole on each device.
    checkpoint:     called when no snapshot is left; returns a state and how many steps it has behind it. Batches are then kept
                    back to what `trainer.checkpointed(steps)` last named.

    Snapshots lie on two islands, or, with one island, in the memory of the client: no state is lost with one island at a time.
    """
    for name, value in (("snapshot_every", snapshot_every), ("min_devices", min_devices)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise errors.InvalidArgumentError(f"{name} is {value!r}; it must be a positive whole number")
    fleet = _fleet.Fleet(_fleet.groups_of(devices, checked_axes(mesh)))
    if fleet.device_count < min_devices:
        raise errors.InvalidArgumentError(
            f"min_devices is {min_devices} and {fleet.device_count} devices are in view; set PATHWAYS_ISLANDS=all to see all"
        )
    return Elastic(step, fleet, snapshot_every, min_devices, wait_s, checkpoint)


def _kept(batch: Any) -> Any:
    """A copy in the client's memory: a loader may use its buffers again."""
    import jax
    import numpy as np

    return jax.tree.map(lambda leaf: np.array(leaf), batch)
