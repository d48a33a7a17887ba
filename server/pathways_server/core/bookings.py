"""Device time: what gangs really took, booked to the session and the tenant that had them, and learned for estimates.

A gang takes the time from the start of its last member to its last end, on every device of it. That lies between the shortest and
the longest member's own time, so that clocks that disagree do little harm. What early members waited is skew: a figure, booked
to nobody. Where a host did not tell when gangs ran, the growth of its busy time is theirs, in
proportion to their estimates.
"""

from __future__ import annotations

from bisect import bisect_left

from . import estimates, fusion, spans
from .events import GangTime, HostProgressed
from .plan import Launch
from .records import Executable, Execution, Gang, Host, Placement
from .run_records import MemberTime, Span
from .share_records import SessionShare
from .state import State

# Of the gangs of a session that is alone and awaits each, so many are booked for one that is measured.
_LOOKED_AT_EVERY = 8


def book(state: State, host: Host, event: HostProgressed) -> None:
    """A report of a member, before what it finished is taken off its list. It may repeat what it said."""
    growth = event.busy_ns - host.busy_ns
    island = host.island
    if growth > 0:
        host.busy_ns = event.busy_ns
        if island.ground.alone is not None and not event.times and _belongs_to_one(state, host, event.finished_through, growth):
            return
    island.measures = True
    told: dict[int, None] = {}
    gang: Gang | None = None
    for row in event.times:
        if gang is None or not gang.sequence <= row.sequence <= gang.last:
            gang = next((gang for last, gang in host.unfinished if gang.sequence <= row.sequence <= last), None)
        if gang is not None:
            growth -= _take(state, host, gang, row)
        told[row.sequence] = None
    if growth > 0:
        _spread(state, host, event.finished_through, growth, told)


# ---- gangs whose times were told --------------------------------------------------------------------------------------


def _take(state: State, host: Host, gang: Gang, row: GangTime) -> int:
    """Keeps one member's time of a gang until all have told; returns how long it was."""
    duration = row.ended_ns - row.started_ns
    if duration < 0:
        return 0
    if gang.times is None:
        gang.times = {}
    rows = gang.times.setdefault(row.sequence, [])
    rows.append(MemberTime(host, row.started_ns, row.ended_ns))
    executable = _launched(gang, row.sequence)
    if len(rows) == len(executable.placement.hosts):
        del gang.times[row.sequence]
        _measure(state, gang, executable, rows)
    return duration


def settle(state: State, gang: Gang) -> None:
    """It has ended: what not every member told is taken as it is."""
    times, gang.times = gang.times, None
    for sequence, rows in (times or {}).items():
        _measure(state, gang, _launched(gang, sequence), rows)


def note_end(span: Span) -> None:
    """What was launched in it has come to its end; looked at until a run of the plan did, as nodes and as groups."""
    plan, way = span.run.plan, (span.island.name, bool(span.groups))
    if way in plan.ended:
        return
    for sequence in range(span.sequence, span.last + 1):
        content = _launched(span, sequence).estimate.content
        if content is not None:
            content.ended = True
    if span.end_step == len(plan.steps):
        plan.ended.add(way)


def _launched(gang: Gang, sequence: int) -> Executable:
    """What was launched under a sequence of the gang: of nodes that ran as one, the executable for all of them."""
    if isinstance(gang, Execution):
        return gang.executable
    if not gang.launched:
        gang.launched = tuple(_launched_at(gang, step) for step in spans.steps_of(gang))
    return gang.launched[sequence - gang.sequence]


def _launched_at(span: Span, step: int) -> Executable:
    group = fusion.group_at(span, step)
    launch = group.launch if group is not None else span.run.plan.steps[step]
    assert isinstance(launch, Launch)
    return launch.executable


def _measure(state: State, gang: Gang, executable: Executable, rows: list[MemberTime]) -> None:
    own = [row.ended_ns - row.started_ns for row in rows]
    latest = max(rows, key=_started)
    duration = max(row.ended_ns for row in rows) - latest.started_ns
    devices = [_devices_on(executable.placement, row.host) for row in rows]
    _book(gang, duration * sum(devices))
    skew = sum(max(each - duration, 0) * count for each, count in zip(own, devices, strict=True))
    latest.host.island.skew_ns += skew
    latest.host.late_ns += skew
    estimates.observe(state, executable.estimate, duration)
    estimates.observe_stay(state, executable.estimate, max(own))


def _started(row: MemberTime) -> int:
    return row.started_ns


# ---- gangs that were not timed ----------------------------------------------------------------------------------------


def _spread(state: State, host: Host, finished: int, growth: int, told: dict[int, None]) -> None:
    """Growth of the busy time belongs to what the host finished since its last report."""
    unfinished, before = host.unfinished, host.finished_through
    if unfinished and unfinished[0][0] >= finished and not told:  # one gang or span, as mostly
        gang = unfinished[0][1]
        _give(state, host, gang, max(before + 1, gang.sequence), finished, growth)
        return
    found: list[tuple[Gang, int, int, int]] = []
    for last, gang in unfinished:
        if gang.sequence > finished:
            break
        start, end = max(before + 1, gang.sequence), min(last, finished)
        count = end - start + 1 - sum(start <= sequence <= end for sequence in told)
        if count > 0:
            length = gang.last - gang.sequence + 1
            found.append((gang, start, end, max(gang.duration_ns * count // length, 1)))
    left, total = growth, sum(weight for *_, weight in found)
    for gang, start, end, weight in found:
        part = left * weight // total  # what rounding leaves over goes to the last
        left, total = left - part, total - weight
        _give(state, host, gang, start, end, part)


def _belongs_to_one(state: State, host: Host, finished: int, growth: int) -> bool:
    """Of a session that is alone nothing depends on a single gang: its time is booked, and now and then one is measured."""
    island, unfinished = host.island, host.unfinished
    if island.ground.departed or host.device_count != 1 or not island.measures or not unfinished:
        return False
    last, first = unfinished[0]
    if first.__class__ is not Execution or (last >= finished and not finished % _LOOKED_AT_EVERY):
        return False
    if not first.executable.estimate.measured:
        return False
    session = first.lane.session
    session.device_ns += growth
    session.tenant.device_ns += growth
    return True


def _give(state: State, host: Host, gang: Gang, first: int, end: int, part: int) -> None:
    """So much of the host's busy time was spent on these sequences of the gang."""
    if isinstance(gang, Span):
        _book(gang, part * _devices_on(_launched(gang, first).placement, host))
        _learn(state, gang, part, first, end)
        return
    _book(gang, part * _devices_on(gang.executable.placement, host))
    estimates.observe(state, gang.executable.estimate, part)


def _learn(state: State, span: Span, part: int, first: int, end: int) -> None:
    """The launches of the range took that much together: those that were never measured are taken to be equal."""
    plan = span.run.plan
    if plan.learned:
        return
    launches = spans.launches_of(span)
    start = bisect_left(launches, span.first_step) - span.sequence
    for position in range(start + first, start + end + 1):
        step = plan.steps[launches[position]]
        assert isinstance(step, Launch)
        if not step.executable.estimate.measured:
            estimates.observe(state, step.executable.estimate, part // (end - first + 1))
    plan.learned = all(executable.estimate.measured for executable in plan.executables)


# ---- the books --------------------------------------------------------------------------------------------------------


def _book(gang: Gang, device_ns: int) -> None:
    gang.booked_ns += device_ns
    if isinstance(gang, Span):
        gang.run.device_ns += device_ns
        if gang.run.walk is not None:
            gang.run.walk.device_ns += device_ns
    _account(gang.share, device_ns)


def _account(share: SessionShare, device_ns: int) -> None:
    share.session.device_ns += device_ns
    share.tenant.tenant.device_ns += device_ns


def _devices_on(placement: Placement, host: Host) -> int:
    if host.device_count == 1:
        return 1
    return sum(place.host is host for place in placement.shards)
