"""Time in which the controller was listening: only that counts against a lease, a grace, or a host that others wait for.

It is added up from timer ticks. Of a pause between two ticks that no listening controller makes, only a moment counts: then it
was stopped, or the whole machine was, and nobody could be heard.
"""

from __future__ import annotations

from .state import State


def on_time_passed(state: State) -> None:
    """A tick; first of all that look at the time."""
    state.listened_ns += min(state.now_ns - state.ticked_ns, state.config.listening_gap_ns)
    state.ticked_ns = state.now_ns
