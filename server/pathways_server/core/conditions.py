"""What every host is at, for `pathways diagnose`: its last finished and its running gang, by program and node, and since when.

Taken from the tables when somebody asks. What a daemon says of its executor (launched, finished) is newer than what has been
reported, so the running gang is the first that is not finished by that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from pathways_common.model.ids import HostName

from . import obstacles, spans
from .plan import Launch
from .records import Execution, Gang, Host, Island
from .run_records import Span
from .state import State


class GangFigures(NamedTuple):
    """`node` counts from 1 in the order of launches, 0 if the program is one executable; `since_ns` 0 = not remembered."""

    sequence: int
    id: int
    session: int
    tenant: str
    program: str
    node: int
    node_name: str
    source: str
    since_ns: int
    members: tuple[str, ...]


def running(state: State, host: Host, finished_through: int = 0) -> GangFigures | None:
    """The first gang that it was granted and has not finished; None: it has none."""
    finished = max(host.finished_through, finished_through)
    for last, gang in host.unfinished:
        if last > finished:
            sequence = _next_own(host, gang, finished) if isinstance(gang, Span) else gang.sequence
            granted_ns = state.history.granted_ns(_id(gang))
            return _figures(gang, sequence, max(granted_ns, host.moved_ns) if granted_ns else _requested_ns(gang))
    return None


def finished(host: Host, finished_through: int = 0) -> GangFigures | None:
    """The last gang that it finished in this epoch; None: it has finished none."""
    through = max(host.finished_through, finished_through)
    for last, gang in reversed(host.unfinished):
        if gang.sequence <= through:
            sequence = min(last, through)
            own = _own(host, gang) if isinstance(gang, Span) else (gang.sequence,)
            done = [each for each in own if each <= sequence]
            if done:
                return _figures(gang, done[-1], host.moved_ns)
    if host.finished is None:
        return None
    last, gang = host.finished
    return _figures(gang, last, host.moved_ns)


def late(state: State, island: Island, figures: GangFigures, finished_by: Mapping[HostName, int]) -> tuple[str, ...]:
    """Members of a gang that have not finished it; `finished_by` is what daemons said."""
    members = [host for name in figures.members if (host := state.hosts.get(HostName(name))) is not None]
    return tuple(
        host.name
        for host in members
        if host.island is island and max(host.finished_through, finished_by.get(host.name, 0)) < figures.sequence
    )


def _figures(gang: Gang, sequence: int, since_ns: int) -> GangFigures:
    if isinstance(gang, Execution):
        session = gang.lane.session
        members = tuple(host.name for host in gang.executable.members)
        program = f"program {obstacles.name_of(gang.executable.id)}"
        return GangFigures(sequence, gang.id, session.number, session.tenant.name, program, 0, "", "", since_ns, members)
    run = gang.run
    session = run.definition.session
    step = spans.step_at(gang, sequence)
    launch = run.plan.steps[step]
    assert isinstance(launch, Launch)
    node = run.plan.nodes[launch.node]
    number = spans.shape_of(run.plan).order.index(step) + 1
    members = tuple(host.name for host in launch.executable.placement.hosts)
    return GangFigures(
        sequence, _id(gang), session.number, session.tenant.name, run.plan.name, number, node.name, node.source, since_ns,
        members,
    )  # fmt: skip


def _own(host: Host, span: Span) -> tuple[int, ...]:
    """The sequences of a span that are this host's own."""
    run = span.run
    assert run.bound is not None
    shape = spans.shape_of(run.plan)
    index = shape.islands.index(span.island)
    before = bisect_left(shape.launches[index], span.first_step)
    positions = next((own for member, own in run.bound.members[index] if member is host), ())
    sequences = (span.sequence + position - before for position in positions)
    return tuple(each for each in sequences if span.sequence <= each <= span.last)


def _next_own(host: Host, span: Span, finished_through: int) -> int:
    return next((each for each in _own(host, span) if each > finished_through), span.last)


def _id(gang: Gang) -> int:
    if isinstance(gang, Execution):
        return gang.id
    return gang.run.id if gang.run.walk is None else gang.run.walk.id


def _requested_ns(gang: Gang) -> int:
    return gang.requested_ns if isinstance(gang, Execution) else gang.run.requested_ns
