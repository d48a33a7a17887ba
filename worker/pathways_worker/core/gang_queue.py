"""A host launches its gangs in the island's order or not at all.

Each grant carries the island's sequence and the previous sequence of this host. A gang is launched only when that previous
one is the last one launched here; a later grant is held and the missing one asked for, once. A grant that contradicts what was
launched or is held stops the queue before anything enters a collective. Why: two processes that enqueue the same two all-reduces
in opposite order return silently wrong numbers. Duplicates and late reports are normal and ignored with a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, assert_never

from pathways_common.model.ids import Epoch, GlobalId, Sequence

# Launches remembered to tell a repetition from a contradiction; a link re-sends few frames, so older ones are only late.
HISTORY_MAX = 4096
# Prepared executions and grants that wait; the controller's window is 256 gangs, so only a defect comes near.
WAITING_MAX = 65536


@dataclass(frozen=True, slots=True)
class Prepared:
    """An execution is ready on this host. `sequence` 0: without a grant; else as in `Granted`."""

    execution_id: GlobalId
    sequence: Sequence
    previous: Sequence
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Granted:
    """An execution may be launched as `sequence` of the island, right after `previous` on this host."""

    execution_id: GlobalId
    sequence: Sequence
    previous: Sequence
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A prepared execution that was never granted is withdrawn."""

    execution_id: GlobalId


@dataclass(frozen=True, slots=True)
class EpochReset:
    """A new epoch begins: nothing of the old one is launched any more, sequences restart at 1 with previous 0."""

    epoch: Epoch


Event: TypeAlias = Prepared | Granted | Cancelled | EpochReset


@dataclass(frozen=True, slots=True)
class Launch:
    """Enqueue this execution now; effects are carried out in the order of the list."""

    execution_id: GlobalId
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class AskAgain:
    """`sequence` (or its prepare) never came although a later grant names it; the controller is to send it again whole."""

    sequence: Sequence
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Stop:
    """The order broke: launch nothing more in this epoch."""

    sequence: Sequence
    text: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """Nothing happened, and that is normal."""

    reason: str


Effect: TypeAlias = Launch | AskAgain | Stop | Ignored


class _Grant(NamedTuple):
    sequence: Sequence
    previous: Sequence
    execution_id: GlobalId


class _History:
    """At least the last HISTORY_MAX launches, by sequence and by execution: two generations, so that forgetting costs nothing."""

    __slots__ = ("_executions", "_executions_before", "_forgot", "_sequences", "_sequences_before")

    def __init__(self) -> None:
        self._sequences: dict[Sequence, _Grant] = {}
        self._sequences_before: dict[Sequence, _Grant] = {}
        self._executions: dict[GlobalId, _Grant] = {}
        self._executions_before: dict[GlobalId, _Grant] = {}
        self._forgot = False

    def add(self, grant: _Grant) -> None:
        if len(self._sequences) >= HISTORY_MAX:
            self._forgot = bool(self._sequences_before)
            self._sequences_before, self._sequences = self._sequences, {}
            self._executions_before, self._executions = self._executions, {}
        self._sequences[grant.sequence] = grant
        self._executions[grant.execution_id] = grant

    def of_sequence(self, sequence: Sequence) -> _Grant | None:
        return self._sequences.get(sequence) or self._sequences_before.get(sequence)

    def of_execution(self, execution_id: GlobalId) -> _Grant | None:
        return self._executions.get(execution_id) or self._executions_before.get(execution_id)

    @property
    def first(self) -> Sequence:
        """Nothing before this sequence is remembered; 0 if nothing was forgotten."""
        return next(iter(self._sequences_before)) if self._forgot else Sequence(0)


class GangQueue:
    """The launch order of one host. With `check=False` gangs are launched as they arrive, to show what the rule prevents."""

    def __init__(self, check: bool = True) -> None:
        self._check = check
        self._epoch = Epoch(0)
        self._clear()

    def _clear(self) -> None:
        self._last = Sequence(0)
        self._stopped = False
        self._history = _History()
        self._prepared: dict[GlobalId, None] = {}
        # What is granted and not launched, three ways.
        self._held: dict[Sequence, _Grant] = {}
        self._held_by_previous: dict[Sequence, _Grant] = {}
        self._held_by_execution: dict[GlobalId, _Grant] = {}
        self._asked: dict[Sequence, None] = {}
        self._cancelled: dict[GlobalId, None] = {}

    @property
    def last(self) -> Sequence:
        """The last sequence launched in this epoch; 0 before the first."""
        return self._last

    @property
    def epoch(self) -> Epoch:
        """The epoch whose sequences are launched; 0 before the first."""
        return self._epoch

    @property
    def waiting(self) -> int:
        """Prepared executions without a grant and grants that are held."""
        return len(self._prepared) + len(self._held)

    def launch_next(self, execution_id: GlobalId, sequence: Sequence, previous: Sequence, epoch: Epoch) -> bool:
        """The hot path of `Prepared` with a grant: True if it is next, and then it counts as launched; False: use `step`."""
        if previous != self._last or sequence <= previous or epoch != self._epoch or self._held or self._stopped:
            return False
        if execution_id in self._prepared or execution_id in self._cancelled or self._history.of_execution(execution_id):
            return False
        self._last = sequence
        self._history.add(_Grant(sequence, previous, execution_id))
        return True

    def step(self, event: Event) -> list[Effect]:
        """What to do about one event, in order."""
        match event:
            case Prepared():
                return self._on_prepared(event)
            case Granted():
                return self._on_granted(event)
            case Cancelled():
                return self._on_cancelled(event)
            case EpochReset():
                return self._on_epoch_reset(event)
            case _:
                assert_never(event)

    def _on_prepared(self, event: Prepared) -> list[Effect]:
        if self.launch_next(event.execution_id, event.sequence, event.previous, event.epoch):
            return [Launch(event.execution_id, event.sequence)]
        late = self._late(event)
        if late is not None:
            return [late]
        if event.sequence:
            answer = self._hold(event)
            waits_for_this = event.execution_id in self._held_by_execution and event.execution_id not in self._prepared
            if answer is not None and (isinstance(answer, Stop) or not waits_for_this):
                return [answer]
        elif event.execution_id in self._prepared:
            return [Ignored("prepared already")]
        if len(self._prepared) >= WAITING_MAX:
            return [self._stop(event.sequence, f"more than {WAITING_MAX} executions wait for a grant")]
        self._prepared[event.execution_id] = None
        return self._drain() or self._ask(event.sequence)

    def _on_granted(self, event: Granted) -> list[Effect]:
        late = self._late(event)
        if late is not None:
            return [late]
        answer = self._hold(event)
        if answer is not None:
            return [answer]
        return self._drain() or self._ask(event.sequence)

    def _late(self, event: Prepared | Granted) -> Ignored | None:
        """Why nothing can come of an event; None if something can."""
        if event.epoch != self._epoch:
            return Ignored(f"of epoch {event.epoch}, which is {'over' if event.epoch < self._epoch else 'not begun'}")
        if self._stopped:
            return Ignored("the order broke in this epoch")
        if event.sequence:
            return None
        if event.execution_id in self._cancelled:
            return Ignored("cancelled before it was granted")
        return None if self._history.of_execution(event.execution_id) is None else Ignored("launched already")

    def _hold(self, event: Prepared | Granted) -> Ignored | Stop | None:
        """Takes a grant in; else says why not. Without the check only repetitions are kept out."""
        grant = _Grant(event.sequence, event.previous, event.execution_id)
        known = self._held.get(grant.sequence) or self._history.of_sequence(grant.sequence)
        if known is not None and (known == grant or not self._check):
            return Ignored("granted already")
        if self._check:
            if 0 < grant.sequence < self._history.first:
                return Ignored("launched too long ago to compare")
            broken = self._contradiction(grant, known)
            if broken is not None:
                return self._stop(grant.sequence, broken)
        if len(self._held) >= WAITING_MAX:
            return self._stop(grant.sequence, f"more than {WAITING_MAX} grants wait for an earlier one")
        self._held[grant.sequence] = grant
        self._held_by_previous[grant.previous] = grant
        self._held_by_execution[grant.execution_id] = grant
        self._asked.pop(grant.sequence, None)
        return None

    def _contradiction(self, grant: _Grant, known: _Grant | None) -> str | None:
        """What is wrong with a grant that is new; `known` has the same sequence and other content."""
        if grant.previous >= grant.sequence:
            return f"{_text(grant)} does not come after its own previous"
        if known is not None:
            return f"{_text(grant)} comes after {_text(known)}"
        if grant.sequence <= self._last:
            return f"{_text(grant)} comes after sequence {self._last} was launched"
        if grant.previous < self._last:
            return f"{_text(grant)} names an older previous than {self._last}, the last one launched"
        if grant.execution_id in self._cancelled:
            return f"{_text(grant)} was cancelled"
        twin = self._held_by_execution.get(grant.execution_id) or self._history.of_execution(grant.execution_id)
        if twin is None:
            # Between a previous and its sequence this host has nothing to launch, so no two such spans overlap.
            spans = (held for held in self._held.values() if grant.previous < held.sequence and held.previous < grant.sequence)
            twin = next(spans, None)
        return None if twin is None else f"{_text(grant)} comes after {_text(twin)}"

    def _drain(self) -> list[Effect]:
        """Launches what is next, and what is next after that."""
        effects: list[Effect] = []
        while (grant := self._next()) is not None:
            del self._held[grant.sequence]
            # Without the check two grants may share a previous or an execution.
            self._held_by_previous.pop(grant.previous, None)
            self._held_by_execution.pop(grant.execution_id, None)
            del self._prepared[grant.execution_id]
            self._asked.pop(grant.sequence, None)
            self._last = grant.sequence
            self._history.add(grant)
            effects.append(Launch(grant.execution_id, grant.sequence))
        return effects

    def _next(self) -> _Grant | None:
        if self._check:
            grant = self._held_by_previous.get(self._last)
            return grant if grant is not None and grant.execution_id in self._prepared else None
        return next((grant for grant in self._held.values() if grant.execution_id in self._prepared), None)

    def _ask(self, sequence: Sequence) -> list[Effect]:
        """Asks for what a held grant waits for: its previous, or the prepare of that one. Once each."""
        grant = self._held.get(sequence)
        if grant is None or not self._check or grant.previous == self._last or grant.previous in self._asked:
            return []
        before = self._held.get(grant.previous)
        if before is not None and before.execution_id in self._prepared:
            return []
        self._asked[grant.previous] = None
        return [AskAgain(grant.previous, self._epoch)]

    def _on_cancelled(self, event: Cancelled) -> list[Effect]:
        if event.execution_id in self._held_by_execution or self._history.of_execution(event.execution_id) is not None:
            return [Ignored("granted already, and what is granted is never withdrawn")]
        if event.execution_id not in self._prepared:
            return [Ignored("not prepared here")]
        del self._prepared[event.execution_id]
        if len(self._cancelled) >= HISTORY_MAX:
            del self._cancelled[next(iter(self._cancelled))]
        self._cancelled[event.execution_id] = None
        return []

    def _on_epoch_reset(self, event: EpochReset) -> list[Effect]:
        if event.epoch <= self._epoch:
            return [Ignored(f"epoch {self._epoch} has begun already")]
        self._epoch = event.epoch
        self._clear()
        return []

    def _stop(self, sequence: Sequence, text: str) -> Stop:
        self._stopped = True
        return Stop(sequence, text)


def _text(grant: _Grant) -> str:
    return f"sequence {grant.sequence} (previous {grant.previous}, execution {grant.execution_id})"
