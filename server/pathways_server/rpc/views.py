"""What people ask about: leaks, work, memory, reasons. Calls of the Clusters service that show a tenant only what is its own.

Every answer is made from one look at the core's tables and is bounded by what the caller asked for, and by a bound of ours.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pathways_common.model.failure import Reason, fail
from pathways_proto.v1 import cluster_pb2

from pathways_server.core import effects
from pathways_server.core.tenant_records import TenantName
from pathways_server.shell.loop import Loop


class Views:
    """Serves unary calls with decoded messages. `visible_tenant` says of a call which tenant alone it may see; None: all."""

    def __init__(self, loop: Loop, visible_tenant: Callable[[Any], TenantName | None]) -> None:
        self._loop = loop
        self._visible_tenant = visible_tenant

    async def find_leaks(self, _request: cluster_pb2.FindLeaksRequest, context: Any) -> cluster_pb2.FindLeaksResponse:
        """What is held without an owner, on every host and here."""
        if self._visible_tenant(context) is not None:
            raise fail(Reason.UNAUTHENTICATED, "leaks belong to nobody: asking for them needs the cluster's own token")
        return _leaks_found(await self._loop.leaks.find())


def _leaks_found(found: effects.LeaksFound) -> cluster_pb2.FindLeaksResponse:
    return cluster_pb2.FindLeaksResponse(
        leaks=[
            cluster_pb2.Leak(
                host=leak.host,
                kind=leak.kind,
                id=leak.id,
                size_bytes=leak.size_bytes,
                session_number=leak.session,
                session_open=leak.session_open,
                tenant=leak.tenant,
                missing=leak.missing,
            )
            for leak in found.leaks
        ],
        hosts=found.hosts,
        late_hosts=found.late_hosts,
        lost_hosts=found.lost_hosts,
        objects=found.objects,
        left_out=found.left_out,
    )
