"""How long work in a lane will roughly wait: what is granted already, what goes before it, at the share that its session has.

A figure for people: others come and go, and what was never measured is a guess. Nothing is decided by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from . import estimates
from .records import Execution, Island, Lane, Session, Work
from .share_records import Policy
from .spans import shape_of
from .state import State

# So many of the works in a lane are added up; the rest is taken to be like them.
_LOOKED_AT_MAX = 256


@dataclass(frozen=True, slots=True)
class WaitFigures:
    """Of the head of a lane with work. `blocked_on`: what it waits for if it is not in line; the estimates begin after that."""

    island: str
    works: int
    since_ns: int
    blocked_on: str
    head_wait_ns: int
    all_wait_ns: int


def of(state: State, session: Session) -> tuple[WaitFigures, ...]:
    """One for each of its lanes with work, those of walks included."""
    lanes = [*session.lanes.values(), *(lane for walk in session.walks.values() for lane in walk.lanes.values())]
    return tuple(_figures(state, lane) for lane in lanes if lane.queue)


def _figures(state: State, lane: Lane) -> WaitFigures:
    blocked_on = lane.blocked_on if lane.blocked else ""
    head, works = lane.queue[0], len(lane.queue)
    return WaitFigures(
        lane.island.name, works, head.requested_ns, blocked_on, wait_ns(state, lane, 0), wait_ns(state, lane, works - 1)
    )  # fmt: skip


def wait_ns(state: State, lane: Lane, position: int) -> int:
    """Until the first gang of the work at this position of the lane begins, in estimated time."""
    looked_at = list(islice(lane.queue, min(position, _LOOKED_AT_MAX)))
    ahead = sum(_duration(state, lane.island, work) for work in looked_at)
    if looked_at:
        ahead = ahead * position // len(looked_at)
    share = _fraction(lane)
    others = len([other for other in lane.island.line if other.share is not lane.share])
    turn = min(others * state.config.quantum_ns, int(state.config.quantum_ns * (1 / share - 1)))
    return lane.island.inflight_ns + turn + int(ahead / share)


def _duration(state: State, island: Island, work: Work) -> int:
    if isinstance(work, Execution):
        return work.executable.estimate.duration_ns
    index = shape_of(work.plan).islands.index(island)
    return estimates.costs_of(state, work.plan).durations[index][-1]


def _fraction(lane: Lane) -> float:
    """Of the island's time, what its session gets while those stay who have work now."""
    share, island = lane.share, lane.island
    tenant = share.tenant
    sessions = dict.fromkeys([share, *tenant.sessions.active])
    if island.ground.policy is Policy.FIFO:
        return 1 / max(len(dict.fromkeys([share, *island.ground.active])), 1)
    tenants = dict.fromkeys([tenant, *tenant.peers.active])
    weights = sum(other.tenant.declared.weight for other in tenants if isinstance(other, type(tenant)))
    return tenant.tenant.declared.weight / max(weights, 1) / len(sessions)
