"""Collectives of a simulated island: members meet by their place in the launch order and not by name, as in XLA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Meeting:
    """The n-th collective over one device list: it ends when every member host has come."""

    sums: dict[str, int] = field(default_factory=dict)
    executions: dict[str, int] = field(default_factory=dict)
    waiting: list[Callable[[int], None]] = field(default_factory=list)


class Fabric:
    """The collectives of one epoch of one island."""

    def __init__(self) -> None:
        self.meetings: dict[tuple[tuple[int, ...], int], Meeting] = {}

    def meet(
        self, key: tuple[tuple[int, ...], int], hosts: int, host: str, execution: int, value: int, go_on: Callable[[int], None]
    ) -> None:
        meeting = self.meetings.setdefault(key, Meeting())
        meeting.sums[host] = value
        meeting.executions[host] = execution
        meeting.waiting.append(go_on)
        if len(meeting.sums) == hosts:
            total = sum(meeting.sums.values())
            for waiting in meeting.waiting:
                waiting(total)
            del self.meetings[key]
