"""What a host that is watched has to do next, in words for people, and whether what it last said can be judged by."""

from __future__ import annotations

from typing import NamedTuple

from pathways_common.model.ids import local_id

from . import fusion, run_losses, spans
from .plan import Launch
from .records import Executable, Execution, Gang, Host
from .state import State
from .stuck_records import Watch

# The part of the deadline that an answer may be old.
_FRESH = 4


def is_fresh(state: State, watch: Watch) -> bool:
    """Whether what the host answered last can be judged by: nothing newer is due, or it is young."""
    if watch.pulse is None:
        return False
    if not watch.number or watch.asked_ns == state.listened_ns:
        return True
    return (state.listened_ns - watch.heard_ns) * _FRESH <= state.config.stuck_ns


def is_alive_since(host: Host, since_ns: int) -> bool:
    """Whether its executor was heard to live since then; nobody listens where no watch is kept."""
    return host.watch is None or host.watch.beat_ns > since_ns


class Work(NamedTuple):
    """One gang of a host: its sequence, its name for people, what is launched for it, and of what it is a part."""

    sequence: int
    words: str
    executable: Executable
    gang: Gang

    @property
    def members(self) -> tuple[Host, ...]:
        """Who takes part."""
        return self.executable.placement.hosts


def first_after(host: Host, sequence: int) -> Work | None:
    """The first gang of the host beyond this sequence."""
    for last, gang in host.unfinished:
        if last <= sequence:
            continue
        if isinstance(gang, Execution):
            return Work(gang.sequence, _name(gang), gang.executable, gang)
        for step, number in spans.own_launches(gang, host):
            if number > sequence:
                group = fusion.group_at(gang, step)
                launch = group.launch if group is not None else gang.run.plan.steps[step]
                assert isinstance(launch, Launch)
                return Work(number, run_losses.words(gang.run.plan, step), launch.executable, gang)
    return None


def _name(execution: Execution) -> str:
    facts, session = execution.executable.facts, execution.executable.session
    name = facts.name if facts is not None and facts.name else f"{local_id(execution.executable.id)}"
    return f"program {name}" + (f" of {session.client}" if session.client else "")


def seconds(duration_ns: int) -> str:
    """For people."""
    return f"{duration_ns / 1e9:.1f}"
