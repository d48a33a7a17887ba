"""Fences: small plugin programs by which a client marks a place in its own stream, for a call that comes another way.

`pathways-fence N` is compiled by the door alone and executed by the door alone: to execute it says that everything the client
sent before has been read. Whoever waits for N then acts at once, so that what it pushes lies right behind that place.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from pathways_common.model.bounds import FENCES_MAX


class Fences:
    """The fences of one session by number: what passed, and who acts when one passes."""

    def __init__(self) -> None:
        self._passed: OrderedDict[int, None] = OrderedDict()
        self._actions: dict[int, Callable[[], None]] = {}

    def passed(self, number: int) -> None:
        """The client executed this fence."""
        action = self._actions.pop(number, None)
        if action is not None:
            action()
            return
        self._passed[number] = None
        if len(self._passed) > FENCES_MAX:
            self._passed.popitem(last=False)

    def after(self, number: int, action: Callable[[], None]) -> None:
        """Calls `action` once, now if the fence has passed, else when it passes."""
        if number in self._passed:
            del self._passed[number]
            action()
        else:
            self._actions[number] = action

    def withdraw(self, number: int) -> None:
        """Forgets the action that waits for a fence."""
        self._actions.pop(number, None)
