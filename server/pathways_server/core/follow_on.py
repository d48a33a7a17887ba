"""Follow-on failures wait a moment for their cause: a broken pull or collective is often the first sign of a host that is gone.

A report of that kind ends its read or transfer only if nothing better is known 200 ms later; the end of the epoch, which
names host and exit, ends it before. A broken collective ends the epoch itself then, since XLA cannot mend the group. While a host
has no connection, which may be the cause, both wait for it to come back or to be given up.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason

from . import losses, progress, reads, resource_manager, transfers
from .read_records import Fetch, Wait
from .records import Host, Transfer
from .state import State
from .suspicions import AbortedMember, BrokenGroup, SuspectedGang, Suspicion
from .transitions import IslandState
from .walk_records import Look

_MAY_FOLLOW = (Reason.UNAVAILABLE, Reason.SLICE_LOST, Reason.BUFFER_LOST)


def defer(state: State, subject: Fetch | Wait | Look | Transfer | BrokenGroup | SuspectedGang, failure: Failure) -> bool:
    """True if the failure will be looked at later."""
    if failure.reason not in _MAY_FOLLOW:
        return False
    state.suspicions.append(Suspicion(state.now_ns + state.config.cause_wait_ns, subject, failure))
    return True


def expire(state: State) -> None:
    """Nothing better came: the report is the cause."""
    while state.suspicions and state.suspicions[0].deadline_ns <= state.now_ns:
        suspicion = state.suspicions.popleft()
        subject = suspicion.subject
        if _may_be_somebody_away(state, suspicion):
            again_ns = state.now_ns + state.config.cause_wait_ns
            state.suspicions.append(suspicion._replace(deadline_ns=again_ns, since_ns=suspicion.since_ns or state.now_ns))
            continue
        if isinstance(subject, BrokenGroup):
            island = subject.host.island
            if _aborted_in(state, subject):
                # The member that aborted broke it, unless something worse is heard of before its own time is over.
                defer(state, subject, suspicion.failure)
                continue
            if island.state is IslandState.ACTIVE and island.epoch == subject.epoch:
                losses.break_epoch(state, island, subject.host, suspicion.failure.message)
        elif isinstance(subject, AbortedMember):
            resource_manager.confirm(state, subject)
        elif isinstance(subject, SuspectedGang):
            progress.confirm(state, subject)
        elif isinstance(subject, Transfer):
            if state.transfers.get(subject.id) is subject:
                transfers.lost(state, subject, suspicion.failure)
        elif state.readers.get(subject.number) is subject:
            reads.fail(state, subject, suspicion.failure)


def _may_be_somebody_away(state: State, suspicion: Suspicion) -> bool:
    """Whether a host has no connection; not for longer than any host is waited for."""
    if suspicion.since_ns and state.now_ns - suspicion.since_ns > state.config.grace_ns:
        return False
    return any(isinstance(away, Host) for away in state.away)


def _aborted_in(state: State, broken: BrokenGroup) -> bool:
    """Whether a member of the group is known to have aborted, and waits for its cause."""
    waiting = (each.subject for each in state.suspicions)
    return any(
        isinstance(subject, AbortedMember) and subject.host.island is broken.host.island and subject.report.epoch == broken.epoch
        for subject in waiting
    )
