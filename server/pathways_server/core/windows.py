"""Windows: how much of an island's work may be granted and unfinished.

Alone, a session is bounded by gangs only. While another has work on the island, or had some a moment ago, the next grant waits
until less than a window is unfinished, in estimated time: so whoever comes waits for that and one grant at most. What the gang
at the front has done by now counts as done, so that the next one is granted before a long one ends. Of gangs whose members wait
for one another two are granted ahead at most: how long they take is anybody's guess. The window is wider, and such gangs are not
counted, while all who compete have work in line: nobody among them waits for an answer.

An island and its cells are never granted anything beside one another: who is next waits until the others have nothing in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import shares
from .effects import WakeAt
from .share_records import Policy

if TYPE_CHECKING:
    from .records import Island
    from .share_records import Estimate, Ground, SessionShare
    from .state import State


def ran_dry(state: State, island: Island) -> None:
    """Somebody was granted all that it had asked for there."""
    island.ground.dry_ns = state.now_ns


def is_settled(state: State, island: Island) -> bool:
    """Whether all who compete have had work in line for a while."""
    ground = island.ground
    return state.now_ns - ground.dry_ns >= state.config.settled_ns and ground.policy is not Policy.PRIORITY


def _size_ns(state: State, island: Island) -> int:
    return state.config.settled_window_ns if is_settled(state, island) else state.config.window_ns


def stay_ns(state: State, estimate: Estimate) -> int:
    """How long a gang keeps others waiting: as long as its first member has it, and never less than it takes to launch it."""
    return max(estimate.duration_ns, estimate.stay_ns, state.config.launch_ns)


def has_room(state: State, island: Island, share: SessionShare) -> bool:
    """Whether a grant to this session may be made now. Whatever is alone in the window may be longer than it."""
    config = state.config
    if island.inflight_gangs >= config.window_gangs:
        return False
    if len(island.ground.islands) > 1 and busy_beside(island) is not None:
        return False
    enough = _has_enough_joint(state, island)
    if (island.inflight_ns < config.window_ns and not enough) or not shares.contended(state, island, share):
        return True
    return not enough and _left_ns(state, island) < _size_ns(state, island)


def is_full(state: State, island: Island) -> bool:
    """Whether nobody in line can be granted anything, as far as that is known without asking who would be next."""
    config, ground = state.config, island.ground
    if len(ground.islands) > 1:
        turn = busy_of(ground)
        if turn is None:
            return False
        island = turn
    if island.inflight_gangs >= config.window_gangs:
        return True
    if len(ground.active) < 2:
        return False
    if _has_enough_joint(state, island):
        return True
    return island.inflight_ns >= config.window_ns and _left_ns(state, island) >= _size_ns(state, island)


def has_most_joint(state: State, island: Island) -> bool:
    """Whether as many gangs whose members wait for one another are unfinished as may be while somebody waits for an answer."""
    if not island.inflight_joint:
        return False
    config = state.config
    # With classes there is no telling whether somebody waits for an answer: devices shall not be idle for it.
    is_short = island.inflight[0].duration_ns * 2 < config.window_ns and island.ground.policy is not Policy.PRIORITY
    return island.inflight_joint >= (config.window_joint_short if is_short else config.window_joint)


def _has_enough_joint(state: State, island: Island) -> bool:
    return has_most_joint(state, island) and not is_settled(state, island)


def busy_of(ground: Ground) -> Island | None:
    """Who has gangs in flight, or room for some: the island or a cell of it, never two of them."""
    return next((island for island in ground.islands if island.inflight_gangs), None)


def busy_beside(island: Island) -> Island | None:
    """Who keeps the devices from this one: another on its ground that has gangs in flight."""
    return next((other for other in island.ground.islands if other.inflight_gangs and other is not island), None)


def _left_ns(state: State, island: Island) -> int:
    """How much is unfinished, if the gang at the front goes on as estimated. Behind its estimate it counts as done."""
    front = island.inflight[0]
    return island.inflight_ns - min(state.now_ns - island.moved_ns, front.duration_ns - front.done_ns)


def look_in_time(state: State, island: Island) -> None:
    """Somebody is in line: asks to be woken when the window will have room, should no report come before."""
    island = busy_of(island.ground) or island
    now_ns, window_ns = state.now_ns, _size_ns(state, island)
    if not island.inflight or island.inflight_ns < window_ns or _has_enough_joint(state, island):
        return
    front = island.inflight[0]
    due_ns = island.moved_ns + island.inflight_ns - window_ns + 1
    if due_ns - island.moved_ns > front.duration_ns - front.done_ns or due_ns <= now_ns:
        return
    if island.due_ns <= now_ns or due_ns < island.due_ns:
        island.due_ns = due_ns
        state.effects.append(WakeAt(island.name, due_ns))
