"""Those in the lines of a tenant's limits: looked at when there may be room for them, given up when they waited too long."""

from __future__ import annotations

from itertools import islice
from typing import assert_never

from pathways_common.model.failure import Reason

from . import buffers, copies, quotas, reads, runs, scheduler, transfers
from .read_records import Copy
from .records import Execution, HeldArray
from .run_records import Run
from .state import State
from .tenant_records import Tenant


def look(state: State, tenant: Tenant) -> None:
    """Whoever has room now tries again, oldest first."""
    tenant.woken = False
    line = tenant.program_line
    limit = tenant.declared.programs_max
    for work in list(islice(line, max(limit - tenant.running, 0) if limit else len(line))):
        _wake(state, work)
    for held, place in list(tenant.memory_line.items()):
        limit = tenant.declared.memory_bytes_max
        if limit and tenant.held_bytes + place.needed_bytes > limit:
            return
        if held in tenant.memory_line:
            _wake(state, held)


def _wake(state: State, held: Execution | Run | Copy | HeldArray) -> None:
    match held:
        case Execution():
            scheduler.wake(state, held)
        case Run():
            runs.wake(state, held)
        case Copy():
            copies.try_copy(state, held)
        case HeldArray():
            transfers.forget_inline(held)
            transfers.place_or_hold(state, held.buffer, held.spec, held.pieces, held)
        case _:
            assert_never(held)


def expire(state: State) -> None:
    """Fails what has waited as long as anything may. All wait equally long, so the oldest are first."""
    for tenant in state.tenants.values():
        for line in (tenant.program_line, tenant.memory_line):
            while line:
                held, place = next(iter(line.items()))
                if place.deadline_ns > state.now_ns:
                    break
                quotas.leave(state, held, tenant)
                _give_up(state, held, place.text)


def _give_up(state: State, held: Execution | Run | Copy | HeldArray, text: str) -> None:
    seconds = state.config.quota_wait_ns // 1_000_000_000
    message = f"no {text} came free within {seconds} s; delete arrays or wait for results, then try again"
    failure = state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True, seconds=seconds)
    match held:
        case Execution():
            scheduler.withdraw(state, held, failure)
        case Run():
            runs.fail(state, held, failure)
        case Copy():
            reads.fail(state, held, failure)
        case HeldArray():
            transfers.forget_inline(held)
            buffers.poison(state, held.buffer, failure, tell_hosts=False)
        case _:
            assert_never(held)
