"""Calls of tools that the core answers when it can: each has a number, a deadline and one answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from pathways_common.model.bounds import LEAKS_TIMEOUT_NS, TRACE_TIMEOUT_NS
from pathways_common.model.failure import Reason, fail

from pathways_server.core import effects, events

Post = Callable[[Sequence[events.Event]], None]


class Numbered(Protocol):
    """An effect that answers a call."""

    @property
    def request_id(self) -> int: ...


Answer = TypeVar("Answer", bound=Numbered)


class CoreCalls(Generic[Answer]):
    """Lives in the event loop's thread.

    `post` gives events to the core, `wait` and `late` name what is waited for and say what to do after the deadline, and
    `numbers_from` is behind all calls of earlier lives.
    """

    def __init__(self, post: Post, wait: str, timeout_ns: int, late: str, numbers_from: int = 0) -> None:
        self._post = post
        self._wait = wait
        self._timeout_ns = timeout_ns
        self._late = late
        self._last_number = numbers_from
        self._waiting: dict[int, asyncio.Future[Answer]] = {}

    async def ask(self, event: Callable[[int], events.Event]) -> Answer:
        """What the core says to the event, which is made of the call's number; raises PathwaysError (TIMED_OUT)."""
        self._last_number += 1
        number = self._last_number
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._post((event(number),))
            return await asyncio.wait_for(future, self._timeout_ns / 1e9)
        except TimeoutError:
            sentence = self._late.format(seconds=self._timeout_ns // 10**9)
            raise fail(Reason.TIMED_OUT, sentence, wait=self._wait, retryable=True) from None
        finally:
            del self._waiting[number]

    def answer(self, effect: Answer) -> None:
        """The core has it; a caller that left is no matter."""
        future = self._waiting.get(effect.request_id)
        if future is not None and not future.done():
            future.set_result(effect)


def trace_calls(post: Post, numbers_from: int) -> CoreCalls[effects.TraceReady]:
    """The core asks the hosts and answers with what came in time, so the deadline is only met by a controller in trouble."""
    late = "the trace was not collected within {seconds} s; the controller is busy, ask again"
    return CoreCalls(post, "trace", TRACE_TIMEOUT_NS, late, numbers_from)


def leak_calls(post: Post, numbers_from: int) -> CoreCalls[effects.LeaksFound]:
    """The same, for what hosts and core have that nobody owns."""
    late = "the question for leaks was not answered within {seconds} s; the controller is busy, ask again"
    return CoreCalls(post, "leaks", LEAKS_TIMEOUT_NS, late, numbers_from)
