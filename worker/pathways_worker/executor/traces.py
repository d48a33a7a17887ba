"""What happened when in the last runs: one row per launch and per move that brings something here.

Rows are filled in as things happen and turned into messages only when somebody asks. Times are those of clock.py; 0 = not yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pathways_proto.v1 import workers_pb2

from pathways_worker.core.plans import HostPlan, LaunchStep, PlaceStep
from pathways_worker.executor.clock import now_ns, wall_ns

RUNS_MAX = 256
# Of all runs that are kept but the last; about 300 bytes each.
ROWS_MAX = 50_000


class Row:
    """One launch or move."""

    __slots__ = ("enqueued_ns", "finished_ns", "granted_ns", "launched_ns", "sequence", "started_ns", "step")

    def __init__(self, step: LaunchStep | PlaceStep) -> None:
        self.step = step
        self.sequence = self.granted_ns = self.launched_ns = self.enqueued_ns = self.started_ns = self.finished_ns = 0

    def message(self) -> Any:
        """The row as it is told."""
        row = workers_pb2.TraceRow(
            step=self.step.step,
            granted_ns=wall_ns(self.granted_ns),
            launched_ns=wall_ns(self.launched_ns),
            enqueued_ns=wall_ns(self.enqueued_ns),
            started_ns=wall_ns(self.started_ns),
            finished_ns=wall_ns(self.finished_ns),
            sequence=self.sequence,
        )
        if isinstance(self.step, LaunchStep):
            row.node, row.last_node = self.step.node, self.step.last_node
        else:
            row.pulled_bytes, row.copied_bytes = self.step.pulled_bytes, self.step.copied_bytes
        return row


class RunTrace:
    """The rows of one run on this host, by step."""

    __slots__ = ("prepared_ns", "rows")

    def __init__(self, plan: HostPlan) -> None:
        self.rows = {step.step: Row(step) for step in plan.steps if isinstance(step, LaunchStep | PlaceStep)}
        self.prepared_ns = 0

    def granted(self, steps: Iterable[Any]) -> None:
        """These steps may be carried out from now on. A launch in place of several has one row in place of theirs."""
        at_ns = now_ns()
        for step in steps:
            if isinstance(step, LaunchStep) and step.covers:
                for covered in step.covers[1:]:
                    self.rows.pop(covered, None)
                self.rows[step.step] = Row(step)
            row = self.rows.get(step.step)
            if row is not None and not row.granted_ns:
                row.granted_ns = at_ns


class Traces:
    """The last runs by execution id."""

    def __init__(self) -> None:
        self._runs: dict[int, RunTrace] = {}
        self._rows = 0

    def begin(self, execution_id: int, plan: HostPlan) -> RunTrace:
        """A run begins; the oldest ones are forgotten."""
        trace = RunTrace(plan)
        while self._runs and (len(self._runs) >= RUNS_MAX or self._rows > ROWS_MAX):
            self._rows -= len(self._runs.pop(next(iter(self._runs))).rows)
        self._runs[execution_id] = trace
        self._rows += len(trace.rows)
        return trace

    def collect(self, message: Any) -> Any:
        """The answer to a CollectTrace."""
        trace = self._runs.get(message.execution_id)
        answer = workers_pb2.TraceCollected(trace_id=message.trace_id, execution_id=message.execution_id)
        if trace is not None:
            answer.prepared_ns = wall_ns(trace.prepared_ns)
            answer.rows.extend(row.message() for row in trace.rows.values())
        return answer
