"""Calls of tools that move a slice: each has a number, a deadline and one answer. And the hosts that are drained, also later."""

from __future__ import annotations

from collections.abc import Callable

from pathways_common.model.bounds import MIGRATION_TIMEOUT_NS
from pathways_common.model.failure import PathwaysError, Reason, fail
from pathways_common.model.ids import HostName, IslandName, SessionNumber

from pathways_server.core import effects, events
from pathways_server.core.drains import Drain
from pathways_server.core.state import State
from pathways_server.core.tenant_records import TenantName
from pathways_server.shell.core_calls import CoreCalls, Post
from pathways_server.shell.tenant_book import By
from pathways_server.shell.tenant_journal import TenantJournal


class Movements:
    """Lives in the event loop's thread. `post` gives events to the core, `numbers_from` is behind all calls of earlier lives."""

    def __init__(
        self,
        post: Post,
        state: Callable[[], State],
        journal: TenantJournal,
        numbers_from: int = 0,
    ) -> None:
        self._post = post
        self._state = state
        self._journal = journal
        late = "the slice was not moved within {seconds} s and may still be; look at `pathways status`"
        self._calls: CoreCalls[effects.MigrationEnded] = CoreCalls(post, "migration", MIGRATION_TIMEOUT_NS, late, numbers_from)
        self.answer = self._calls.answer
        kept = journal.drains()
        told = [events.DrainSet(HostName(host), True, IslandName(island)) for host, island in kept.items()]
        # Taken back right before an earlier life was killed, which had not heard of it.
        told += [events.DrainSet(host, False) for host in state().drains if host not in kept]
        if told:
            post(told)

    async def migrate(self, session: int, slice_id: int, island: str, tenant: TenantName | None) -> effects.MigrationEnded:
        """Moves a slice; raises PathwaysError with what left it where it was."""
        ended = await self._calls.ask(
            lambda number: events.MigrationRequested(number, SessionNumber(session), slice_id, island, tenant)
        )
        if ended.failure is not None:
            raise PathwaysError(ended.failure)
        return ended

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
