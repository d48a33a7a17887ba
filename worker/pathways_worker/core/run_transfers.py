"""Both ends of a run's pulls work out the same tickets, and a granted step is all that either of them waits for.

Of a plan only this host's sends and pulls matter here, each in the order of the steps. A run has at most PULLS_MAX pulls under
way: the next starts when one ends, in step order, so the first of all that wait can always go on. Whatever ends a run or the
executor ends its pulls too; nothing here waits by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from pathways_common.model.ids import FetchId, GlobalId, TransferId, session_of

from .plans import COUNT_BITS, RUN_NUMBERS, HostPlan, Pull, Send, fetch_number, ticket, transfer_number

# Pulls of one run under way; each holds a call here and on the host that it pulls from.
PULLS_MAX = 256
# Runs whose arrival is remembered for a trace, and whose sends for a late end.
RUNS_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class ExpectFetch:
    """The executor will answer this fetch; somebody will pull it under the ticket."""

    fetch_id: FetchId
    ticket: str
    timeout_ns: int
    session: int = 0


@dataclass(frozen=True, slots=True)
class WantPull:
    """Pull these bytes from another worker for the executor."""

    transfer_id: TransferId
    address: str
    ticket: str
    size_bytes: int
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class EndTransfers:
    """Nobody waits for these any more: pulls of ours, fetches of others."""

    transfer_ids: tuple[TransferId, ...]
    fetch_ids: tuple[FetchId, ...]


Effect: TypeAlias = ExpectFetch | WantPull


@dataclass(slots=True)
class _Run:
    execution_id: int
    number: int
    received_ns: int
    sends: tuple[Send, ...]
    pulls: tuple[Pull, ...]
    ticket_key: bytes
    timeout_ns: int
    end_step: int = 0
    # How many sends and pulls were begun.
    expected: int = 0
    started: int = 0
    under_way: dict[TransferId, None] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Nothing is left to begin or to wait for."""
        return self.expected == len(self.sends) and self.started == len(self.pulls) and not self.under_way

    def due_sends(self) -> list[Send]:
        """Those of granted steps, each once."""
        first = self.expected
        while self.expected < len(self.sends) and self.sends[self.expected].step < self.end_step:
            self.expected += 1
        return list(self.sends[first : self.expected])

    def due_pulls(self, room: int) -> list[Pull]:
        """The next `room` of those of granted steps, each once."""
        first = self.started
        while self.started < len(self.pulls) and self.pulls[self.started].step < self.end_step and self.started - first < room:
            self.started += 1
        return list(self.pulls[first : self.started])


class RunTransfers:
    """The plans and runs of the current executor."""

    def __init__(self) -> None:
        self._plans: dict[int, HostPlan] = {}
        # Runs that may still begin or wait for something; the same by number.
        self._active: dict[int, _Run] = {}
        self._numbers: dict[int, _Run] = {}
        self._recent: dict[int, _Run] = {}

    @property
    def open_count(self) -> int:
        """Runs that may still begin or wait for a transfer."""
        return len(self._active)

    @property
    def plan_count(self) -> int:
        """Plans that are kept."""
        return len(self._plans)

    @property
    def plan_ids(self) -> list[int]:
        """Those of the plans."""
        return list(self._plans)

    @property
    def execution_ids(self) -> list[int]:
        """Those of the runs that may still begin or wait for a transfer."""
        return list(self._active)

    def loaded(self, plan: HostPlan) -> None:
        """Runs of this plan will come."""
        self._plans[plan.plan_id] = plan

    def unloaded(self, plan_ids: Iterable[int]) -> None:
        """No more runs of these plans; those that have begun go on."""
        for plan_id in plan_ids:
            self._plans.pop(plan_id, None)

    def cleared(self) -> None:
        """Another executor, or none: nothing of the one before goes on."""
        self._plans.clear()
        for table in (self._active, self._numbers, self._recent):
            table.clear()

    def begun(
        self, execution_id: int, plan_id: int, number: int, ticket_key: bytes, timeout_ns: int, end_step: int, received_ns: int
    ) -> list[Effect]:
        """A run and its first grant. Of a plan that is not known only the arrival is kept; the executor says what is wrong."""
        if execution_id in self._active or execution_id in self._recent:
            return self.granted(execution_id, end_step)
        plan = self._plans.get(plan_id)
        sends, pulls = ((), ()) if plan is None else (plan.sends, plan.pulls)
        run = _Run(execution_id, number, received_ns, sends, pulls, ticket_key, timeout_ns)
        self._recent[execution_id] = run
        if len(self._recent) > RUNS_REMEMBERED:
            del self._recent[next(iter(self._recent))]
        if run.over:
            return []
        self._active[execution_id] = self._numbers[number] = run
        return self.granted(execution_id, end_step)

    def granted(self, execution_id: int, end_step: int) -> list[Effect]:
        """The steps of a run before `end_step` may be carried out; a repetition changes nothing."""
        run = self._active.get(execution_id)
        if run is None:
            return []
        run.end_step = max(run.end_step, end_step)
        effects: list[Effect] = []
        for send in run.due_sends():
            fetch_id = fetch_number(run.number, send.number)
            capability = ticket(run.ticket_key, send.ticket_text)
            effects.append(ExpectFetch(fetch_id, capability, run.timeout_ns, session_of(GlobalId(run.execution_id))))
        return effects + self._go_on(run)

    def pull_ended(self, transfer_id: TransferId) -> list[Effect]:
        """The bytes of a pull, or its failure, are on their way to the executor."""
        run = self._numbers.get((transfer_id - RUN_NUMBERS) >> COUNT_BITS)
        if run is None or transfer_id not in run.under_way:
            return []
        del run.under_way[transfer_id]
        return self._go_on(run)

    def ended(self, execution_id: int) -> EndTransfers:
        """Nothing more of this run will be granted, and what of it waits fails."""
        run = self._active.pop(execution_id, None) or self._recent.get(execution_id)
        if run is None:
            return EndTransfers((), ())
        self._numbers.pop(run.number, None)
        waiting = [*run.under_way]
        waiting += [transfer_number(run.number, pull.number) for pull in run.due_pulls(len(run.pulls))]
        run.under_way.clear()
        fetches = [fetch_number(run.number, send.number) for send in run.sends[: run.expected]]
        return EndTransfers(tuple(waiting), tuple(fetches))

    def received_ns(self, execution_id: int) -> int:
        """When the run came here; 0 if it is too long ago."""
        run = self._recent.get(execution_id)
        return 0 if run is None else run.received_ns

    def _go_on(self, run: _Run) -> list[Effect]:
        """Starts the pulls that there is room for; forgets a run that has nothing left."""
        effects: list[Effect] = []
        for pull in run.due_pulls(PULLS_MAX - len(run.under_way)):
            transfer_id = transfer_number(run.number, pull.number)
            run.under_way[transfer_id] = None
            capability = ticket(run.ticket_key, pull.ticket_text)
            effects.append(WantPull(transfer_id, pull.address, capability, pull.size_bytes, run.timeout_ns))
        if run.over:
            del self._active[run.execution_id], self._numbers[run.number]
        return effects
