"""Collectives of a simulated island: members meet by their place in the launch order and not by name, as in XLA.

Once an executor is gone, collectives that it was to be in fail for all others, those that wait for it and later ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Meeting:
    """The n-th collective over one device list: it ends when every member host has come."""

    ranks: list[int]
    sums: dict[str, int] = field(default_factory=dict)
    executions: dict[str, int] = field(default_factory=dict)
    waiting: list[Callable[[int], None]] = field(default_factory=list)
    breaks: list[Callable[[], None]] = field(default_factory=list)


class Fabric:
    """The collectives of one epoch of one island."""

    def __init__(self) -> None:
        self.meetings: dict[tuple[tuple[int, ...], int], Meeting] = {}
        self.gone: list[int] = []  # ranks

    def meet(
        self,
        key: tuple[tuple[int, ...], int],
        ranks: list[int],
        host: str,
        execution: int,
        value: int,
        go_on: Callable[[int], None],
        breaks: Callable[[], None],
    ) -> None:
        """`ranks`: of its members."""
        meeting = self.meetings.setdefault(key, Meeting(ranks))
        meeting.sums[host] = value
        meeting.executions[host] = execution
        meeting.waiting.append(go_on)
        meeting.breaks.append(breaks)
        if len(meeting.sums) == len(ranks):
            total = sum(meeting.sums.values())
            for waiting in meeting.waiting:
                waiting(total)
            del self.meetings[key]
        elif any(rank in self.gone for rank in ranks):
            meeting.breaks.clear()
            breaks()

    def lose(self, rank: int) -> None:
        """An executor is gone."""
        self.gone.append(rank)
        for meeting in list(self.meetings.values()):
            if rank in meeting.ranks:
                broken, meeting.breaks = meeting.breaks, []
                for each in broken:
                    each()
