"""One door process: the IFRT server for its client, a session stream per IFRT session, and the client's callbacks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from pathways_common.model.bounds import STOP_GRACE_NS
from pathways_common.model.failure import Reason, fail
from pathways_common.process.logs import fields
from pathways_common.rpc.channels import open_channel, parse_address
from pathways_common.rpc.version import differences, line, own_versions
from pathways_proto.v1 import sessions_pb2, types_pb2

from pathways_door.bulk import Bulk
from pathways_door.bulk_calls import BulkCalls
from pathways_door.callbacks import CallbackHub
from pathways_door.devices import primary_count
from pathways_door.ifrt_service import IfrtService
from pathways_door.near import NearWorkers
from pathways_door.slices import SliceHub
from pathways_door.transport import TransportName, transport_of
from pathways_door.upstream import Upstream, open_upstream

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DoorOptions:
    """What the command line and the environment say. `far` is the tenant of a door beside the controller, else empty.

    `tenant`: whose session it shall be, where the token (or a controller without tokens) leaves that open.
    """

    controller: str
    listen: str
    islands: tuple[str, ...]
    client: str
    jaxlib_version: str
    far: str
    token: str | None
    secret: str | None
    tenant: str = ""
    transport: TransportName = TransportName.HTTP2


class Door:
    """Start it, read `address`, end it with `stop`."""

    def __init__(self, options: DoorOptions) -> None:
        self._options = options
        self._channel = open_channel(options.controller)
        self._bulk = Bulk()
        self._secret = None if options.far else options.secret
        self._callbacks = CallbackHub(self._secret)
        self._server = transport_of(options.transport)
        self._service = IfrtService(self._next_upstream, self._give_back, self._bulk, self._secret, self._server)
        # A far door serves many sessions, and nothing in a call would say whose slices are meant.
        self._slices = None if options.far else SliceHub(self._secret)
        self._bulk_calls = None if options.far else BulkCalls(self._secret, NearWorkers(self._bulk))
        self._bulk.calls = self._bulk_calls
        self._server.add(self._service.handler())
        self._server.add(self._callbacks.handler())
        if self._slices is not None:
            self._server.add(self._slices.handler())
        self._ready: Upstream | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.address = ""
        # Where the client brings shared memory; empty: nowhere.
        self.bulk_socket = ""

    async def start(self) -> Upstream | None:
        """Opens the first session (near doors) and listens; raises PathwaysError with one sentence."""
        host = parse_address(self._options.listen).rpartition(":")[0]
        if self._options.far and host not in ("127.0.0.1", "localhost", "[::1]"):
            raise fail(Reason.INVALID_ARGUMENT, f"a door without a secret listens on loopback only, not on {host}")
        if not self._options.far:
            self._ready = await self._open()
        port = await self._server.listen(parse_address(self._options.listen))
        if not port:
            raise fail(
                Reason.UNAVAILABLE, f"the door cannot listen on {self._options.listen}: the port is in use; choose another"
            )
        self.address = f"{host}:{port}"
        if self._bulk_calls is not None:
            self.bulk_socket = self._bulk_calls.start()
        return self._ready

    async def _open(self) -> Upstream:
        options = self._options
        versions = own_versions(with_jax=not options.far, jaxlib=options.jaxlib_version)
        hello = sessions_pb2.Hello(
            pathways_version=versions.pathways,
            jaxlib_version=versions.jaxlib,
            python_version=versions.python,
            versions=versions,
            islands=options.islands,
            client=options.client or options.far,
            tenant=options.far or options.tenant,
        )
        upstream = await open_upstream(self._channel, parse_address(options.controller), options.token, hello)
        upstream.may_run_python = not options.far
        upstream.versions = versions
        self._callbacks.attach(upstream)
        if self._slices is not None:
            self._slices.attach(upstream)
        welcome = upstream.welcome
        _LOG.info("session opened", extra=fields(session=welcome.session_number, devices=primary_count(welcome)))
        return upstream

    def versions(self, upstream: Upstream) -> tuple[str, list[str]]:
        """Of this side, the controller and its workers in one line, and in what they differ."""
        own = own_versions(with_jax=True, jaxlib=self._options.jaxlib_version)
        rows = [types_pb2.VersionRow(processes=["client and door"], versions=own), *upstream.welcome.versions]
        return line(rows), differences(rows)

    async def _next_upstream(self) -> Upstream:
        """The session opened at the start for the first client, a fresh one for every later."""
        ready, self._ready = self._ready, None
        if ready is not None and ready.lost is None:
            return ready
        return await self._open()

    def _give_back(self, upstream: Upstream, reason: str) -> None:
        self._spawn(f"goodbye-{upstream.welcome.session_number}", upstream.close(reason))

    def _spawn(self, name: str, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self, reason: str) -> None:
        """Ends every session with a goodbye, then the process may end."""
        if self._bulk_calls is not None:
            self._bulk_calls.stop()
        await self._server.stop()
        if self._ready is not None:
            self._give_back(self._ready, reason)
            self._ready = None
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=STOP_GRACE_NS / 1e9)
        await self._bulk.close()
        await self._channel.close()
