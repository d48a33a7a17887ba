"""A gang that all of its members are in is only long, however long; this is what ends one that nobody can want any more.

A program that was measured may take ten times as long as it took before, and ten minutes at least; while some members compute in
it and all others wait, a hundred times, and the deadline at least, for so an endless loop looks. One that was not measured may
take as long as it likes; one whose session has ended, a minute. It cannot be taken from the devices, so the epoch ends with it.
Its own results fail because it ran too long, and everything else with the executor that was ended for that. If some members used
their processors meanwhile and the others did not, one that did is named. Time in which a member owed a load is left out:
compiling uses them, too.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import Sequence

from . import progress, resource_manager, run_losses
from .events import NodeFailed
from .records import Execution, Host, Island
from .state import State
from .unfinished import Work, first_after, is_fresh, seconds

# Who computes has the CPUs for this part of the time at least, also on a machine that others use.
_OFTEN = 4
# The part of the deadline that has to be measured: in less, the end of a load that was answered since would count.
_MEASURED = 2
_NAMED_MAX = 4


def look(state: State, island: Island) -> None:
    """Called where nothing has moved for a while and nobody is stuck."""
    for host in island.members:
        watch = host.watch
        work = first_after(host, host.finished_through) if watch is not None else None
        if work is None or not _all_inside(state, work):
            continue
        ran_ns = min(_inside_ns(state, member) for member in work.members if member.finished_through < work.sequence)
        failure = run_losses.failure_of(work.gang, work.sequence)
        text = _too_long(state, work, ran_ns, failure)
        if text:
            cause = next((member for member in work.members if failure is not None and member.name == failure.host), None)
            if cause is None:
                cause, waits = _who_computes(state, work) or (host, "")
                text += waits
            _end(state, cause, work, text)
            return


def _all_inside(state: State, work: Work) -> bool:
    for member in work.members:
        if member.finished_through >= work.sequence:
            continue
        watch = member.watch
        if watch is None or watch.pulse is None or not is_fresh(state, watch) or watch.pulse.entered_through < work.sequence:
            return False
    return True


def _inside_ns(state: State, member: Host) -> int:
    """At least so long; a host whose clock went on while all stood still says more."""
    watch = member.watch
    assert watch is not None
    assert watch.pulse is not None
    now_ns = state.listened_ns
    return min(watch.pulse.entered_ago_ns + now_ns - watch.heard_ns, now_ns - watch.since_ns)


def _who_computes(state: State, work: Work) -> tuple[Host, str] | None:
    """The member that uses its CPUs while others do not, and that in words; None where that is not so."""
    inside = [member for member in work.members if member.finished_through < work.sequence]
    computing = [member for member in inside if _computes(state, member)]
    waiting = [member.name for member in inside if member not in computing]
    if not computing or not waiting:
        return None
    names = ", ".join(member.name for member in computing[:_NAMED_MAX])
    others = ", ".join(waiting[:_NAMED_MAX])
    return computing[0], f"; {names} used its processors in it and {others} did not, as in an endless loop on {names}"


def _computes(state: State, member: Host) -> bool | None:
    """Whether it uses its CPUs; None if that was not measured for long enough."""
    watch = member.watch
    if watch is None or watch.pulse is None or watch.pulse.cpu_ns <= 0:
        return None
    used_ns, passed_ns = watch.pulse.cpu_ns - watch.used_from_ns, watch.heard_ns - watch.used_since_ns
    if passed_ns <= 0 or passed_ns * _MEASURED < state.config.stuck_ns:
        return None
    return used_ns * _OFTEN >= passed_ns


def _seems_to_loop(state: State, work: Work) -> bool:
    """Whether each member in it is known either to compute or to wait, and there are both."""
    inside = [_computes(state, member) for member in work.members if member.finished_through < work.sequence]
    return None not in inside and True in inside and False in inside


def _too_long(state: State, work: Work, ran_ns: int, failure: Failure | None) -> str:
    """Why it is ended; empty if it may go on."""
    config, estimate, session = state.config, work.executable.estimate, work.executable.session
    ran = f"{work.words} ran for {seconds(ran_ns)} s"
    if state.sessions.get(session.number) is not session:
        return f"{ran} and nobody waits for it any more" if ran_ns >= config.orphan_ns else ""
    if failure is not None and ran_ns >= config.orphan_ns:
        return f"{ran} though it had failed on host {failure.host}"
    if not config.long_ns or not estimate.measured:
        return ""
    loops = ran_ns >= max(config.stuck_ns, config.loop_factor * estimate.duration_ns) and _seems_to_loop(state, work)
    if not loops and ran_ns < max(config.long_ns, config.long_factor * estimate.duration_ns):
        return ""
    return f"{ran}, too long for a program that took {seconds(estimate.duration_ns)} s before"


def _end(state: State, host: Host, work: Work, text: str) -> None:
    island, gang = host.island, work.gang
    state.log("gang ended", island=island.name, epoch=island.epoch, reason=text)
    failure = state.failure(Reason.TIMED_OUT, f"{text}; it was ended with island {island.name}", host=host.name)
    execution_id = gang.id if isinstance(gang, Execution) else gang.run.id
    progress.on_node_failed(state, NodeFailed(host.name, execution_id, Sequence(work.sequence), failure))
    resource_manager.end_stuck(state, host, f"its executor was ended because {text}", drop=False)
