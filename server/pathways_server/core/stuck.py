"""Stuck means skew: others wait for a member of a gang that does not begin it, though nothing of its own keeps it from that.

Looked at with the timer, and only where no gang of a host has ended for a while: then its daemon is asked how far its executor
is. A member that is inside a launch is not stuck, and neither is one that waits for bytes of others: it is only slow, and whoever
it waits for is looked at like everybody. What is left is stuck, whatever is compiled beside it: an executor that waits for
commands, or that shows no life, or a daemon that does not answer. It ends its epoch, by name, and its executor is killed. Time in
which nobody listened does not count: a machine that stood still has no stuck hosts.

A host that has no gang and owes something else is asked, too, and stuck only if its executor shows no life, or its daemon does
not answer.
"""

from __future__ import annotations

from typing import NamedTuple

from . import debts, listening, overlong, resource_manager
from .effects import Probe
from .events import HostHeard, HostPulsed
from .records import Host, Island
from .state import State
from .stuck_records import Watch
from .transitions import IslandState
from .unfinished import first_after, is_fresh, seconds

# A host of which nothing moves is asked so many times per deadline: silence is known to that part of it.
_ASKED = 16
# Round trips after which whoever has begun nothing had it for long enough.
_TRIPS = 2


class _Found(NamedTuple):
    """A member that is stuck, since when, why, and whether its daemon does not answer."""

    host: Host
    since_ns: int
    text: str
    silent: bool


def on_host_pulsed(state: State, event: HostPulsed) -> None:
    host = state.hosts.get(event.host)
    watch = host.watch if host is not None else None
    if host is None or watch is None or host.island.epoch != event.epoch or watch.number != event.number:
        state.ignore(event, "nobody waits for it any more")
        return
    watch.number = 0
    # The moment and not the tick before it: behind a pause of the controller that lies half a second back.
    watch.heard_ns = now_ns = listening.now_ns(state)
    watch.answered_in_ns = max(watch.answered_in_ns, now_ns - watch.asked_ns)
    # The clock of a host goes on while all stand still, and says that it was silent for longer than anybody listened.
    watch.beat_ns = max(watch.beat_ns, listening.moment_ns(state, event.silent_ns))
    if watch.pulse is None or host.loads:  # to load takes processors, too, and says nothing of the gang
        watch.used_from_ns, watch.used_since_ns = event.cpu_ns, now_ns
    watch.pulse = event


def on_host_heard(state: State, event: HostHeard) -> None:
    host = state.hosts.get(event.host)
    if host is None or host.incarnation != event.incarnation or host.watch is None:
        state.ignore(event, "nobody waits for it")
        return
    host.watch.alive_ns = listening.now_ns(state)


def expire(state: State) -> None:
    if not state.config.stuck_ns:
        return
    owed = debts.owed(state)
    for island in state.islands.values():
        if island.state is IslandState.ACTIVE:
            _look(state, island, state.config.stuck_ns, owed)


def _look(state: State, island: Island, limit_ns: int, owed: dict[Host, str]) -> None:
    now_ns = state.listened_ns
    overdue = False
    for host in island.members:
        watch = host.watch
        if not host.unfinished and host not in owed:
            host.watch = None
            continue
        owes = "" if host.unfinished else owed[host]
        if watch is None:
            host.watch = Watch(host.finished_through, now_ns, now_ns, now_ns, now_ns, owes=owes)
            continue
        if watch.owes and not owes:
            # It can begin a gang from now on; that its executor showed no life, or its daemon did not answer, counts from before.
            watch.finished, watch.since_ns, watch.pulse, watch.owes = host.finished_through, now_ns, None, ""
            continue
        watch.owes = owes
        if watch.finished != host.finished_through:
            watch.finished, watch.pulse, watch.number, watch.answered_in_ns = host.finished_through, None, 0, 0
            watch.since_ns = watch.heard_ns = watch.asked_ns = watch.beat_ns = now_ns
            continue
        overdue |= _is_overdue(state, watch, limit_ns)
        if not watch.number and (now_ns - watch.asked_ns) * _ASKED >= limit_ns:
            watch.number, watch.asked_ns = state.number(), now_ns
            state.tell(host, Probe(watch.number), urgent=True)
    if overdue and not _judge(state, island, limit_ns):
        overlong.look(state, island)


def _is_overdue(state: State, watch: Watch, limit_ns: int) -> bool:
    return state.listened_ns - min(watch.since_ns, watch.beat_ns) >= limit_ns


def _judge(state: State, island: Island, limit_ns: int) -> bool:
    """Whoever has been still for longest is named; with it go all whose daemons do not answer."""
    found: list[_Found] = []
    for host in island.members:
        watch = host.watch
        if watch is not None and _is_overdue(state, watch, limit_ns):
            stuck = _verdict(state, host, watch, limit_ns)
            if stuck is not None:
                found.append(stuck)
    if not found:
        return False
    named = min(found, key=lambda each: each.since_ns)
    for each in [named, *(other for other in found if other is not named and other.silent)]:
        state.log("host stuck", island=island.name, epoch=island.epoch, host=each.host.name, reason=each.text)
        if each.host.rank >= 0 or each.silent:
            resource_manager.end_stuck(state, each.host, each.text, each.silent)
    return True


def _verdict(state: State, host: Host, watch: Watch, limit_ns: int) -> _Found | None:
    now_ns, pulse = state.listened_ns, watch.pulse
    unheard_ns = now_ns - watch.heard_ns
    still_ns = now_ns - watch.since_ns
    if unheard_ns >= limit_ns:
        if not watch.owes and pulse is not None and pulse.entered_through >= host.last_sequence:
            return None  # nobody waits for it to begin anything; whether it lives, its link finds out
        heard_since = watch.asked_ns < watch.alive_ns and now_ns - watch.alive_ns < limit_ns
        if heard_since and unheard_ns < limit_ns * state.config.stuck_busy_factor:
            return None  # its daemon lives, and the link is slow
        what = watch.owes or f"did not start {_waited_for(state, host, watch)}"
        return _Found(host, watch.since_ns, f"nothing has been heard of it for {seconds(unheard_ns)} s, and it {what}", True)
    if pulse is None or not is_fresh(state, watch):
        return None  # its answer is due
    inside = pulse.entered_through > max(pulse.finished_through, host.finished_through)
    mute_ns = now_ns - watch.beat_ns
    if mute_ns >= limit_ns and now_ns >= state.heard_from_ns:
        what = f"is in {_current(host)}" if inside else watch.owes or f"did not start {_waited_for(state, host, watch)}"
        return _Found(host, watch.since_ns, f"its executor has not answered for {seconds(mute_ns)} s; it {what}", False)
    if watch.owes:
        return None  # it may take any time
    # On a slow link a gang comes late: it waits for a round trip, behind frames that are not acknowledged, and goes one way.
    limit_ns, busy_ns = limit_ns + _TRIPS * watch.answered_in_ns, limit_ns * state.config.stuck_busy_factor
    if inside or pulse.excused or still_ns < limit_ns:
        return None
    text = f"it did not start {_waited_for(state, host, watch)}"
    if pulse.idle:
        return _Found(host, watch.since_ns, text, False)
    if still_ns >= max(limit_ns, busy_ns):
        return _Found(host, watch.since_ns, f"{text}; it has been busy with something else for {seconds(still_ns)} s", False)
    return None


# ---- words --------------------------------------------------------------------------------------------------------------


def _current(host: Host) -> str:
    work = first_after(host, host.finished_through)
    return work.words if work is not None else "a launch"


def _waited_for(state: State, host: Host, watch: Watch) -> str:
    """The gang that a member has not begun, and who waits for it there."""
    entered = watch.pulse.entered_through if watch.pulse is not None else 0
    work = first_after(host, max(entered, host.finished_through))
    if work is None:
        return "what it was given"
    now_ns = state.listened_ns
    for other in work.members:
        if other is host:
            continue
        if other.finished_through >= work.sequence:
            return f"{work.words}, which host {other.name} has finished"
        seen = other.watch
        if seen is None or seen.pulse is None or seen.pulse.entered_through < work.sequence:
            continue
        # Of a gang that it has left again the moment is not known; and a clock that stood still tells too much.
        entered_ns = seen.pulse.entered_ago_ns if seen.pulse.entered_through == work.sequence else 0
        ago_ns = min(entered_ns + now_ns - seen.heard_ns, now_ns - seen.since_ns)
        return f"{work.words}, which host {other.name} entered {seconds(ago_ns)} s ago"
    return f"{work.words}, which it could have started {seconds(now_ns - watch.since_ns)} s ago"
