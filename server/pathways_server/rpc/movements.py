"""The Movements service: a slice goes to another island, a host is emptied or taken back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pathways_proto.v1 import movements_pb2

from pathways_server.rpc.callers import Callers
from pathways_server.rpc.form import checked_words
from pathways_server.shell.movements import Movements


class MovementsService:
    """Serves unary calls with decoded messages."""

    def __init__(self, movements: Movements, callers: Callers) -> None:
        self._movements = movements
        self._callers = callers

    def methods(self) -> dict[str, Callable[[Any, Any], Awaitable[Any]]]:
        """The calls by their names in the service."""
        return {"MigrateSlice": self.migrate_slice, "DrainHost": self.drain_host, "UndrainHost": self.undrain_host}

    async def migrate_slice(self, request: movements_pb2.MigrateSliceRequest, context: Any) -> movements_pb2.MigrateSliceResponse:
        """Answered when the slice lies on the other island."""
        island = checked_words(request.island, "island")
        only = self._callers.visible_tenant(context)
        ended = await self._movements.migrate(request.session_number, request.slice_id, island, only)
        return movements_pb2.MigrateSliceResponse(
            island=ended.island, hosts=ended.hosts, array_count=ended.array_count, size_bytes=ended.size_bytes
        )

    async def drain_host(self, request: movements_pb2.DrainHostRequest, context: Any) -> movements_pb2.DrainHostResponse:
        """Begins, or says how far it is."""
        drain = self._movements.drain(self._callers.administrator(context), checked_words(request.host, "host"))
        state = "DRAINED" if drain.drained else "DRAINING"
        return movements_pb2.DrainHostResponse(island=drain.island, state=state, waits_for=drain.text)

    async def undrain_host(self, request: movements_pb2.UndrainHostRequest, context: Any) -> movements_pb2.UndrainHostResponse:
        """The host may compute again."""
        by = self._callers.administrator(context)
        return movements_pb2.UndrainHostResponse(island=self._movements.undrain(by, checked_words(request.host, "host")))
