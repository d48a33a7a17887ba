"""Calls of tools that wait for the trace of a run: each has a number, a deadline and one answer.

The core asks the hosts and answers with what came in time, so the deadline here is only met by a controller in trouble.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pathways_common.model.bounds import TRACE_TIMEOUT_NS
from pathways_common.model.failure import Reason, fail

from pathways_server.core import effects, events
from pathways_server.core.tenant_records import TenantName


class TraceCalls:
    """Lives in the event loop's thread. `post` gives events to the core."""

    def __init__(self, post: Callable[[Sequence[events.Event]], None], numbers_from: int = 0) -> None:
        self._post = post
        self._last_number = numbers_from
        self._waiting: dict[int, asyncio.Future[effects.TraceReady]] = {}

    async def collect(self, execution_id: int, tenant: TenantName | None = None) -> effects.TraceReady:
        """What the hosts know of a run (of this tenant, if one is named), 0 = the last one; raises PathwaysError (TIMED_OUT)."""
        self._last_number += 1
        number = self._last_number
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._post((events.TraceRequested(number, execution_id, tenant),))
            return await asyncio.wait_for(future, TRACE_TIMEOUT_NS / 1e9)
        except TimeoutError:
            seconds = TRACE_TIMEOUT_NS // 10**9
            sentence = f"the trace was not collected within {seconds} s; the controller is busy, ask again"
            raise fail(Reason.TIMED_OUT, sentence, wait="trace", retryable=True) from None
        finally:
            del self._waiting[number]

    def answer(self, effect: effects.TraceReady) -> None:
        """The core has it; a caller that left is no matter."""
        future = self._waiting.get(effect.request_id)
        if future is not None and not future.done():
            future.set_result(effect)
