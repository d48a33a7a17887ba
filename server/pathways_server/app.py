"""The controller put together: journal, core, loop, services; it serves until told to stop and then says so to everybody."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable

import grpc.aio
from pathways_common.model.bounds import CALLBACK_TIMEOUT_NS, INLINE_BYTES_MAX, STOP_GRACE_NS, TICK_NS
from pathways_common.model.failure import Failure, Reason, fail
from pathways_common.process.logs import fields
from pathways_common.process.metrics import serve_metrics
from pathways_common.process.state import StateDir
from pathways_common.process.tasks import Supervisor
from pathways_common.rpc.auth import TOKEN_HOW, TokenInterceptor
from pathways_common.rpc.channels import server_options
from pathways_common.rpc.version import pathways_version
from prometheus_client import CollectorRegistry

from pathways_server.config import Config
from pathways_server.core import effects, events
from pathways_server.rpc.clusters import ClustersService
from pathways_server.rpc.decode import OperationDecoder
from pathways_server.rpc.encode import Encoder
from pathways_server.rpc.errors import ErrorInterceptor
from pathways_server.rpc.links import Entrance, Links
from pathways_server.rpc.program_records import program_from_bytes, program_to_bytes
from pathways_server.rpc.services import GET_STATUS, GET_TRACE, LIST_PROGRAMS, SESSIONS, VIEWS, WORKERS, register
from pathways_server.rpc.sessions import SessionsService
from pathways_server.rpc.views import Views
from pathways_server.rpc.workers import WorkersService
from pathways_server.shell.counters import Counters, ServerCollector, turn_histogram
from pathways_server.shell.far_door import run_far_door
from pathways_server.shell.journal import Journal
from pathways_server.shell.loop import CoreLike, Loop
from pathways_server.shell.program_shelf import ProgramShelf
from pathways_server.shell.programs import Programs
from pathways_server.shell.tickets import Tickets

_LOG = logging.getLogger(__name__)
_WORKER_HOW = "start the worker with the --state-dir of the cluster, or copy its `secret` file"
_STOPPING = Failure(Reason.UNAVAILABLE, "the controller was stopped; connect again when it is back", retryable=True)


def make_core(config: Config) -> CoreLike:
    """The real core, with the settings that it decides by."""
    from pathways_server.core.config import CoreConfig
    from pathways_server.core.controller import Core

    return Core(
        CoreConfig(
            hosts_per_island=config.default_hosts_per_island,
            island_hosts=config.hosts_per_island,
            island_shapes=config.island_shapes,
            inline_bytes_max=INLINE_BYTES_MAX,
            callback_ns=CALLBACK_TIMEOUT_NS,
        )
    )


class App:
    """One life of the controller. `start`, then `run`; `run` ends by a signal, by `stop`, or by raising what went wrong."""

    def __init__(self, config: Config, core_of: Callable[[Config], CoreLike] = make_core) -> None:
        self._config = config
        self._state = StateDir(config.state_dir)
        self._state.create()
        self._journal = Journal(self._state.path)
        self._version = pathways_version()
        self._registry = CollectorRegistry()
        self._counters = Counters()
        self._programs = Programs()
        self._supervisor: Supervisor
        self._server: grpc.aio.Server
        self._links: Links
        self._core = core_of(config)
        self.loop: Loop
        self.address = ""
        self.metrics_port = -1
        self.link_port = 0

    async def start(self) -> None:
        """Serves; raises PathwaysError with one sentence if an address cannot be bound."""
        config, counters, term = self._config, self._counters, self._journal.term
        self._supervisor = Supervisor()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop, signal.Signals(number).name)
        encoder = Encoder(Tickets(), self._programs, lambda host: self.loop.address_of(host), self._version)
        self.loop = Loop(
            self._core, encoder, self._programs, counters, turn_histogram(self._registry), self._state.path, self._on_defect
        )
        loop = self.loop
        self._registry.register(
            ServerCollector(counters, lambda: len(loop.sessions), lambda: len(loop.hosts), lambda: self._programs.size_bytes)
        )
        ProgramShelf(self._journal, self._programs, program_to_bytes, program_from_bytes).attach(loop)
        decoder = OperationDecoder(self._programs, counters.operations)
        self._server = grpc.aio.server(interceptors=self._interceptors(), options=server_options())
        workers = WorkersService(loop, counters, self._journal.next_incarnation, term, self._version)
        clusters = ClustersService(loop, counters, term, self._version)
        sessions = SessionsService(loop, decoder, counters, self._journal.next_session, self._version)
        await register(self._server, sessions, workers, clusters, Views(loop, lambda _: None))
        secret, token = (self._state.secret(), self._state.token()) if config.auth else (None, None)
        self._links = Links({"Workers": Entrance(workers, secret, _WORKER_HOW), "Sessions": Entrance(sessions, token, TOKEN_HOW)})
        self.address = await self._bind(config.listen)
        if config.link_transport == "framed":
            clusters.link_port = self.link_port = await self._listen_links()
        if config.metrics_port >= 0:
            self.metrics_port = serve_metrics(self._registry, config.listen_host.strip("[]"), config.metrics_port)
        await self._server.start()
        self._supervisor.spawn("ticker", self._tick())
        if config.ifrt_port:
            token = self._state.token() if config.auth else None
            self._supervisor.spawn("far door", run_far_door(config.ifrt_port, self.address, token))
        _LOG.info(
            "controller up",
            extra=fields(
                address=self.address, term=term, version=self._version, metrics_port=self.metrics_port, auth=config.auth,
                link_port=self.link_port,
            ),
        )  # fmt: skip

    def _interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        if not self._config.auth:
            return [ErrorInterceptor()]
        token, secret = self._state.token(), self._state.secret()
        how = {WORKERS: _WORKER_HOW}
        tokens = {SESSIONS: token, GET_STATUS: token, GET_TRACE: token, LIST_PROGRAMS: token, WORKERS: secret}
        tokens |= dict.fromkeys(VIEWS, token)
        return [TokenInterceptor(tokens, how), ErrorInterceptor()]

    async def _bind(self, listen: str) -> str:
        host, _, port = listen.rpartition(":")
        _probe(host.strip("[]"), int(port), listen)
        try:
            bound = self._server.add_insecure_port(listen)
        except RuntimeError:
            bound = 0
        if not bound:
            raise fail(Reason.INVALID_ARGUMENT, f"cannot listen on {listen}; choose another --listen", listen=listen)
        return f"{host}:{bound}"

    async def _listen_links(self) -> int:
        return await self._links.listen(self._config.listen_host.strip("[]"), self._config.link_port)

    async def _tick(self) -> None:
        tick = (events.TimePassed(),)
        while True:
            await asyncio.sleep(TICK_NS / 1e9)
            self.loop.post(tick)

    def _on_defect(self, error: BaseException) -> None:
        async def fall() -> None:
            raise error

        self._supervisor.spawn("core", fall())

    def stop(self, reason: str) -> None:
        """Lets `run` return."""
        self._supervisor.stop(reason)

    async def run(self) -> None:
        """Waits for the end; raises TaskFailed if something broke. Always closes everything."""
        try:
            await self._supervisor.run_until_stopped()
        finally:
            await self.close()

    async def close(self) -> None:
        """Tells sessions and workers, gives their streams a moment, and lets go of everything."""
        _LOG.info("controller stopping", extra=fields(reason=self._supervisor.reason))
        shutdown = effects.Shutdown("the controller was stopped")
        for session in list(self.loop.sessions.values()):
            self.loop.end_session(session, _STOPPING)
        for host in list(self.loop.hosts.values()):
            host.finish(self.loop.encoding.command(shutdown))
        await self._supervisor.close()
        await self._links.stop(STOP_GRACE_NS / 1e9)
        await self._server.stop(STOP_GRACE_NS / 1e9)
        self._journal.close()


def _probe(host: str, port: int, listen: str) -> None:
    """Binds the address once: gRPC itself would not say why it cannot."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        sentence = f"cannot listen on {listen} ({error.strerror}); stop what uses it or choose another --listen"
        raise fail(Reason.INVALID_ARGUMENT, sentence, listen=listen) from error


async def serve(config: Config) -> None:
    """The whole life of the daemon; prints one line on stdout when it is up."""
    app = App(config)
    await app.start()
    sys.stdout.write(f"listening grpc://{app.address}\n")
    sys.stdout.flush()
    await app.run()
