"""An epoch always begins in a fresh executor; one spare waits for the next. Nothing of an earlier executor is ever heard again.

States of one executor process, by number: STARTING until it says its first word, SPARE while it waits, ENTERING from EpochBegin
to its answer, ACTIVE, DEAD. Commands go to the current one (entering or active), or to nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias, assert_never

from pathways_common.model.ids import Epoch


class State(Enum):
    """Of one executor process."""

    NONE = "none"
    STARTING = "starting"
    SPARE = "spare"
    ENTERING = "entering"
    ACTIVE = "active"
    DEAD = "dead"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.NONE: frozenset({State.STARTING}),
    State.STARTING: frozenset({State.SPARE, State.ENTERING, State.DEAD}),
    State.SPARE: frozenset({State.ENTERING, State.DEAD}),
    State.ENTERING: frozenset({State.ACTIVE, State.DEAD}),
    State.ACTIVE: frozenset({State.DEAD}),
    State.DEAD: frozenset(),
}

# Executors that died before their first word, one after the other, until each new try waits; it waits this long at most.
EARLY_DEATHS_FREE = 1
RESTART_WAIT_MAX_NS = 30 * 10**9
RESTART_WAIT_NS = 500 * 10**6
# A spare costs a second of processor time to start: it starts when the epoch has had a moment for itself.
SPARE_WAIT_NS = 5 * 10**9


@dataclass(frozen=True, slots=True)
class Opened:
    """The host has joined: executors are wanted."""


@dataclass(frozen=True, slots=True)
class Announced:
    """The executor said its first word: it has imported everything."""

    number: int


@dataclass(frozen=True, slots=True)
class EpochBegun:
    """The controller wants this epoch to begin."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class EpochAnswered:
    """The executor entered its epoch, or could not."""

    number: int
    entered: bool


@dataclass(frozen=True, slots=True)
class EpochEnded:
    """The controller ended this epoch without another."""

    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Exited:
    """The process is gone, by whatever cause."""

    number: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The link to the controller is gone, or the daemon ends: nothing may stay."""


Event: TypeAlias = Opened | Announced | EpochBegun | EpochAnswered | EpochEnded | Exited | Closed


@dataclass(frozen=True, slots=True)
class Start:
    """Start executor `number` after `wait_ns`."""

    number: int
    wait_ns: int


@dataclass(frozen=True, slots=True)
class Kill:
    """End this process now, or forget it if it has not started."""

    number: int


@dataclass(frozen=True, slots=True)
class Use:
    """From now on commands go to this executor; transfers and frames of the one before are void. 0: to nobody."""

    number: int


@dataclass(frozen=True, slots=True)
class ReportDeath:
    """Tell the controller that the executor of this epoch is gone."""

    number: int
    epoch: Epoch


Effect: TypeAlias = Start | Kill | Use | ReportDeath


class Executors:
    """The executors of one host. `step` gives effects that are to be carried out in order."""

    def __init__(self, keep_spare: bool = True) -> None:
        self._keep_spare = keep_spare
        self._states: dict[int, State] = {}
        self._last = 0
        self._current = 0
        self._waiting = 0
        self._epoch = Epoch(0)
        self._early_deaths = 0
        self._open = False

    @property
    def current(self) -> int:
        """The executor that commands go to; 0 if none."""
        return self._current

    @property
    def epoch(self) -> Epoch:
        """The epoch of the current executor, or the last one that was."""
        return self._epoch

    def state(self, number: int) -> State:
        """Of one executor; those long dead are NONE."""
        return self._states.get(number, State.NONE)

    def step(self, event: Event) -> list[Effect]:
        """What to do about one event."""
        match event:
            case Opened():
                self._open = True
                return self._want(0)
            case Announced(number):
                if self.state(number) is State.STARTING:
                    self._move(number, State.SPARE)
                self._early_deaths = 0
                return []
            case EpochBegun(epoch):
                return self._on_epoch_begun(epoch)
            case EpochAnswered(number, entered):
                if self.state(number) is not State.ENTERING:
                    return []
                if entered:
                    self._move(number, State.ACTIVE)
                return self._want(SPARE_WAIT_NS) if self._keep_spare else []
            case EpochEnded(epoch):
                return self._end_current() + self._want(0) if self._current and epoch == self._epoch else []
            case Exited(number):
                return self._on_exited(number)
            case Closed():
                self._open = False
                effects = self._end_current()
                if self._waiting:
                    effects.append(Kill(self._waiting))
                    self._move(self._waiting, State.DEAD)
                    self._waiting = 0
                self._epoch = Epoch(0)
                return effects
            case _:
                assert_never(event)

    def _on_epoch_begun(self, epoch: Epoch) -> list[Effect]:
        if not self._open or epoch <= self._epoch:
            return []
        effects = self._end_current()
        if not self._waiting:
            self._early_deaths = 0
            effects += self._want(0)
        self._current, self._waiting = self._waiting, 0
        self._epoch = epoch
        self._move(self._current, State.ENTERING)
        return [*effects, Use(self._current)]

    def _on_exited(self, number: int) -> list[Effect]:
        state = self.state(number)
        if state in (State.NONE, State.DEAD):
            self._states.pop(number, None)
            return []
        self._move(number, State.DEAD)
        del self._states[number]
        if number == self._current:
            self._current = 0
            return [Use(0), ReportDeath(number, self._epoch), *self._want(0)]
        self._waiting = 0
        wait_ns = 0
        if state is State.STARTING:
            self._early_deaths += 1
            doublings = min(self._early_deaths - EARLY_DEATHS_FREE, 16)
            wait_ns = min(RESTART_WAIT_NS << doublings, RESTART_WAIT_MAX_NS) if doublings > 0 else 0
        return self._want(wait_ns)

    def _end_current(self) -> list[Effect]:
        number = self._current
        if not number:
            return []
        self._move(number, State.DEAD)
        self._current = 0
        return [Kill(number), Use(0)]

    def _want(self, wait_ns: int) -> list[Effect]:
        """Starts one that waits for an epoch, unless there is one."""
        if not self._open or self._waiting:
            return []
        self._last += 1
        self._waiting = self._last
        self._move(self._waiting, State.STARTING)
        return [Start(self._waiting, wait_ns)]

    def _move(self, number: int, to: State) -> None:
        at = self.state(number)
        assert to in TRANSITIONS[at], f"executor {number} cannot go from {at.name} to {to.name}"
        self._states[number] = to
