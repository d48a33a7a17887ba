"""A host launches its gangs in the island's order or not at all.

Each grant carries the island's sequence and the previous sequence of this host. A gang is launched only when that previous
one is the last one launched here; a later grant is held and the missing one asked for, once. A grant that contradicts what was
launched or is held stops the queue before anything enters a collective. Why: two processes that enqueue the same two all-reduces
in opposite order return silently wrong numbers. Duplicates and late reports are normal and ignored with a reason. A grant may
cover several launches of this host in a row, those of a range of steps of a run: it goes by its first and last sequence, and
each range of a run counts as an execution of its own. A range without launches of this host takes no sequence; it follows its
previous and never overtakes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, assert_never

from pathways_common.model.ids import Epoch, GlobalId, Sequence

# Launches remembered to tell a repetition from a contradiction; a link re-sends few frames, so older ones are only late.
HISTORY_MAX = 4096
# Prepared executions and grants that wait; the controller's window is 256 gangs, so only a defect comes near.
WAITING_MAX = 65536
# As the last sequence of a grant: it covers one launch.
ONE = Sequence(0)


class RunRange(NamedTuple):
    """A range of steps of a run."""

    execution_id: GlobalId
    first_step: int
    end_step: int


Work: TypeAlias = GlobalId | RunRange


@dataclass(frozen=True, slots=True)
class Prepared:
    """An execution is ready on this host. `sequence` 0: without a grant; else as in `Granted`."""

    work: Work
    sequence: Sequence
    previous: Sequence
    epoch: Epoch
    last: Sequence = ONE


@dataclass(frozen=True, slots=True)
class Granted:
    """An execution may be launched as `sequence` of the island, right after `previous` on this host.

    For a range: its first launch here as `sequence`, its last as `last`; `last` ONE: there is only one.
    """

    work: Work
    sequence: Sequence
    previous: Sequence
    epoch: Epoch
    last: Sequence = ONE


@dataclass(frozen=True, slots=True)
class Following:
    """A range without launches of this host is to be carried out when `previous` is launched; told once.

    What it sends or frees is made by launches up to `previous`.
    """

    work: RunRange
    previous: Sequence
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A prepared execution that was never granted is withdrawn."""

    work: Work


@dataclass(frozen=True, slots=True)
class EpochReset:
    """A new epoch begins: nothing of the old one is launched any more, sequences restart at 1 with previous 0."""

    epoch: Epoch


Event: TypeAlias = Prepared | Granted | Following | Cancelled | EpochReset


@dataclass(frozen=True, slots=True)
class Launch:
    """Enqueue this execution or range now; effects are carried out in the order of the list. `sequence` 0: it only follows."""

    work: Work
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
    work: Work
    last: Sequence


class _History:
    """At least the last HISTORY_MAX launches, by sequence and by execution: two generations, so that forgetting costs nothing."""

    __slots__ = ("_forgot", "_sequences", "_sequences_before", "_works", "_works_before")

    def __init__(self) -> None:
        self._sequences: dict[Sequence, _Grant] = {}
        self._sequences_before: dict[Sequence, _Grant] = {}
        self._works: dict[Work, _Grant] = {}
        self._works_before: dict[Work, _Grant] = {}
        self._forgot = False

    def add(self, grant: _Grant) -> None:
        if len(self._sequences) >= HISTORY_MAX:
            self._forgot = bool(self._sequences_before)
            self._sequences_before, self._sequences = self._sequences, {}
            self._works_before, self._works = self._works, {}
        self._sequences[grant.sequence] = grant
        self._works[grant.work] = grant

    def of_sequence(self, sequence: Sequence) -> _Grant | None:
        return self._sequences.get(sequence) or self._sequences_before.get(sequence)

    def of_work(self, work: Work) -> _Grant | None:
        return self._works.get(work) or self._works_before.get(work)

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
        self._prepared: dict[Work, None] = {}
        # What is granted and not launched, four ways.
        self._held: dict[Sequence, _Grant] = {}
        self._held_by_last: dict[Sequence, _Grant] = {}
        self._held_by_previous: dict[Sequence, _Grant] = {}
        self._held_by_work: dict[Work, _Grant] = {}
        # Ranges without launches, by the sequence that each follows, as they came.
        self._following: dict[Sequence, list[RunRange]] = {}
        self._asked: dict[Sequence, None] = {}
        self._cancelled: dict[Work, None] = {}

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
        """Prepared executions without a grant, and grants and following ranges that are held."""
        return len(self._prepared) + len(self._held) + sum(map(len, self._following.values()))

    def launch_next(self, work: Work, sequence: Sequence, previous: Sequence, epoch: Epoch, last: Sequence = ONE) -> bool:
        """The hot path of `Prepared` with a grant: True if it is next, and then it counts as launched; False: use `step`."""
        if previous != self._last or sequence <= previous or epoch != self._epoch or self._stopped:
            return False
        if self._held or self._following:
            return False
        if work in self._prepared or work in self._cancelled or self._history.of_work(work):
            return False
        last = last or sequence
        if last < sequence:
            return False
        self._last = last
        self._history.add(_Grant(sequence, previous, work, last))
        return True

    def step(self, event: Event) -> list[Effect]:
        """What to do about one event, in order."""
        match event:
            case Prepared():
                return self._on_prepared(event)
            case Granted():
                return self._on_granted(event)
            case Following():
                return self._on_following(event)
            case Cancelled():
                return self._on_cancelled(event)
            case EpochReset():
                return self._on_epoch_reset(event)
            case _:
                assert_never(event)

    def _on_prepared(self, event: Prepared) -> list[Effect]:
        if self.launch_next(event.work, event.sequence, event.previous, event.epoch, event.last):
            return [Launch(event.work, event.sequence)]
        late = self._late(event)
        if late is not None:
            return [late]
        if event.sequence:
            answer = self._hold(event)
            waits_for_this = event.work in self._held_by_work and event.work not in self._prepared
            if answer is not None and (isinstance(answer, Stop) or not waits_for_this):
                return [answer]
        elif event.work in self._prepared:
            return [Ignored("prepared already")]
        if len(self._prepared) >= WAITING_MAX:
            return [self.stop(event.sequence, f"more than {WAITING_MAX} executions wait for a grant")]
        self._prepared[event.work] = None
        return self._drain() or self._ask_for(event.sequence)

    def _on_granted(self, event: Granted) -> list[Effect]:
        late = self._late(event)
        if late is not None:
            return [late]
        answer = self._hold(event)
        if answer is not None:
            return [answer]
        return self._drain() or self._ask_for(event.sequence)

    def _on_following(self, event: Following) -> list[Effect]:
        late = self._outside(event.epoch)
        if late is not None:
            return [late]
        if event.previous <= self._last or not self._check:
            return [Launch(event.work, Sequence(0))]
        inside = next((held for held in self._held.values() if held.previous < event.previous < held.last), None)
        if inside is not None:
            return [self.stop(event.previous, f"{_following(event.work, event.previous)} comes after {_text(inside)}")]
        if len(self._following) >= WAITING_MAX:
            return [self.stop(event.previous, f"ranges follow more than {WAITING_MAX} launches that have not come")]
        self._following.setdefault(event.previous, []).append(event.work)
        return self._ask(event.previous)

    def _outside(self, epoch: Epoch) -> Ignored | None:
        """Why nothing is launched for an epoch; None if something can be."""
        if epoch != self._epoch:
            return Ignored(f"of epoch {epoch}, which is {'over' if epoch < self._epoch else 'not begun'}")
        return Ignored("the order broke in this epoch") if self._stopped else None

    def _late(self, event: Prepared | Granted) -> Ignored | None:
        """Why nothing can come of an event; None if something can."""
        outside = self._outside(event.epoch)
        if outside is not None:
            return outside
        if event.sequence:
            return None
        if event.work in self._cancelled:
            return Ignored("cancelled before it was granted")
        return None if self._history.of_work(event.work) is None else Ignored("launched already")

    def _hold(self, event: Prepared | Granted) -> Ignored | Stop | None:
        """Takes a grant in; else says why not. Without the check only repetitions are kept out."""
        grant = _Grant(event.sequence, event.previous, event.work, event.last or event.sequence)
        known = self._held.get(grant.sequence) or self._history.of_sequence(grant.sequence)
        if known is not None and (known == grant or not self._check):
            return Ignored("granted already")
        if self._check:
            if 0 < grant.sequence < self._history.first:
                return Ignored("launched too long ago to compare")
            broken = self._contradiction(grant, known)
            if broken is not None:
                return self.stop(grant.sequence, broken)
        if len(self._held) >= WAITING_MAX:
            return self.stop(grant.sequence, f"more than {WAITING_MAX} grants wait for an earlier one")
        self._held[grant.sequence] = grant
        self._held_by_last[grant.last] = grant
        self._held_by_previous[grant.previous] = grant
        self._held_by_work[grant.work] = grant
        self._asked.pop(grant.last, None)
        return None

    def _contradiction(self, grant: _Grant, known: _Grant | None) -> str | None:
        """What is wrong with a grant that is new; `known` has the same sequence and other content."""
        if grant.previous >= grant.sequence or grant.sequence > grant.last:
            return f"{_text(grant)} does not come after its own previous or ends before it begins"
        if known is not None:
            return f"{_text(grant)} comes after {_text(known)}"
        if grant.sequence <= self._last:
            return f"{_text(grant)} comes after sequence {self._last} was launched"
        if grant.previous < self._last:
            return f"{_text(grant)} names an older previous than {self._last}, the last one launched"
        if grant.work in self._cancelled:
            return f"{_text(grant)} was cancelled"
        twin = self._held_by_work.get(grant.work) or self._history.of_work(grant.work)
        if twin is None:
            # Between a previous and its sequence this host has nothing to launch, so no two such spans overlap.
            spans = (held for held in self._held.values() if grant.previous < held.last and held.previous < grant.last)
            twin = next(spans, None)
        if twin is not None:
            return f"{_text(grant)} comes after {_text(twin)}"
        inside = next((previous for previous in self._following if grant.previous < previous < grant.last), None)
        return None if inside is None else f"{_text(grant)} comes after {_following(self._following[inside][0], inside)}"

    def _drain(self) -> list[Effect]:
        """Launches what is next, and what is next after that."""
        effects: list[Effect] = []
        while (grant := self._next()) is not None:
            del self._held[grant.sequence]
            # Without the check two grants may share a previous, a last or an execution.
            self._held_by_last.pop(grant.last, None)
            self._held_by_previous.pop(grant.previous, None)
            self._held_by_work.pop(grant.work, None)
            del self._prepared[grant.work]
            self._asked.pop(grant.last, None)
            self._last = grant.last
            self._history.add(grant)
            effects.append(Launch(grant.work, grant.sequence))
            effects += [Launch(work, Sequence(0)) for work in self._following.pop(grant.last, ())]
        return effects

    def _next(self) -> _Grant | None:
        if self._check:
            grant = self._held_by_previous.get(self._last)
            return grant if grant is not None and grant.work in self._prepared else None
        return next((grant for grant in self._held.values() if grant.work in self._prepared), None)

    def _ask_for(self, sequence: Sequence) -> list[Effect]:
        """Asks for what a held grant waits for: its previous, or the prepare of that one."""
        grant = self._held.get(sequence)
        return [] if grant is None or not self._check or grant.previous == self._last else self._ask(grant.previous)

    def _ask(self, previous: Sequence) -> list[Effect]:
        """Asks for a launch that others wait for and that is not here whole. Once each."""
        before = self._held_by_last.get(previous)
        if previous in self._asked or (before is not None and before.work in self._prepared):
            return []
        self._asked[previous] = None
        return [AskAgain(previous, self._epoch)]

    def _on_cancelled(self, event: Cancelled) -> list[Effect]:
        if event.work in self._held_by_work or self._history.of_work(event.work) is not None:
            return [Ignored("granted already, and what is granted is never withdrawn")]
        if event.work not in self._prepared:
            return [Ignored("not prepared here")]
        del self._prepared[event.work]
        if len(self._cancelled) >= HISTORY_MAX:
            del self._cancelled[next(iter(self._cancelled))]
        self._cancelled[event.work] = None
        return []

    def _on_epoch_reset(self, event: EpochReset) -> list[Effect]:
        if event.epoch <= self._epoch:
            return [Ignored(f"epoch {self._epoch} has begun already")]
        self._epoch = event.epoch
        self._clear()
        return []

    def stop(self, sequence: Sequence, text: str) -> Stop:
        """Launches nothing more in this epoch."""
        self._stopped = True
        return Stop(sequence, text)


def _text(grant: _Grant) -> str:
    work = grant.work
    if isinstance(work, int):
        return f"sequence {grant.sequence} (previous {grant.previous}, execution {work})"
    return f"sequences {grant.sequence} to {grant.last} (previous {grant.previous}, {_steps(work)})"


def _following(work: RunRange, previous: Sequence) -> str:
    return f"{_steps(work)}, which follow sequence {previous},"


def _steps(work: RunRange) -> str:
    return f"steps {work.first_step} to {work.end_step} of run {work.execution_id}"
