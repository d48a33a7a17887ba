"""Calls of tools that move a slice: each has a number, a deadline and one answer. And the hosts that are drained, also later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pathways_common.model.bounds import MIGRATION_TIMEOUT_NS
from pathways_common.model.failure import PathwaysError, Reason, fail
from pathways_common.model.ids import HostName, IslandName, SessionNumber

from pathways_server.core import effects, events
from pathways_server.core.drains import Drain
from pathways_server.core.state import State
from pathways_server.core.tenant_records import TenantName
from pathways_server.shell.tenant_book import By
from pathways_server.shell.tenant_journal import TenantJournal


class Movements:
    """Lives in the event loop's thread. `post` gives events to the core, `numbers_from` is behind all calls of earlier lives."""

    def __init__(
        self,
        post: Callable[[Sequence[events.Event]], None],
        state: Callable[[], State],
        journal: TenantJournal,
        numbers_from: int = 0,
    ) -> None:
        self._post = post
        self._state = state
        self._journal = journal
        self._last_number = numbers_from
        self._waiting: dict[int, asyncio.Future[effects.MigrationEnded]] = {}
        kept = journal.drains()
        told = [events.DrainSet(HostName(host), True, IslandName(island)) for host, island in kept.items()]
        # Taken back right before an earlier life was killed, which had not heard of it.
        told += [events.DrainSet(host, False) for host in state().drains if host not in kept]
        if told:
            post(told)

    async def migrate(self, session: int, slice_id: int, island: str, tenant: TenantName | None) -> effects.MigrationEnded:
        """Moves a slice; raises PathwaysError with what left it where it was."""
        self._last_number += 1
        number = self._last_number
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._post((events.MigrationRequested(number, SessionNumber(session), slice_id, island, tenant),))
            ended: effects.MigrationEnded = await asyncio.wait_for(future, MIGRATION_TIMEOUT_NS / 1e9)
        except TimeoutError:
            seconds = MIGRATION_TIMEOUT_NS // 10**9
            sentence = f"the slice was not moved within {seconds} s and may still be; look at `pathways status`"
            raise fail(Reason.TIMED_OUT, sentence, wait="migration", retryable=True) from None
        finally:
            del self._waiting[number]
        if ended.failure is not None:
            raise PathwaysError(ended.failure)
        return ended

    def answer(self, effect: effects.MigrationEnded) -> None:
        """The core has it; a caller that left is no matter."""
        future = self._waiting.get(effect.request_id)
        if future is not None and not future.done():
            future.set_result(effect)

    def drain(self, by: By, name: str) -> Drain:
        """Begins to empty a host, or says how far that is. Kept before it is told."""
        known = self._state().drains.get(HostName(name))
        if known is not None:
            return known
        host = self._state().hosts.get(HostName(name))
        if host is None or host.island.tenant is not None:
            raise fail(Reason.INVALID_ARGUMENT, f"there is no host {name!r}; `pathways status` lists those there are", host=name)
        island = IslandName(host.island.name)
        self._journal.set_drain(name, island, by.act("DrainHost", name, "", "draining"))
        self._post((events.DrainSet(HostName(name), True, island),))
        return Drain(HostName(name), island, 0)

    def undrain(self, by: By, name: str) -> IslandName:
        """Takes a host back."""
        known = self._state().drains.get(HostName(name))
        if known is None:
            raise fail(Reason.INVALID_ARGUMENT, f"host {name!r} is not being drained; there is nothing to undo", host=name)
        self._journal.forget_drain(name, by.act("UndrainHost", name, "drained" if known.drained else "draining", ""))
        self._post((events.DrainSet(HostName(name), False),))
        return known.island
