"""What the core remembers of a host while nothing is heard of the work that it was given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .host_events import HostPulsed


@dataclass(slots=True, eq=False)
class Watch:
    """Times are of `State.listened_ns`. `finished`: the last gang that it finished, since `since_ns`.

    `heard_ns`: when it last answered a probe, with `pulse`; `asked_ns`: when it was last asked; `number`: of the probe
    that is not answered, 0 = there is none; `beat_ns`: when its executor last showed life, by all that was heard.
    `alive_ns`: when anything last came over its link, by what the shell tells; `answered_in_ns`: how long an answer took at most.
    `used_from_ns`: what its executor had used of CPUs when it first answered, or last while it owed a load, at `used_since_ns`.
    `owes`: in words, of a host that has no gang and owes something else.
    """

    finished: int
    since_ns: int
    heard_ns: int
    asked_ns: int
    beat_ns: int
    number: int = 0
    pulse: HostPulsed | None = None
    alive_ns: int = 0
    answered_in_ns: int = 0
    used_from_ns: int = 0
    used_since_ns: int = 0
    owes: str = ""
