"""An epoch always begins in a fresh executor; one spare waits for the next. Nothing of an earlier executor is ever heard again.

States of one executor process, by number: STARTING until it says its first word, SPARE while it waits, ENTERING from EpochBegin
to its answer, ACTIVE, LEAVING while an ending epoch's arrays are brought from it, DEAD. Commands go to the current one (entering
or active), or to nobody. The end of an epoch is answered when its process is gone, once for each time it was asked for.
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
    LEAVING = "leaving"
    DEAD = "dead"


TRANSITIONS: dict[State, frozenset[State]] = {
    State.NONE: frozenset({State.STARTING}),
    State.STARTING: frozenset({State.SPARE, State.ENTERING, State.DEAD}),
    State.SPARE: frozenset({State.ENTERING, State.DEAD}),
    State.ENTERING: frozenset({State.ACTIVE, State.DEAD}),
    State.ACTIVE: frozenset({State.LEAVING, State.DEAD}),
    State.LEAVING: frozenset({State.DEAD}),
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
    """The controller ended this epoch without another; `keeps`: something of it is to be kept."""

    epoch: Epoch
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Rescued:
    """All that was to be kept is answered, or the time for it is over."""

    number: int


@dataclass(frozen=True, slots=True)
class Exited:
    """The process is gone, by whatever cause."""

    number: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The link to the controller is gone, or the daemon ends: nothing may stay."""


Event: TypeAlias = Opened | Announced | EpochBegun | EpochAnswered | EpochEnded | Rescued | Exited | Closed


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


@dataclass(frozen=True, slots=True)
class Rescue:
    """Have this executor, which is nobody's any more, give what is to be kept; later `Rescued` is said of it."""

    number: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Nothing more of what is to be kept comes from this executor."""

    number: int


@dataclass(frozen=True, slots=True)
class ReportLeft:
    """Tell the controller that the executor of this epoch is gone, which it asked for."""

    epoch: Epoch


Effect: TypeAlias = Start | Kill | Use | ReportDeath | Rescue | GiveUp | ReportLeft


class Executors:
    """The executors of one host. `step` gives effects that are to be carried out in order."""

    def __init__(self, keep_spare: bool = True) -> None:
        self._keep_spare = keep_spare
        self._states: dict[int, State] = {}
        self._last = 0
        self._current = 0
        self._waiting = 0
        self._leaving = 0
        # Of executors that had an epoch and are not gone, and how often their end is to be told.
        self._epochs: dict[int, Epoch] = {}
        self._owed: dict[int, int] = {}
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

    @property
    def leaving(self) -> int:
        """The executor from which arrays are brought; 0 if none."""
        return self._leaving

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
            case EpochEnded(epoch, keeps):
                return self._on_epoch_ended(epoch, keeps)
            case Rescued(number):
                return self._end_leaving() if number == self._leaving else []
            case Exited(number):
                return self._on_exited(number)
            case Closed():
                return self._on_closed()
            case _:
                assert_never(event)

    def _on_epoch_begun(self, epoch: Epoch) -> list[Effect]:
        if not self._open or epoch <= self._epoch:
            return []
        effects = self._end_leaving() + self._end_current()
        if not self._waiting:
            self._early_deaths = 0
            effects += self._want(0)
        self._current, self._waiting = self._waiting, 0
        self._epoch = self._epochs[self._current] = epoch
        self._move(self._current, State.ENTERING)
        return [*effects, Use(self._current)]

    def _on_epoch_ended(self, epoch: Epoch, keeps: bool) -> list[Effect]:
        number = next((number for number, its in self._epochs.items() if its == epoch), 0)
        if not number:
            return [ReportLeft(epoch)]
        self._owed[number] = self._owed.get(number, 0) + 1
        if number == self._leaving:
            return [] if keeps else self._end_leaving()
        if number != self._current:
            return []
        if not keeps or self.state(number) is not State.ACTIVE:
            return self._end_current() + self._want(0)
        self._move(number, State.LEAVING)
        self._current, self._leaving = 0, number
        return [Use(0), Rescue(number), *self._want(0)]

    def _on_closed(self) -> list[Effect]:
        self._open = False
        # Nobody is left to be told.
        self._owed.clear()
        effects = self._end_leaving() + self._end_current()
        if self._waiting:
            effects.append(Kill(self._waiting))
            self._move(self._waiting, State.DEAD)
            self._waiting = 0
        self._epoch = Epoch(0)
        # A controller counts its epochs anew: those of the one before name nothing.
        self._epochs.clear()
        return effects

    def _on_exited(self, number: int) -> list[Effect]:
        state = self.state(number)
        epoch = self._epochs.pop(number, None)
        told: list[Effect] = []
        if epoch is not None:
            told = [ReportLeft(epoch)] * self._owed.pop(number, 0)
        if state in (State.NONE, State.DEAD):
            self._states.pop(number, None)
            return told
        self._move(number, State.DEAD)
        del self._states[number]
        if number == self._current:
            self._current = 0
            return [Use(0), ReportDeath(number, self._epoch), *self._want(0)]
        if number == self._leaving:
            self._leaving = 0
            return [GiveUp(number), *told]
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

    def _end_leaving(self) -> list[Effect]:
        number, self._leaving = self._leaving, 0
        if not number:
            return []
        self._move(number, State.DEAD)
        return [GiveUp(number), Kill(number)]

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
