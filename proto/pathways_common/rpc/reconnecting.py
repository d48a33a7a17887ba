"""Coming back after a connection broke: tries with growing pauses, until the other end has given us up.

Time in which the other end takes connections and says nothing counts apart, to a limit of its own: it is stopped or busy, and
what it counts stands still as well.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from pathways_common.model.bounds import COME_BACK_PAUSE_MAX_NS, COME_BACK_PAUSE_NS, HELLO_TIMEOUT_NS, UNANSWERED_NS

# Whoever is there and listens says something, or ends the connection, before this.
_SILENCE_S = 0.5


class Ending(Protocol):
    """A connection that can be ended from this side."""

    def cancel(self) -> object:
        """Ends it."""


ConnectionT = TypeVar("ConnectionT", bound=Ending)
AnswerT = TypeVar("AnswerT")


class TooLate(Exception):
    """Nothing came of any try; the text says why the last one failed."""


class Failed(Exception):
    """This try failed and another may not; the text says why."""


async def come_back(
    limit_s: float, dial: Callable[[], Awaitable[ConnectionT]], greet: Callable[[ConnectionT], Awaitable[AnswerT]]
) -> tuple[ConnectionT, AnswerT]:
    """A connection and what `greet` got on it. Both raise Failed or OSError if another try may help.

    Raises TooLate; whatever else they raise ends the tries. Ends every connection that came to nothing.
    """
    clock = asyncio.get_running_loop().time
    nobody_s, unanswered_s, pause_s = limit_s, UNANSWERED_NS / 1e9, COME_BACK_PAUSE_NS / 1e9
    while True:
        began_s = clock()
        try:
            async with asyncio.timeout(max(nobody_s, pause_s)):
                connection = await dial()
        except (Failed, OSError) as error:  # a TimeoutError is one
            why = str(error) or "nothing answers there"
        else:
            try:
                async with asyncio.timeout(min(unanswered_s, HELLO_TIMEOUT_NS / 1e9)):
                    return connection, await greet(connection)
            except (Failed, OSError) as error:  # also when its silence is noticed by the connection itself
                connection.cancel()
                why = str(error) or "the connection broke"
                if isinstance(error, TimeoutError) or clock() - began_s > _SILENCE_S:
                    unanswered_s -= clock() - began_s
                    began_s, why = clock(), "it takes connections and does not answer"
            except BaseException:
                connection.cancel()
                raise
        nobody_s -= clock() - began_s + pause_s
        if nobody_s <= 0 or unanswered_s <= 0:
            raise TooLate(why)
        await asyncio.sleep(pause_s)
        # Not all at once when it is back.
        pause_s = min(2 * pause_s, COME_BACK_PAUSE_MAX_NS / 1e9) * random.uniform(0.7, 1.0)
