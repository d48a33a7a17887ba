"""Time in which the controller was listening: only that counts against a lease, a grace, or a host that others wait for.

It is added up from timer ticks. Of a pause between two ticks that no listening controller makes, only a moment counts: then it
was stopped, or the whole machine was, and nobody could be heard.
"""

from __future__ import annotations

from .state import State

# After a pause of all, an executor that lives beats within a fifth of a second, and its daemon tells of it when asked.
_HEARD_AFTER_NS = 300_000_000


def now_ns(state: State) -> int:
    """How long the controller was listening up to now. The next tick adds what is left of the pause since the last one."""
    return state.listened_ns + min(state.now_ns - state.ticked_ns, state.config.listening_gap_ns)


def moment_ns(state: State, ago_ns: int) -> int:
    """When something was that is so long ago by a clock that went on, also while nobody was listening."""
    at_ns = state.now_ns - ago_ns
    pauses = [*state.pauses, (state.ticked_ns + state.config.listening_gap_ns, state.now_ns)]
    unheard_ns = sum(max(0, end_ns - max(from_ns, at_ns)) for from_ns, end_ns in pauses)
    return now_ns(state) - ago_ns + unheard_ns


def on_time_passed(state: State) -> None:
    """A tick; first of all that look at the time."""
    pause_ns = state.now_ns - state.ticked_ns
    gap_ns = state.config.listening_gap_ns
    state.listened_ns += min(pause_ns, gap_ns)
    if pause_ns > gap_ns:
        state.pauses.append((state.ticked_ns + gap_ns, state.now_ns))
    state.ticked_ns = state.now_ns
    if pause_ns > gap_ns:  # what shows that others live may be about to be heard
        state.heard_from_ns = state.listened_ns + _HEARD_AFTER_NS
