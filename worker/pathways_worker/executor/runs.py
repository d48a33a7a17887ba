"""Runs of plans: a granted range of steps is carried out at once, in the plan's order, with ids computed once per run.

Ranges with launches of this host go through the gang queue like single executions; ranges without any wait there for the launch
that they follow. What is sent is registered right after it is made, so whoever waits here waits only for what was granted before.
A run is forgotten after its last step, or, when the controller ends it, after the last granted one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pathways_common.model.failure import PathwaysError, Reason
from pathways_common.model.ids import Epoch, GlobalId
from pathways_common.model.ids import Sequence as SequenceNumber
from pathways_proto.v1 import plans_pb2, types_pb2, workers_pb2

from pathways_worker.core import groups, plans
from pathways_worker.core.gang_queue import Effect, Following, GangQueue, Granted, Prepared, RunRange
from pathways_worker.core.loaded_plan import LoadedPlan
from pathways_worker.core.plans import HostPlan, HostStep, LaunchStep, PlaceStep, SendStep
from pathways_worker.executor import runtime
from pathways_worker.executor.clock import now_ns
from pathways_worker.executor.failures import FailureMessage
from pathways_worker.executor.launcher import Launcher
from pathways_worker.executor.objects import Objects
from pathways_worker.executor.placing import Box, Form, Piece, Placer, Shard
from pathways_worker.executor.readers import Readers
from pathways_worker.executor.traces import Row, RunTrace, Traces
from pathways_worker.executor.window import Entry
from pathways_worker.holdings import Held
from pathways_worker.plan_messages import read_groups, read_plan

# Runs that are over are remembered, so that a repeated message begins none of them again.
OVER_MAX = 4096
# While others compete the controller reckons with its estimates until a range ends, which is told at once; what it reckons with
# in between is set right this often.
_PATIENCE_NS = 4_000_000
# Orders of ranges that are kept per plan; without competitors there is one.
ORDERS_MAX = 64


class _Range(NamedTuple):
    """Steps that may be carried out. `sequence` is that of the island's first launch, `first` and `last` are this host's own.

    `fused`: groups that lie in it whole are launched as one. `timed`: when its launches ran is told.
    """

    first_step: int
    end_step: int
    sequence: int
    previous: int
    first: int
    last: int
    fused: bool
    timed: bool


class _Loaded:
    """A plan of this host, with its groups and the orders of its ranges."""

    __slots__ = ("_orders", "groups", "plan")

    def __init__(self, plan: HostPlan) -> None:
        self.plan = plan
        self.groups: tuple[LaunchStep, ...] = ()
        self._orders: dict[tuple[int, int, bool], tuple[HostStep, ...]] = {}

    def order(self, first_step: int, end_step: int, fused: bool) -> tuple[HostStep, ...]:
        """The steps of a range as they are carried out."""
        key = (first_step, end_step, fused)
        known = self._orders.get(key)
        if known is None:
            if len(self._orders) >= ORDERS_MAX:
                self._orders.clear()
            steps = groups.with_groups(self.plan, self.groups, first_step, end_step) if fused else ()
            known = self._orders[key] = self.plan.in_order(first_step, end_step, steps)
        return known


class _Run:
    """One run. `ids` are by slot; steps before `done` are carried out, those before `ready` may be, `ranges` are in between.

    `early` ranges wait for one before them.
    """

    __slots__ = (
        "donated", "done", "early", "ended", "execution_id", "ids", "loaded", "number", "ranges", "ready", "timeout_s", "trace"
    )  # fmt: skip

    def __init__(self, message: Any, loaded: _Loaded, trace: RunTrace) -> None:
        plan = loaded.plan
        self.execution_id = GlobalId(message.execution_id)
        self.loaded = loaded
        self.trace = trace
        self.number = int(message.number)
        self.timeout_s = message.timeout_ns / 1e9
        self.ids = list(range(message.first_value_id, message.first_value_id + plan.slot_count))
        self.ids[: plan.argument_count] = arguments = list(message.arguments)
        for position, slot in enumerate(plan.results):
            self.ids[slot] = message.first_result_id + position
        # An array that came twice is never given up under one of its names.
        self.donated = frozenset(slot for slot in message.donated if arguments.count(arguments[slot]) == 1)
        self.done = self.ready = 0
        self.ranges: dict[int, _Range] = {}
        self.early: dict[int, _Range] = {}
        self.ended: FailureMessage | None = None

    @property
    def is_over(self) -> bool:
        """Nothing of it is left. What was granted is carried out, also when the run has been ended and a range came early."""
        if self.done >= self.loaded.plan.step_count:
            return True
        return self.ended is not None and self.done == self.ready and not self.early


class Runs:
    """The plans and runs of one executor.

    `carry_out(effects)` does what the gang queue says, `breathe` is called between launches, with whether the rest of the run
    waits for a grant.
    """

    def __init__(
        self,
        queue: GangQueue,
        epoch: int,
        own_name: Callable[[LoadedPlan], str],
        objects: Objects,
        launcher: Launcher,
        placer: Placer,
        readers: Readers,
        carry_out: Callable[[Sequence[Effect]], None],
        breathe: Callable[[bool], None],
        delay_ns: int,
    ) -> None:
        self.traces = Traces()
        self._queue = queue
        self._epoch = epoch
        self._own_name = own_name
        self._objects = objects
        self._launcher = launcher
        self._placer = placer
        self._readers = readers
        self._carry_out = carry_out
        self._breathe = breathe
        self._delay_ns = delay_ns
        self._plans: dict[int, _Loaded] = {}
        self._defects: dict[int, str] = {}
        self._runs: dict[int, _Run] = {}
        self._over: dict[int, None] = {}

    # ---- plans -----------------------------------------------------------------------------------------------------

    def load(self, message: Any) -> Any:
        """Carries out a LoadPlan: the PlanLoaded to be told; None if it was loaded before.

        Of a plan that cannot be expanded nothing is granted; should a run of it come all the same, it stops the order.
        """
        if message.plan_id in self._plans:
            return None
        answer = plans_pb2.PlanLoaded(plan_id=message.plan_id, epoch=self._epoch)
        try:
            plan = read_plan(message)
            mine = plans.host_plan(plan, self._own_name(plan))
        except (PathwaysError, LookupError, ValueError) as error:
            self._defects[message.plan_id] = str(error)
            answer.failure.reason = Reason.PROGRAM_REFUSED.value
            answer.failure.message = f"a host cannot carry out program {message.name}: {error}"
            return answer
        self._plans[message.plan_id] = _Loaded(mine)
        fields = plans.understood(plan, mine)
        answer.fields.extend(types_pb2.FieldDigest(name=field.name, digest=field.digest) for field in fields)
        return answer

    def group(self, message: Any) -> None:
        """Carries out a GroupPlan."""
        loaded = self._plans.get(message.plan_id)
        if loaded is not None:
            loaded.groups = groups.group_launches(loaded.plan, read_groups(message))

    def unload(self, message: Any) -> None:
        """Carries out an UnloadPlan; runs that have begun go on."""
        for plan_id in message.plan_ids:
            self._plans.pop(plan_id, None)
            self._defects.pop(plan_id, None)

    def held(self) -> list[Held]:
        """Plans, and runs that are not over."""
        plans_kept = dict.fromkeys([*self._plans, *self._defects])
        return [Held(workers_pb2.HELD_KIND_PLAN, list(plans_kept)), Held(workers_pb2.HELD_KIND_RUN, list(self._runs))]

    # ---- ranges ----------------------------------------------------------------------------------------------------

    def run(self, message: Any) -> None:
        """Carries out a RunPlan: gets the run ready and takes its first grant."""
        if message.epoch != self._epoch or message.execution_id in self._over:
            return
        run = self._runs.get(message.execution_id)
        if run is None:
            loaded = self._plans.get(message.plan_id)
            if loaded is None:
                cause = self._defects.get(message.plan_id, "it was not loaded here")
                text = f"run {message.execution_id:#x} is of plan {message.plan_id}, which this host cannot carry out: {cause}"
                self._carry_out([self._queue.stop(SequenceNumber(message.sequence), text)])
                return
            run = _Run(message, loaded, self.traces.begin(message.execution_id, loaded.plan))
            self._runs[message.execution_id] = run
            if self._delay_ns and loaded.plan.launches:
                time.sleep(self._delay_ns * len(loaded.plan.launches) / 1e9)
            run.trace.prepared_ns = now_ns()
        self._take(run, self._range(run, 0, message))

    def grant(self, message: Any) -> None:
        """Carries out a GrantRun. Grants follow the RunPlan on the same ordered link: an unknown run is over."""
        run = self._runs.get(message.execution_id)
        if run is not None and message.epoch == self._epoch:
            self._take(run, self._range(run, message.first_step, message))

    def _range(self, run: _Run, first_step: int, message: Any) -> _Range:
        own = run.loaded.plan.own_sequences(first_step, message.end_step, message.sequence)
        return _Range(first_step, message.end_step, message.sequence, message.previous, *own, message.fused, message.timed)

    def _take(self, run: _Run, granted: _Range) -> None:
        """A range is granted, perhaps not for the first time, perhaps before the one that precedes it."""
        first_step, end_step = granted.first_step, granted.end_step
        if first_step > run.ready:
            run.early.setdefault(first_step, granted)
            if granted.first:
                self._carry_out(self._queue.step(Granted(*self._grant(run, granted))))
            return
        if first_step == run.ready and end_step > first_step:
            run.ready = end_step
            run.ranges[first_step] = granted
            run.trace.granted(run.loaded.order(first_step, end_step, granted.fused))
        elif not granted.first:
            return
        # The queue tells a repetition from a contradiction.
        if granted.first:
            grant = self._grant(run, granted)
            if self._queue.launch_next(*grant):
                self.carry_out(grant[0])
            else:
                self._carry_out(self._queue.step(Prepared(*grant)))
        else:
            work, previous = RunRange(run.execution_id, first_step, end_step), SequenceNumber(granted.previous)
            self._carry_out(self._queue.step(Following(work, previous, Epoch(self._epoch))))
        following = run.early.pop(run.ready, None)
        if following is not None:
            self._take(run, following)

    def _grant(self, run: _Run, granted: _Range) -> tuple[RunRange, SequenceNumber, SequenceNumber, Epoch, SequenceNumber]:
        work = RunRange(run.execution_id, granted.first_step, granted.end_step)
        first, previous, last = (SequenceNumber(number) for number in (granted.first, granted.previous, granted.last))
        return work, first, previous, Epoch(self._epoch), last

    def end(self, message: Any) -> None:
        """Carries out an EndRun: no range follows those that were granted."""
        run = self._runs.get(message.execution_id)
        if run is None or run.ended is not None:
            return
        run.ended = message.failure
        if run.is_over:
            self._forget(run)

    # ---- steps -----------------------------------------------------------------------------------------------------

    def carry_out(self, work: RunRange) -> None:
        """The queue lets this range go: the next one of its run."""
        run = self._runs[work.execution_id]
        granted = run.ranges.pop(run.done)
        for step in run.loaded.order(granted.first_step, granted.end_step, granted.fused):
            self._step(run, granted, step)
        run.done = granted.end_step
        if run.is_over:
            self._forget(run)

    def _step(self, run: _Run, granted: _Range, step: HostStep) -> None:
        ids = run.ids
        if isinstance(step, LaunchStep):
            kept: Sequence[int] = step.non_donatable
            if step.from_arguments:
                kept = (*kept, *(position for position, slot in step.from_arguments if slot not in run.donated))
            row = run.trace.rows[step.step]
            row.sequence = run.loaded.plan.sequence_of(step, granted.first_step, granted.sequence)
            results = [ids[slot] for slot in step.results]
            patience_ns = _PATIENCE_NS if row.sequence < granted.last else 0
            entry = Entry(run.execution_id, row.sequence, results, row=row, timed=granted.timed, patience_ns=patience_ns)
            self._launcher.launch_node(entry, step.executable_id, [ids[slot] for slot in step.arguments], kept, run.timeout_s)
            self._breathe(run.ready < run.loaded.plan.step_count)
        elif isinstance(step, SendStep):
            box = (step.start, step.limit)
            self._readers.read(plans.fetch_number(run.number, step.count), True, ids[step.slot], step.local_index, box)
        elif isinstance(step, PlaceStep):
            self._place(run, step, run.trace.rows[step.step])
        else:
            self._launcher.forget([ids[slot] for slot in step.slots])

    def _place(self, run: _Run, step: PlaceStep, row: Row) -> None:
        row.launched_ns = row.enqueued_ns = row.started_ns = now_ns()

        def ended(array: runtime.Array | None, failure: FailureMessage | None) -> None:
            row.finished_ns = now_ns()

        spec = step.spec.spec
        pieces = [Piece(piece.local_device, _source(run, piece.source)) for piece in step.pieces]
        identifier = run.ids[step.slot]
        self._placer.place_pieces(identifier, Form(spec.dtype, spec.shard_shape, spec.memory_kind), pieces, ended)
        if step.copied_bytes:
            self._launcher.view_of(identifier, [run.ids[step.source]])

    def _forget(self, run: _Run) -> None:
        del self._runs[run.execution_id]
        if len(self._over) >= OVER_MAX:
            del self._over[next(iter(self._over))]
        self._over[run.execution_id] = None
        if run.ended is not None:
            own = [run.ids[slot] for slot in run.loaded.plan.own_slots]
            self._objects.fail_pending(own, run.ended)
            self._launcher.forget(own)
        if run.loaded.plan.pulls:
            self._objects.close_run(run.number)


def _source(run: _Run, source: int | plans.Local | tuple[plans.BoxPart, ...]) -> int | Shard | tuple[Box, ...]:
    """Where a piece of a plan comes from, in the numbers of this run."""
    if isinstance(source, int):
        return plans.transfer_number(run.number, source)
    if isinstance(source, plans.Local):
        return Shard(run.ids[source.slot], source.local_index)
    return tuple(Box(part.start, part.shape, _part(run, part.source), part.local_start) for part in source)


def _part(run: _Run, source: int | plans.Local) -> int | Shard:
    if isinstance(source, int):
        return plans.transfer_number(run.number, source)
    return Shard(run.ids[source.slot], source.local_index)
