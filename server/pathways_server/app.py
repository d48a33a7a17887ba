"""The controller put together: journal, core, loop, services; it serves until told to stop and then says so to everybody."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial

import grpc.aio
from pathways_common.model.bounds import CALLBACK_TIMEOUT_NS, INLINE_BYTES_MAX, STOP_GRACE_NS, TICK_NS
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.process.logs import fields
from pathways_common.process.metrics import serve_metrics
from pathways_common.process.state import StateDir
from pathways_common.process.tasks import Supervisor
from pathways_common.rpc.auth import Check, TokenInterceptor, one_token
from pathways_common.rpc.channels import server_options
from pathways_common.rpc.version import pathways_version
from prometheus_client import CollectorRegistry, Histogram

from pathways_server.config import Config
from pathways_server.core import effects, events
from pathways_server.core.registry import registered
from pathways_server.rpc.attached import LinkTerms
from pathways_server.rpc.callers import Callers
from pathways_server.rpc.clusters import ClustersService
from pathways_server.rpc.decode import OperationDecoder
from pathways_server.rpc.diagnoses import Diagnoses
from pathways_server.rpc.encode import Encoder
from pathways_server.rpc.errors import ErrorInterceptor
from pathways_server.rpc.links import Entrance, Links
from pathways_server.rpc.movements import MovementsService
from pathways_server.rpc.program_records import program_from_bytes, program_to_bytes
from pathways_server.rpc.recovery import Recovery, kept_in
from pathways_server.rpc.services import (
    GET_STATUS,
    GET_TRACE,
    LIST_PROGRAMS,
    MOVEMENTS,
    SESSIONS,
    TENANTS,
    VIEWS,
    WORKERS,
    register,
)
from pathways_server.rpc.sessions import SessionsService
from pathways_server.rpc.tenants import TenantsService
from pathways_server.rpc.versions import all_rows
from pathways_server.rpc.views import Views
from pathways_server.rpc.workers import WorkersService
from pathways_server.shell.accounts import Accounts
from pathways_server.shell.counters import Counters, ServerCollector, turn_histogram
from pathways_server.shell.event_log import EventLog, Record
from pathways_server.shell.far_door import run_far_door
from pathways_server.shell.fingerprint import fingerprint
from pathways_server.shell.journal import Journal
from pathways_server.shell.kept_policies import policies_set, with_kept_policies
from pathways_server.shell.loop import CoreLike, Loop
from pathways_server.shell.movements import Movements
from pathways_server.shell.program_shelf import ProgramShelf
from pathways_server.shell.programs import Programs
from pathways_server.shell.tenant_book import TenantBook
from pathways_server.shell.tenant_journal import TenantJournal
from pathways_server.shell.tickets import Tickets

_LOG = logging.getLogger(__name__)
_WORKER_HOW = "start the worker with the --state-dir of the cluster, or copy its `secret` file"
_STOPPING = Failure(Reason.UNAVAILABLE, "the controller was stopped; connect again when it is back", retryable=True)


def make_core(config: Config) -> CoreLike:
    """The real core, with the settings that it decides by."""
    from pathways_server.core.config import CoreConfig
    from pathways_server.core.controller import Core
    from pathways_server.core.share_records import Policy

    return Core(
        CoreConfig(
            hosts_per_island=config.default_hosts_per_island,
            island_hosts=config.hosts_per_island,
            island_shapes=config.island_shapes,
            default_policy=Policy(config.policy),
            island_policies={name: Policy(policy) for name, policy in config.island_policies.items()},
            inline_bytes_max=INLINE_BYTES_MAX,
            callback_ns=CALLBACK_TIMEOUT_NS,
            stuck_ns=config.stuck_ns,
            long_ns=config.long_ns,
            lease_ns=config.lease_ns,
            grace_ns=config.grace_ns,
            loaded_executables_max=config.loaded_executables,
            epoch_backoff_max_ns=config.reform_pause_ns,
            rescue_ns=config.rescue_ns,
            python_allowed=config.auth,
        )
    )


class App:
    """One life of the controller. `start`, then `run`; `run` ends by a signal, by `stop`, or by raising what went wrong."""

    def __init__(self, config: Config, core_of: Callable[[Config], CoreLike] = make_core) -> None:
        self._config = config
        self._state = StateDir(config.state_dir)
        self._state.create()
        self._journal = Journal(self._state.path)
        self._tenants = TenantJournal(self._journal, config.audit_lines, config.usage_days)
        self._book = TenantBook(self._tenants, self._state.token() if config.auth else None, config.tenants)
        if config.ifrt_tenant not in self._book:
            raise PathwaysError(self._book.unknown(config.ifrt_tenant))
        self._version = pathways_version()
        self._registry = CollectorRegistry()
        self._counters = Counters()
        self._programs = Programs()
        self._log = EventLog(self._state.path if config.orphan_ns else None, fingerprint())
        self._supervisor: Supervisor
        self._server: grpc.aio.Server
        self._links: Links
        self._workers: WorkersService
        self._make_core = partial(core_of, with_kept_policies(config, self._tenants.policies()))
        self.loop: Loop
        self._sessions: SessionsService
        self._accounts: Accounts
        self.address = ""
        self.metrics_port = -1
        self.link_port = 0

    async def start(self) -> None:
        """Serves; raises PathwaysError with one sentence if an address cannot be bound."""
        config, counters, term = self._config, self._counters, self._journal.term
        self._supervisor = Supervisor()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop, signal.Signals(number).name)
        self._begin()
        loop, workers, sessions = self.loop, self._workers, self._sessions
        self._registry.register(
            ServerCollector(counters, lambda: len(loop.sessions), lambda: len(loop.hosts), lambda: self._programs.size_bytes)
        )
        self._server = grpc.aio.server(interceptors=self._interceptors(), options=server_options())
        callers = Callers(self._book)
        clusters = ClustersService(loop, counters, term, self._version, callers)
        tenants = TenantsService(loop, self._book, self._tenants, callers, self._accounts)
        movements = Movements(loop.post, lambda: loop.core.state, self._tenants, term << 32)
        loop.carry_out(effects.MigrationEnded, movements.answer)
        moving = MovementsService(movements, callers)
        views = Views(loop, callers.visible_tenant)
        diagnoses = Diagnoses(loop, term, self._version, callers.visible_tenant)
        await register(self._server, sessions, workers, clusters, tenants, views, diagnoses, moving)
        secret = one_token(self._state.secret(), _WORKER_HOW) if config.auth else None
        token = self._book.tokens.problem if config.auth else None
        self._links = Links({"Workers": Entrance(workers, secret), "Sessions": Entrance(sessions, token)})
        self.address = await self._bind(config.listen)
        if config.link_transport == "framed":
            clusters.link_port = self.link_port = await self._listen_links()
        if config.metrics_port >= 0:
            self.metrics_port = serve_metrics(self._registry, config.listen_host.strip("[]"), config.metrics_port)
        await self._server.start()
        self._supervisor.spawn("ticker", self._tick())
        self._supervisor.spawn("accounts", self._accounts.run())
        if config.ifrt_port:
            administrator = self._state.token() if config.auth else None
            door = run_far_door(config.ifrt_port, self.address, administrator, config.ifrt_tenant)
            self._supervisor.spawn("far door", door)
        _LOG.info(
            "controller up",
            extra=fields(
                address=self.address, term=term, version=self._version, metrics_port=self.metrics_port, auth=config.auth,
                link_port=self.link_port,
            ),
        )  # fmt: skip

    def _begin(self) -> None:
        """Makes what decides, as an earlier life left it or else as new; the log begins anew behind it."""
        histogram = turn_histogram(self._registry)
        if not self._config.orphan_ns:  # what an earlier life has written would be out of date for a later one
            EventLog(self._state.path, "").discard()
        try:
            records = list(self._log.read())
            self._make(histogram, records)
        except Exception as error:  # whatever it is, it must not keep the cluster from starting
            _LOG.error("the work of an earlier life is lost: it cannot be gone on with", extra=fields(cause=error))
            if hasattr(self, "loop"):  # it is not where the log itself could not be read
                self.loop.abandon()
            self._programs = Programs()
            self._make(histogram, [])
        self.loop.settle()
        self.loop.keep()

    def _make(self, histogram: Histogram, records: list[Record]) -> None:
        counters, term, config = self._counters, self._journal.term, self._config
        core = self._make_core()
        settings, kept = core.state.config, kept_in(records[0]) if records else None
        if kept is not None:
            core.restore(kept.state)
        tickets = Tickets(kept.ticket_key if kept is not None else None)
        encoder = Encoder(
            tickets, self._programs, lambda host: self.loop.address_of(host), self._version,
            lambda: all_rows(self.loop.hosts.values()),
        )  # fmt: skip
        loop = self.loop = Loop(
            core, encoder, self._programs, counters, histogram, self._state.path, self._on_defect, self._log, term << 32
        )
        loop.carry_out(effects.KeepDeath, lambda effect: self._tenants.add_death(effect.death))
        shelf = ProgramShelf(self._journal, self._programs, program_to_bytes, program_from_bytes)
        shelf.attach(loop, told=kept is not None)
        decoder = OperationDecoder(self._programs, counters.operations)
        terms = LinkTerms(term, config.lease_ns, config.grace_ns, config.orphan_ns)
        self._workers = WorkersService(loop, counters, self._journal.next_incarnation, terms, self._version)
        self._sessions = SessionsService(loop, decoder, counters, self._journal.next_session, self._version, self._book, terms)
        self._accounts = Accounts(self._tenants, lambda: loop.core.state)
        recovery = Recovery(loop, self._workers, self._sessions, decoder, self._programs, counters, term, tickets.key)
        loop.snapshot = recovery.snapshot
        if kept is not None:
            recovery.restore(kept, records[1:])
            core.state.config = settings
            shelf.forget_unknown({(each.tenant, each.name, each.version) for each in registered(core.state)})
            self._tenants.forget_unknown_deaths({program: len(deaths) for program, deaths in core.state.deaths.items()})
            loop.post(policies_set(core.state))
            self._accounts.begin()
        elif deaths := self._tenants.deaths():
            loop.post((events.DeathsRestored(deaths),))
        self._book.attach(loop)

    def _interceptors(self) -> list[grpc.aio.ServerInterceptor]:
        if not self._config.auth:
            return [ErrorInterceptor()]
        checks: dict[str, Check] = dict.fromkeys(
            (SESSIONS, GET_STATUS, GET_TRACE, LIST_PROGRAMS, TENANTS, MOVEMENTS, *VIEWS), self._book.tokens.problem
        )
        checks[WORKERS] = one_token(self._state.secret(), _WORKER_HOW)
        return [TokenInterceptor(checks), ErrorInterceptor()]

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
        self._log.discard()  # everybody is told that it is over
        shutdown = effects.Shutdown("the controller was stopped")
        for session in list(self.loop.sessions.values()):
            self.loop.end_session(session, _STOPPING)
        for host in list(self.loop.hosts.values()):
            host.finish(self.loop.encoding.command(shutdown))
        await self._supervisor.close()
        await self._links.stop(STOP_GRACE_NS / 1e9)
        await self._server.stop(STOP_GRACE_NS / 1e9)
        self._accounts.write()
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
    # What is there now stays. To look at all of it would stop everybody for tens of milliseconds.
    gc.freeze()
    sys.stdout.write(f"listening grpc://{app.address}\n")
    sys.stdout.flush()
    await app.run()
