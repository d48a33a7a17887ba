"""The daemon's part in a run: tickets of what this host sends, pulls of what it gets, and when the run came here.

Everything goes on to the executor, which expands the same plan with the same function; here each grant only begins transfers.
Plans and runs belong to the current executor and go with it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import assert_never

from pathways_common.model.failure import Failure, PathwaysError
from pathways_common.model.ids import TransferId
from pathways_common.process.logs import fields
from pathways_common.rpc.convert import failure_from_proto
from pathways_proto.v1 import workers_pb2

from pathways_worker.core import run_transfers as core
from pathways_worker.core.plans import host_plan
from pathways_worker.holdings import Held
from pathways_worker.plan_messages import read_plan
from pathways_worker.shell.transfer_agent import TransferAgent

_LOG = logging.getLogger(__name__)


class RunAgent:
    """`epoch` gives that of the current executor, None without one; `attribute` names this host in a failure that has no host."""

    def __init__(
        self, host: str, transfers: TransferAgent, epoch: Callable[[], int | None], attribute: Callable[[Failure], Failure]
    ) -> None:
        self._host = host
        self._transfers = transfers
        self._epoch = epoch
        self._attribute = attribute
        self._core = core.RunTransfers()

    @property
    def open_count(self) -> int:
        """Runs that may still begin or wait for a transfer."""
        return self._core.open_count

    @property
    def plan_count(self) -> int:
        """Plans that are kept."""
        return self._core.plan_count

    def held(self) -> list[Held]:
        """Plans, and runs that are not over."""
        plans, runs = self._core.plan_ids, self._core.execution_ids
        return [Held(workers_pb2.HELD_KIND_PLAN, plans), Held(workers_pb2.HELD_KIND_RUN, runs)]

    # ---- commands ---------------------------------------------------------------------------------------------------

    def on_load_plan(self, command: workers_pb2.LoadPlan) -> None:
        """Keeps what concerns this host, if the plan is one of its present epoch."""
        mine = next((host for host in command.hosts if host.name == self._host), None)
        if mine is None or mine.epoch != self._epoch():
            _LOG.info("plan not kept", extra=fields(plan=command.plan_id, program=command.name, epoch=self._epoch()))
            return
        try:
            self._core.loaded(host_plan(read_plan(command), self._host))
        except (PathwaysError, LookupError, ValueError) as error:
            # The executor finds the same and stops the first run of it.
            _LOG.error("plan not understood", extra=fields(plan=command.plan_id, cause=str(error)))

    def on_unload_plan(self, command: workers_pb2.UnloadPlan) -> None:
        """The plans are not used any more."""
        self._core.unloaded(command.plan_ids)

    def on_run_plan(self, command: workers_pb2.RunPlan) -> None:
        """A run with its first grant."""
        received_ns = time.time_ns()
        if command.epoch == self._epoch():
            self._carry_out(
                self._core.begun(
                    command.execution_id,
                    command.plan_id,
                    command.number,
                    command.ticket_key,
                    command.timeout_ns,
                    command.end_step,
                    received_ns,
                )
            )

    def on_grant_run(self, command: workers_pb2.GrantRun) -> None:
        """More steps of a run."""
        if command.epoch == self._epoch():
            self._carry_out(self._core.granted(command.execution_id, command.end_step))

    def on_end_run(self, command: workers_pb2.EndRun) -> None:
        """What of the run waits here fails; what the executor has computed stays."""
        over = self._core.ended(command.execution_id)
        if over.transfer_ids or over.fetch_ids:
            failure = self._attribute(failure_from_proto(command.failure))
            self._transfers.run_ended(over.transfer_ids, over.fetch_ids, failure)

    # ---- the rest ---------------------------------------------------------------------------------------------------

    def received_ns(self, execution_id: int) -> int:
        """When the run came to this host; 0 if it is too long ago."""
        return self._core.received_ns(execution_id)

    def on_pull_ended(self, transfer_id: TransferId) -> None:
        """The bytes of a pull, or its failure, are on their way to the executor."""
        self._carry_out(self._core.pull_ended(transfer_id))

    def executor_changed(self) -> None:
        """Another executor, or none; its transfers are ended apart."""
        self._core.cleared()

    def _carry_out(self, effects: Sequence[core.Effect]) -> None:
        for effect in effects:
            match effect:
                case core.ExpectFetch(fetch_id, ticket, timeout_ns, session):
                    self._transfers.fetch_expected(fetch_id, ticket, timeout_ns, session)
                case core.WantPull(transfer_id, address, ticket, size_bytes, timeout_ns):
                    self._transfers.pull_wanted(transfer_id, address, ticket, size_bytes, timeout_ns)
                case _:
                    assert_never(effect)
