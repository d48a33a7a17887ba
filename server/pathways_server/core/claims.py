"""Work that waits for memory: whoever fits goes, and the oldest is not overtaken for ever.

Once the oldest has waited `memory_turn_ns`, what it needs is set aside: as memory comes free nobody else gets it; others go on
only with what is left beside. When memory has not moved for `memory_stuck_ns` and nothing that is under way could move it, what
was set aside is given up first; if nobody fits even then, the youngest fails, and its session is told who holds what. A session
gets that time to release something; its own further claims then fail at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import IslandName

from . import holders, placing, reads, runs, scheduler, spills
from .memory_records import Account, Claim, Claimant, IslandMemory, Need
from .records import Buffer, Execution, HeldArray, Host, Island, Reader, Session
from .run_records import Run
from .state import State
from .transitions import BufferState, ExecutableState, ExecutionState, IslandState
from .walk_records import Walk

# What is set aside stands still when the oldest cannot be served; then others go on for this many times as long.
_LIFTED_TIMES = 8
# Claims that do not fit and are looked at whenever memory comes free.
LOOKED_AT_MAX = 64
# While something goes on on other islands of those who wait, memory counts as stuck after this many times as long.
_ELSE_TIMES = 15

# ---- asking -----------------------------------------------------------------------------------------------------------


def room(memory: IslandMemory, needs: Iterable[Need], work: Claimant) -> bool:
    """Whether it all fits beside what is held and what is set aside for somebody else."""
    own = memory.aside_for is not None and memory.aside_for.work is work
    if own:
        _lift(memory)
    fits = all(_free(host.account, local_device) >= size for host, local_device, size in needs if host.account is not None)
    if own:
        _set_aside(memory)
    return fits


def _free(account: Account, local_device: int) -> int:
    return account.budget_bytes - account.used[local_device] - account.aside[local_device]


def never(
    state: State, island: Island, session: Session, what: str, needs: Iterable[Need], own: dict[tuple[Host, int], int]
) -> Failure | None:
    """Why something can never fit, whatever is freed or spilled beside its own arguments; None if it can."""
    for host, local_device, size in needs:
        account = host.account
        held = own.get((host, local_device), 0)
        if account is None or size + held <= account.budget_bytes:
            continue
        beside = f" beside the {held} of its arguments" if held else ""
        message = (
            f"{what} needs {size} bytes{beside} on host {host.name} device {local_device}, which has {account.budget_bytes};"
            f" use smaller arrays or more devices ({holders.words(state, island, host, local_device, session.tenant.name)})"
        )
        return state.failure(
            Reason.RESOURCE_EXHAUSTED, message, needed_bytes=size, argument_bytes=held, budget_bytes=account.budget_bytes,
            holder=session.tenant.name,
        )  # fmt: skip
    return None


def wait(
    state: State, island: Island, session: Session, work: Claimant, what: str, needs: list[Need], least: list[Need] | None = None
) -> str:
    """Takes its place among those who wait on the island, or keeps it; what it waits for, in words."""
    memory = island.memory
    assert memory is not None
    claim = memory.claims.get(work)
    if claim is None:
        claim = memory.claims[work] = Claim(state.number(), session, work, what, state.now_ns)
        state.relieved[island.name] = island
    if memory.aside_for is claim:
        _lift(memory)
    claim.needs = tuple(needs)
    claim.least = claim.needs if least is None else tuple(least)
    if memory.aside_for is claim:
        _set_aside(memory)
    return short(memory, claim)


def short(memory: IslandMemory, claim: Claim) -> str:
    """What it needs, where that is lacking first."""
    host, local_device, size = lacking(memory, claim) or claim.needs[0]
    account = host.account
    if claim.behind:
        return (
            f"memory: needs {size} bytes on host {host.name} device {local_device} beside what its session's work before it needs"
        )
    free = max(_free(account, local_device), 0) if account is not None else 0
    budget = account.budget_bytes if account is not None else 0
    return f"memory: needs {size} bytes on host {host.name} device {local_device}, {free} of {budget} are free"


def lacking(memory: IslandMemory, claim: Claim) -> Need | None:
    """The first of its needs that does not fit."""
    own = memory.aside_for is claim
    if own:
        _lift(memory)
    found = next(
        (n for n in claim.needs if n.host.account is not None and _free(n.host.account, n.local_device) < n.size_bytes), None
    )
    if own:
        _set_aside(memory)
    return found


def set_behind(memory: IslandMemory, work: Claimant, behind: bool) -> None:
    """Whether it has the room that it needs, and waits for work before it."""
    claim = memory.claims[work]
    claim.behind = behind
    if behind and memory.aside_for is claim:
        _lift(memory)
        memory.aside_for = None


def is_behind(memory: IslandMemory, work: Claimant) -> bool:
    """Whether it has the room that it needs, and waits for work before it."""
    claim = memory.claims.get(work)
    return claim is not None and claim.behind


def is_aside_for(memory: IslandMemory, claim: Claim) -> bool:
    return memory.aside_for is claim


def settle(memory: IslandMemory, work: Claimant) -> None:
    """It waits no more: granted, failed or gone."""
    claim = memory.claims.pop(work, None)
    if claim is not None and memory.aside_for is claim:
        _lift(memory)
        memory.aside_for = None


def _lift(memory: IslandMemory) -> None:
    assert memory.aside_for is not None
    for host, local_device, size in memory.aside_for.needs:
        if host.account is not None:
            host.account.aside[local_device] -= size


def _set_aside(memory: IslandMemory) -> None:
    assert memory.aside_for is not None
    for host, local_device, size in memory.aside_for.needs:
        if host.account is not None:
            host.account.aside[local_device] += size


# ---- looking again ----------------------------------------------------------------------------------------------------


def look(state: State) -> None:
    """Wakes those who fit now, the oldest first; for the others idle arrays are spilled."""
    relieved = list(state.relieved.values())
    state.relieved.clear()
    for island in relieved:
        memory = island.memory
        if memory is None or island.state is not IslandState.ACTIVE:
            continue
        _wake_all(state, island, memory)
        placing.go_all(state, island, memory)
        _age(state, memory)
        if state.config.spill and memory.claims:
            spills.make_room(state, island, memory)
        if memory.failed is not None:
            _after_failure(state, island, memory)


def _after_failure(state: State, island: Island, memory: IslandMemory) -> None:
    """More of the session that failed fails at once; others get their time anew, since that session may let go of something."""
    youngest = _youngest(memory)
    if youngest is not None and youngest.session.number == memory.failed and _stuck(state, island, memory):
        _end_stuck(state, island, memory)
    elif youngest is None or youngest.session.number != memory.failed:
        memory.failed = None
        memory.moved_ns = state.now_ns


def _wake_all(state: State, island: Island, memory: IslandMemory) -> None:
    """In the order of their age, until too many in a row do not fit: a look costs the same however many wait."""
    misfits = 0
    for claim in list(islice(memory.claims.values(), LOOKED_AT_MAX * 4)):
        if memory.claims.get(claim.work) is not claim:
            continue
        if not _waits(state, claim):
            settle(memory, claim.work)
        elif room(memory, claim.least, claim.work):
            _wake(state, island, claim)
        else:
            misfits += 1
            if misfits == LOOKED_AT_MAX:
                return


def _age(state: State, memory: IslandMemory) -> None:
    """The oldest of them has its turn once it has waited long enough."""
    oldest = next((claim for claim in memory.claims.values() if not claim.behind), None)
    if memory.aside_for is not None or memory.lifted_until_ns > state.now_ns or oldest is None:
        return
    if oldest.since_ns + state.config.memory_turn_ns <= state.now_ns:
        memory.aside_for = oldest
        _set_aside(memory)


def _wake(state: State, island: Island, claim: Claim) -> None:
    work = claim.work
    if isinstance(work, Execution):
        scheduler.wake(state, work)
    elif isinstance(work, Run):
        runs.wake(state, work)
    elif isinstance(work, Buffer):
        spills.want(state, work)
    else:
        placing.go(state, island, claim.session)


def _prune(state: State, island: Island, memory: IslandMemory) -> None:
    """Claims of work that was cancelled, failed or released are nobody's."""
    for claim in list(memory.claims.values()):
        if not _waits(state, claim):
            settle(memory, claim.work)


def _waits(state: State, claim: Claim) -> bool:
    work = claim.work
    if isinstance(work, Execution):
        return work.state is ExecutionState.QUEUED
    if isinstance(work, Run):
        ready = all(lane.island.state is IslandState.ACTIVE for lane in work.lanes)
        return ready and work.state is ExecutionState.QUEUED and work.next_step == 0
    if isinstance(work, Buffer):
        return work.state is BufferState.SPILLED and bool(work.waiters)
    return placing.waits(state, work)


# ---- time -------------------------------------------------------------------------------------------------------------


def expire(state: State) -> None:
    """Looks again at everything that waits, says who holds what, and ends what would wait for ever."""
    for island in state.islands.values():
        memory = island.memory
        if memory is None or not (memory.claims or memory.placing) or island.state is not IslandState.ACTIVE:
            continue
        state.relieved[island.name] = island
        _prune(state, island, memory)
        if not memory.claims:
            continue
        if memory.explained_ns + state.config.memory_turn_ns * 5 <= state.now_ns:
            memory.explained_ns = state.now_ns
            holders.explain(state, island, memory)
        if _stuck(state, island, memory):
            _end_stuck(state, island, memory)


def _youngest(memory: IslandMemory) -> Claim | None:
    """Of those who wait for memory and not for the work before them."""
    return next((claim for claim in reversed(memory.claims.values()) if not claim.behind), None)


def _stuck(state: State, island: Island, memory: IslandMemory) -> bool:
    """Nothing that is under way can free memory of this island."""
    config = state.config
    still_ns = state.now_ns - memory.moved_ns
    youngest = _youngest(memory)
    if youngest is None:
        return False
    fresh = youngest.since_ns + config.memory_stuck_ns > state.now_ns and memory.failed != youngest.session.number
    if still_ns < config.memory_stuck_ns or fresh or is_under_way(state, island):
        return False
    if still_ns >= _ELSE_TIMES * config.memory_stuck_ns:
        return True
    others: dict[IslandName, Island] = {}
    for claim in memory.claims.values():
        others.update(claim.session.used)
    others.pop(island.name, None)
    return not any(other.state is not IslandState.ACTIVE or is_under_way(state, other) for other in others.values())


def is_under_way(state: State, island: Island) -> bool:
    """Whether something goes on there, or in another cell on its devices, by itself."""
    return any(_goes_on(state, each) for each in island.ground.islands)


def _goes_on(state: State, island: Island) -> bool:
    if island.inflight or island.runs or island.line.lanes or island.held:
        return True
    if any(host.account is not None and host.account.letting for host in island.members):
        return True
    if any(moving.buffer.placement is not None and moving.buffer.placement.island is island for moving in state.moving.values()):
        return True
    if any(transfer.host.island is island for transfer in state.transfers.values()):
        return True
    if any(executable.state is ExecutableState.LOADING for executable in island.executables.values()):
        return True
    return any(reader.sent and _is_on(reader, island) for reader in state.readers.values())


def _is_on(reader: Reader, island: Island) -> bool:
    return any(buffer.placement is not None and buffer.placement.island is island for buffer in reader.buffers)


def _end_stuck(state: State, island: Island, memory: IslandMemory) -> None:
    for each in island.ground.islands:
        if each.memory is not None and each is not island:
            each.memory.moved_ns = state.now_ns  # what ends here may be what they wait for
    if memory.aside_for is not None:
        _lift(memory)
        memory.aside_for = None
        memory.lifted_until_ns = state.now_ns + _LIFTED_TIMES * state.config.memory_stuck_ns
        state.relieved[island.name] = island
        return
    claim = _youngest(memory)
    assert claim is not None, "somebody waits for memory"
    message = (
        f"{claim.what} waits for memory that nothing under way will free: {short(memory, claim)[len('memory: ') :]};"
        f" {_held_by(state, island, memory, claim)}; drop arrays and run it again"
    )
    need = lacking(memory, claim) or claim.needs[0]
    failure = state.failure(
        Reason.RESOURCE_EXHAUSTED, message, host=need.host.name, retryable=True, needed_bytes=need.size_bytes,
        device=need.local_device,
    )  # fmt: skip
    state.log("memory is stuck", island=island.name, session=claim.session.number, what=claim.what)
    settle(memory, claim.work)
    _fail(state, claim.work, failure)
    memory.failed = claim.session.number
    state.relieved[island.name] = island


def _held_by(state: State, island: Island, memory: IslandMemory, claim: Claim) -> str:
    need = lacking(memory, claim) or claim.needs[0]
    return holders.words(state, island, need.host, need.local_device, claim.session.tenant.name)


def _fail(state: State, work: Claimant, failure: Failure) -> None:
    if isinstance(work, Execution):
        scheduler.withdraw(state, work, failure)
    elif isinstance(work, Run):
        runs.stop(state, work, failure)
    elif isinstance(work, Buffer):
        for waiter in work.waiters or ():
            if isinstance(waiter, Walk):
                waiter.failure = waiter.failure or failure
                state.woken.append(waiter)
        reads.fail_all(state, work, failure)
    elif isinstance(work, HeldArray):
        placing.refuse(state, work, failure)
    else:
        reads.fail(state, work, failure)
