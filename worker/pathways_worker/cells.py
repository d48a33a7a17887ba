"""Cells on this host: for each tenant with executors of its own another agent, with its own link, data server and spill store.

The controller opens and closes them over the host's first link, and they end with it. To the controller a cell's host is a host
like any other, called as this one with "+" and the tenant's name behind.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pathways_common.model.failure import PathwaysError
from pathways_common.process.logs import fields
from pathways_common.process.tasks import Supervisor

_LOG = logging.getLogger(__name__)

_PAUSE_S = 0.2
# Lives as one cell until it is cancelled; raises PathwaysError if it cannot join.
Live = Callable[[str], Awaitable[None]]


class Cells:
    """Which cells are to be there, and their tasks. One that was closed and is opened again lives anew when it has ended."""

    def __init__(self, supervisor: Supervisor, live: Live) -> None:
        self._supervisor = supervisor
        self._live = live
        self._wanted: dict[str, None] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._lives: dict[str, asyncio.Task[None]] = {}

    def open(self, tenant: str) -> None:
        """Starts the cell of a tenant; one that is there stays."""
        self._wanted[tenant] = None
        if tenant not in self._running:
            self._running[tenant] = self._supervisor.spawn(f"cell of {tenant}", self._run(tenant))

    def close(self, tenant: str) -> None:
        """Ends it: its executor is killed, its host leaves."""
        self._wanted.pop(tenant, None)
        life = self._lives.get(tenant)
        if life is not None:
            life.cancel()

    def close_all(self) -> None:
        """The host's own link is gone, or the daemon ends."""
        for tenant in list(self._wanted):
            self.close(tenant)

    async def wait_gone(self, timeout_s: float) -> None:
        """Until everything that was closed has ended."""
        if self._running:
            await asyncio.wait(self._running.values(), timeout=timeout_s)

    async def _run(self, tenant: str) -> None:
        try:
            while tenant in self._wanted:
                await self._live_once(tenant)
        finally:
            del self._running[tenant]

    async def _live_once(self, tenant: str) -> None:
        _LOG.info("cell opens", extra=fields(tenant=tenant))
        life = self._lives[tenant] = asyncio.create_task(self._lived(tenant), name=f"life of the cell of {tenant}")
        try:
            await asyncio.wait((life,))
        finally:
            life.cancel()
            await asyncio.wait((life,))
            del self._lives[tenant]
            _LOG.info("cell closed", extra=fields(tenant=tenant))
        if not life.cancelled():
            life.result()

    async def _lived(self, tenant: str) -> None:
        try:
            await self._live(tenant)
        except PathwaysError as error:
            _LOG.error("cell could not go on", extra=fields(tenant=tenant, cause=error.failure.message))
            if error.failure.retryable:
                await asyncio.sleep(_PAUSE_S)  # mostly the controller has not noticed that the life before is over
            else:
                self._wanted.pop(tenant, None)  # it asks again as long as somebody needs it
