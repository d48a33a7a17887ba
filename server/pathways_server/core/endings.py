"""The last moments of an epoch whose executor is gone: what others run on the hosts that are left comes to its end first.

What the lost member was in fails at once. Gangs of other hosts know nothing of it, so they are let go on for a moment, in which
nothing new is granted, loaded or placed there; what they made is whole. The epoch ends when none is left, or the moment is over.
There is no such moment without a gang that could use it, nor where the host itself is gone or has to be killed.
"""

from __future__ import annotations

from . import losses, lost_values, resource_manager, run_losses, scheduler
from .effects import EpochEnd
from .ending_records import Ending
from .records import Execution, Gang, Host, Island
from .state import State
from .transitions import ExecutionState, IslandState


def begin(
    state: State, island: Island, host: Host, text: str, exit_text: str = "", stderr_tail: str = "", finished_through: int = 0
) -> None:
    """In place of `losses.end_epoch` where the executor of a member is gone, or ends with this, and its daemon lives."""
    ending = island.ending
    if ending is None:
        gone = [host, *losses.aborted(state, island)]
        if island.state is not IslandState.ACTIVE or not state.config.ending_ns or not _others(island, gone):
            losses.end_epoch(state, island, host, text, exit_text, stderr_tail, finished_through)
            return
        cause = losses.cause_of(state, island, host, text, exit_text, stderr_tail)
        ending = island.ending = Ending(host, text, cause, state.now_ns + state.config.ending_ns, finished_through)
        ending.gone += [other for other in gone if other is not host]
        state.move(island, IslandState.ENDING)
        state.log("epoch is ending", island=island.name, epoch=island.epoch, host=host.name, reason=text)
        scheduler.block_all(state, island)
        losses.tell_clients(state, island, host, cause)
    elif host in ending.gone:
        return
    ending.gone.append(host)
    _fail_with(state, island, host, ending)
    look(state, island)


def look(state: State, island: Island) -> None:
    """Whether anything is left to be waited for."""
    ending = island.ending
    if ending is not None and (ending.deadline_ns <= state.now_ns or not _others(island, ending.gone)):
        _end(state, island, ending)


def on_broken(state: State, island: Island, gang: Gang) -> None:
    """A collective lost a connection. Of one that somebody was in who is gone that is no news; else nothing can be waited for."""
    ending = island.ending
    assert ending is not None
    if not any(host in ending.gone for host in _members(gang)):
        _end(state, island, ending)


def _end(state: State, island: Island, ending: Ending) -> None:
    losses.end_epoch(state, island, ending.host, ending.text, "", "")
    resource_manager.consider(state, island)


def expire(state: State) -> None:
    """Those whose moment is over."""
    for island in list(state.islands.values()):
        look(state, island)


def end_stuck(state: State, island: Island, host: Host, text: str) -> None:
    """The same for an executor that its daemon kills; not that of rank 0, with whose end the coordination service ends."""
    if host.rank == 0 or island.state is not IslandState.ACTIVE:
        losses.end_epoch(state, island, host, text, "", "")
        return
    epoch = island.epoch
    begin(state, island, host, text)
    if island.ending is not None and island.epoch == epoch:
        state.tell(host, EpochEnd(epoch), urgent=True)


def _others(island: Island, gone: list[Host]) -> bool:
    """Whether gangs that none of these hosts is in are not over."""
    return any(gang.remaining and not any(host in gone for host in _members(gang)) for gang in island.inflight)


def _members(gang: Gang) -> tuple[Host, ...]:
    return gang.executable.members if isinstance(gang, Execution) else gang.members


def _fail_with(state: State, island: Island, host: Host, ending: Ending) -> None:
    """What the host had not finished will not be; nor will what was computed from that."""
    touched = [island]
    for gang in list(island.inflight):
        if not gang.remaining or host not in _members(gang):
            continue
        if isinstance(gang, Execution):
            failure = lost_values.of_program(gang.executable, ending.cause)
            state.history.failed(state.now_ns, gang, failure)
            touched += run_losses.poison_results(state, gang.results, failure, None)
        elif gang.run.state is not ExecutionState.FAILED:
            touched += run_losses.fail_unmade(state, gang.run, island, host, ending.finished_through, ending.cause)
    run_losses.spread(state, list({other.name: other for other in touched}.values()))
