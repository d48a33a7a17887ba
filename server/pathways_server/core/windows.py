"""Windows: how much of an island's work may be granted and unfinished.

Alone, a session is bounded by gangs only. While another has work on the island, or had some a moment ago, what is unfinished is
bounded in estimated time too, so that whoever comes waits for a quantum or one gang.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import shares

if TYPE_CHECKING:
    from .records import Island
    from .share_records import SessionShare
    from .state import State


def has_room(state: State, island: Island, share: SessionShare) -> bool:
    """Whether a grant to this session may be made now. Whatever is alone in the window may be longer than it."""
    config = state.config
    if island.inflight_gangs >= config.window_gangs:
        return False
    return island.inflight_ns < config.window_ns or not shares.contended(state, island, share)


def is_full(state: State, island: Island) -> bool:
    """Whether nobody in line can be granted anything, as far as that is known without asking who would be next."""
    config = state.config
    if island.inflight_gangs >= config.window_gangs:
        return True
    return island.inflight_ns >= config.window_ns and len(island.active) > 1
