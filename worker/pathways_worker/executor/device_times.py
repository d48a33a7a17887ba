"""When launches kept their devices. On a device they never overlap, and together they last no longer than the time around them.

An end is seen late where cores are short: who sees it must get a core first. How long that took, the kernel tells, and so much
earlier the launch *ended*. The launch behind it has to get a core in just that moment, too, and nobody tells when it has; it is
taken to *begin* as long after it could as ends were seen late of late, on average. What lies between is nobody's time: without
that, launches of a millisecond are booked for a tenth more than they take, and those of a hundred for nothing more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

# Each end counts for so much in the average: some dozens of launches, which is a tenth of a second.
_NEW_SHARE = 32
# Waiting for cores is at most so much of what lies between the end of one launch and the end of the next: it is a guess for
# each of them, and no launch is for nothing.
_BEFORE_MAX_SHARE = 2
_BEHIND_LEFT_SHARE = 8


class DeviceTimes:
    """The books of one executor's devices, in the order in which launches were handed over.

    `busy_ns`: how long launches kept their devices, added up. `lateness_ns`: how long it takes to get a core, of late.
    """

    __slots__ = ("_ends", "busy_ns", "lateness_ns")

    def __init__(self) -> None:
        self.busy_ns = 0
        self.lateness_ns = 0
        # Per device, the end of the last launch.
        self._ends: dict[int, int] = defaultdict(int)

    def book(
        self, places: Sequence[int], began_ns: int, seen_ns: int, late_ns: int | None, at_once: bool = False
    ) -> tuple[int, int]:
        """When a launch started and ended on these devices.

        `began_ns`: when it was handed over. `seen_ns`: when its end was seen, by somebody who had waited `late_ns` for a core to
        see it; None: nobody knows. `at_once`: it ran in the thread that handed it over, which had its core.
        """
        ends, could_ns = self._ends, began_ns
        for place in places:
            if ends[place] > could_ns:
                could_ns = ends[place]
        ended_ns = max(seen_ns, could_ns)
        if late_ns is not None:
            self.lateness_ns += (late_ns - self.lateness_ns) // _NEW_SHARE
            ended_ns = max(ended_ns - late_ns, could_ns + (ended_ns - could_ns) // _BEHIND_LEFT_SHARE)
        waited_ns = 0 if at_once else min(self.lateness_ns, (ended_ns - could_ns) // _BEFORE_MAX_SHARE)
        started_ns = could_ns + waited_ns
        for place in places:
            ends[place] = ended_ns
        self.busy_ns += ended_ns - started_ns
        return started_ns, ended_ns
