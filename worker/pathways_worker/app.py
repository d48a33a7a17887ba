"""The worker daemon put together: data service, executors, link to the controller; it serves until told to stop.

It never imports jax: what runs users' programs is the executor, which ends with it.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from pathways_common.model.bounds import STOP_GRACE_NS
from pathways_common.model.cells import cell_name
from pathways_common.model.failure import Failure, PathwaysError, Reason, fail
from pathways_common.process.logs import fields
from pathways_common.process.metrics import serve_metrics
from pathways_common.process.state import StateDir
from pathways_common.process.tasks import Supervisor
from pathways_common.rpc.channels import server_options
from pathways_common.rpc.version import own_versions
from pathways_proto.v1 import workers_pb2
from prometheus_client import CollectorRegistry

from pathways_worker.cells import Cells
from pathways_worker.config import Config
from pathways_worker.rpc.controller_link import ControllerLink
from pathways_worker.rpc.data_client import DataClient
from pathways_worker.rpc.data_service import SERVICE as DATA
from pathways_worker.rpc.data_service import DataService
from pathways_worker.rpc.emulated_link import through_link
from pathways_worker.rpc.near_service import NearService
from pathways_worker.shell.coordinator_process import Coordinators
from pathways_worker.shell.counters import Counters, WorkerCollector
from pathways_worker.shell.environment import child_command, child_environment
from pathways_worker.shell.executor_pool import Recipe
from pathways_worker.shell.host_agent import HostAgent
from pathways_worker.shell.image_files import ImageFolder
from pathways_worker.shell.output_log import OutputLog
from pathways_worker.shell.spill_files import SpillFolder
from pathways_worker.shell.uplink import SpillStore

_LOG = logging.getLogger(__name__)
_WILDCARDS = ("0.0.0.0", "[::]", "::")
# Killed processes are gone within milliseconds; the daemon itself must end within the grace of who stops it.
_GONE_S = 3.0


class App:
    """One life of the daemon: `start`, then `run`. The commands are those of the real children unless a test gives others."""

    def __init__(
        self,
        config: Config,
        executor: Sequence[str] = (*child_command("pathways_worker.executor"),),
        coordinator: Sequence[str] = (*child_command("pathways_worker.coordinator"),),
    ) -> None:
        self._config = config
        self._supervisor = Supervisor()
        self._failure: PathwaysError | None = None
        self._server: grpc.aio.Server | None = None
        self._near: NearService | None = None
        self._client = DataClient()
        self._registry = CollectorRegistry()
        self.counters = Counters()
        self._registry.register(WorkerCollector(self.counters))
        state = StateDir(config.state_dir)
        _make_logs(state)
        self._secret = _secret(state) if config.auth else None
        self._state = state
        environment = child_environment(os.environ, config.devices, config.collective_timeout_s, config.python_timeout_s)
        self._coordinator = coordinator
        self._recipe = Recipe(_with_options(executor, config), config.devices, environment, config.keep_spare)
        self._pull = through_link(self._client.pull, os.environ)
        self.agent = self._agent(config.host, self._recipe, self.counters, self._on_shutdown)
        self.cells = Cells(self._supervisor, self._live_as_cell)
        self.agent.cells = self.cells
        self.data_address = ""
        self.metrics_port = -1

    def _agent(self, host: str, recipe: Recipe, counters: Counters, on_shutdown: Callable[[str, bool], None]) -> HostAgent:
        config, log = self._config, OutputLog(self._state.log_path(f"{host}.executor"))
        spilled = SpillFolder(config.spill_dir or self._state.path / "spill", host)
        spilled.clean()
        return HostAgent(
            host,
            recipe,
            Coordinators(self._coordinator, _advertised(config.data_listen), recipe.environment, log),
            log,
            counters,
            self._supervisor,
            self._pull,
            on_shutdown,
            SpillStore(config.spill_memory, config.spill_disk, spilled),
            self._image_folder(),
        )

    def _image_folder(self) -> ImageFolder | None:
        """Where compiled executables stay; without a secret nobody could tell who wrote them."""
        config = self._config
        if not config.image_disk or self._secret is None:
            return None
        return ImageFolder(config.image_dir or self._state.path / "images", self._secret, config.image_disk)

    async def start(self) -> None:
        """Serves data and metrics and begins to join; raises PathwaysError if an address cannot be bound."""
        config = self._config
        near = self._near = NearService(self.agent.transfers, self._supervisor)
        near.start()
        server = self._server = await _data_server(self.agent, self.counters, near.name)
        self.data_address = _bind(server, config.data_listen)
        if config.metrics_port >= 0:
            where = config.data_listen.rpartition(":")[0].strip("[]")
            self.metrics_port = serve_metrics(self._registry, where, config.metrics_port)
        await server.start()
        link = ControllerLink(
            config.controller, self._secret, self._hello, config.join_timeout_s, self.agent, self.counters, self._on_joined
        )
        self._supervisor.spawn("deadlines of transfers", self.agent.transfers.watch_deadlines())
        self._supervisor.spawn("controller link", self._join(link))
        _LOG.info("worker up", extra=fields(host=config.host, data_address=self.data_address, metrics_port=self.metrics_port))

    async def _live_as_cell(self, tenant: str) -> None:
        """Until it is cancelled: this host once more, with an executor for one tenant. It keeps no spare one."""
        config, counters = self._config, self.counters.beside()
        host, island = cell_name(config.host, tenant), cell_name(config.island, tenant)

        def on_shutdown(_reason: str, _refused: bool) -> None:
            self.cells.close(tenant)

        agent = self._agent(host, replace(self._recipe, keep_spare=False), counters, on_shutdown)
        watching = self._supervisor.spawn(f"deadlines of transfers of {host}", agent.transfers.watch_deadlines())
        near = NearService(agent.transfers, self._supervisor)
        near.start()
        server = await _data_server(agent, counters, near.name)
        try:
            address = _bind(server, f"{config.data_listen.rpartition(':')[0]}:0")
            await server.start()

            def hello(last_term: int) -> workers_pb2.WorkerHello:
                return self._hello_as(host, island, address, last_term)

            link = ControllerLink(config.controller, self._secret, hello, config.join_timeout_s, agent, counters, lambda: None)
            await link.run()
        finally:
            watching.cancel()
            agent.close()
            await agent.pool.wait_gone(_GONE_S)
            agent.spills.remove_folder()
            near.close()
            await server.stop(0)
            self.counters.leave(counters)

    def _hello(self, last_term: int) -> workers_pb2.WorkerHello:
        return self._hello_as(self._config.host, self._config.island, self.data_address, last_term)

    def _hello_as(self, host: str, island: str, data_address: str, last_term: int) -> workers_pb2.WorkerHello:
        config, versions = self._config, own_versions(with_jax=True)
        return workers_pb2.WorkerHello(
            host=host,
            island=island,
            pathways_version=versions.pathways,
            jaxlib_version=versions.jaxlib,
            device_count=config.devices,
            data_address=data_address,
            pid=os.getpid(),
            device_memory_bytes=config.device_memory,
            last_term=last_term,
            topology=config.topology,
            coordinates=[index for coordinate in config.coordinates for index in coordinate],
            device_kind=config.device_kind,
            versions=versions,
        )

    def _on_joined(self) -> None:
        sys.stdout.write(f"joined {self._config.host}\n")
        sys.stdout.flush()

    async def _join(self, link: ControllerLink) -> None:
        try:
            await link.run()
        except PathwaysError as error:
            # Not a defect: a sentence for whoever started the worker.
            self._failure = error
            self.stop(error.failure.message)

    def _on_shutdown(self, reason: str, refused: bool) -> None:
        """The controller's word: it ends, or this host cannot join as it is, which whoever started it has to see."""
        if refused:
            sentence = f"the controller at grpc://{self._config.controller} turned this host away: {reason}"
            self._failure = PathwaysError(Failure(Reason.INVALID_ARGUMENT, sentence, host=self._config.host))
        self.stop(reason)

    def stop(self, reason: str) -> None:
        """Lets `run` return."""
        self._supervisor.stop(reason)

    async def run(self) -> None:
        """Waits for the end; raises PathwaysError if it cannot join, TaskFailed if something broke. Always closes everything."""
        running = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            running.add_signal_handler(number, self.stop, signal.Signals(number).name)
        try:
            await self._supervisor.run_until_stopped()
        finally:
            await self.close()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Ends executors and coordinators first, then everything else."""
        _LOG.info("worker stopping", extra=fields(reason=self._supervisor.reason))
        if self._near is not None:
            self._near.close()
        self.agent.close()
        await self.agent.pool.wait_gone(_GONE_S)
        await self.cells.wait_gone(_GONE_S)
        await self._supervisor.close()
        self.agent.spills.remove_folder()
        await self._client.close()
        if self._server is not None:
            await self._server.stop(STOP_GRACE_NS / 1e9 / 4)


async def _data_server(agent: HostAgent, counters: Counters, near: str) -> grpc.aio.Server:
    """Serves the transfers of an agent once it is bound and started; `near` is where others on this machine go."""
    server = grpc.aio.server(options=server_options())
    server.add_generic_rpc_handlers((DataService(agent.transfers, counters, near).handler(),))
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection((DATA, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    for name in ("", DATA):
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    return server


def _bind(server: grpc.aio.Server, listen: str) -> str:
    host, _, port = listen.rpartition(":")
    _probe(host.strip("[]"), int(port), listen)
    try:
        bound = server.add_insecure_port(listen)
    except RuntimeError:
        bound = 0
    if not bound:
        raise fail(Reason.INVALID_ARGUMENT, f"cannot listen on {listen}; choose another --data-listen", listen=listen)
    return f"{_advertised(listen)}:{bound}"


def _advertised(listen: str) -> str:
    """How other hosts name this one."""
    host = listen.rpartition(":")[0]
    return socket.gethostname() if host in _WILDCARDS else host


def _with_options(executor: Sequence[str], config: Config) -> list[str]:
    libraries = [word for path in config.ffi_libraries for word in ("--ffi-library", str(path))]
    memory = ["--device-memory", str(config.device_memory)] if config.device_memory else []
    python = [] if config.auth else ["--no-python"]  # whoever reaches the controller could run anything here
    threads = ["--split-threads"] if config.thread_placement == "split" else []
    if config.thread_scheduling == "batch":
        threads.append("--batch-scheduling")
    return [*executor, *libraries, *memory, *python, *threads]


def _make_logs(state: StateDir) -> None:
    """The worker needs a place for logs and makes nothing else there: a secret of its own would be a wrong one."""
    try:
        state.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        (state.path / "logs").mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        sentence = f"the state directory {state.path} cannot be used ({error.strerror}); choose another with --state-dir"
        raise fail(Reason.INVALID_ARGUMENT, sentence, path=state.path) from error


def _secret(state: StateDir) -> str:
    try:
        return state.secret()
    except PathwaysError as error:
        sentence = f"there is no cluster secret in {state.path / 'secret'}; copy that file from the controller's state directory"
        raise fail(Reason.UNAUTHENTICATED, sentence, path=state.path) from error


def _probe(host: str, port: int, listen: str) -> None:
    """Binds the address once: gRPC itself would not say why it cannot."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        sentence = f"cannot listen on {listen} ({error.strerror}); stop what uses it or choose another --data-listen"
        raise fail(Reason.INVALID_ARGUMENT, sentence, listen=listen) from error


async def serve(config: Config) -> None:
    """The whole life of the daemon; prints one line on stdout when it has joined."""
    app = App(config)
    try:
        await app.start()
    except BaseException:
        await app.close()
        raise
    # What is there now stays. To look at all of it would stop everybody for tens of milliseconds.
    gc.freeze()
    await app.run()
