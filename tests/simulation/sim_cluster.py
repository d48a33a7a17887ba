"""The simulated cluster: the real core between simulated hosts and clients, and the faults of one seed.

This is the shell in small: it turns frames into events, steps the core, checks the invariants, sends the effects.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from pathways_common.model.cells import plain_name
from pathways_common.model.failure import Failure
from pathways_common.model.ids import HostName, IslandName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.config import CoreConfig
from pathways_server.core.controller import Core

from tests.simulation import sim_clock, sim_images
from tests.simulation.checkers.accounting import Accounting
from tests.simulation.checkers.all_rules import Rules
from tests.simulation.checkers.order import Order
from tests.simulation.sim_absences import GAP_NS, GRACE_NS, LEASE_NS, Absences
from tests.simulation.sim_arithmetic import INLINE_BYTES_MAX, Program
from tests.simulation.sim_bystanders import Bystanders
from tests.simulation.sim_cells import Cell
from tests.simulation.sim_executor import Executor
from tests.simulation.sim_fabric import Fabric
from tests.simulation.sim_faults import Faults, Trouble
from tests.simulation.sim_holdings import Inspector
from tests.simulation.sim_host import SimHost
from tests.simulation.sim_isolation import Isolation
from tests.simulation.sim_links import End, connect
from tests.simulation.sim_memory import AMPLE, judge_ample, short_of_memory
from tests.simulation.sim_migrations import Migrations
from tests.simulation.sim_other_copies import OtherCopies
from tests.simulation.sim_quotas import Quotas
from tests.simulation.sim_rescues import RESCUE_NS, Rescues
from tests.simulation.sim_restart import Restarts
from tests.simulation.sim_runs import Exchange
from tests.simulation.sim_slow_links import SlowLinks
from tests.simulation.sim_stuck import Stuck
from tests.simulation.sim_world import MILLISECOND_NS, World

SECOND_NS = 1_000_000_000
TICK_NS, LATE_TICK_NS = 100 * MILLISECOND_NS, SECOND_NS


class Cluster:
    """`dense`: rules that cost much look after every event. `devices`: per host; `memory`: bytes of each."""

    def __init__(
        self,
        world: World,
        islands: dict[str, int],
        devices: int,
        kinds: tuple[str, ...],
        window: int,
        dense: bool = False,
        memory: int = AMPLE,
        stuck: bool = False,
        drained: bool = False,
        rescued: bool = False,
    ) -> None:
        self.world = world
        self.faults = Faults(world, kinds)
        self.stuck_hosts = Stuck(self, stuck)
        self.slow_links = SlowLinks(self)
        self.rescues = Rescues(self, rescued)
        self.devices = devices
        self.drained = drained
        self.sizes = {name: count * devices for name, count in islands.items()}
        self.core = self._core(islands, window)
        # Hosts of a declare where they are, each with its devices in a row.
        self.topology = (2, devices) if islands["a"] == 2 else ()
        self.isolation = Isolation(self, world.seed)
        self.absences = Absences(self, world.seed)
        self.restarts = Restarts(self, world.seed)
        self.migrations = Migrations(self, world.seed, drained)
        self.rules = Rules(self, dense)
        self.trouble = Trouble(self)
        self.bystanders = Bystanders(self, world.seed)
        self.exchange = Exchange(self)
        self.memory = memory
        self.spill_room = memory * 4
        self.most_held = self.spilled = self.restored = self.stuck = 0
        self.books = sim_clock.Books()
        self.accounted = 0
        self.inspector = Inspector(self)
        self.hosts: dict[str, SimHost] = {}
        self.library: list[Program] = []
        self.ends: dict[str, End] = {}
        self.clients: dict[int, Any] = {}
        self.fabrics: dict[tuple[str, int], Fabric] = {}
        self.launches: dict[tuple[str, int], list[tuple[str, list[tuple[int, int]]]]] = {}
        self.lost_islands: dict[str, None] = {}
        self.death_watch: dict[int, list[Callable[[], None]]] = {}
        self.events = self.ticks = 0
        self.tick_ns = TICK_NS
        self.fused_launches = 0
        self.split_ranges = 0  # of plans with groups, granted node by node
        self.incarnations = 0
        for island, count in islands.items():
            for index in range(count):
                name = f"{island}{index}"
                self.hosts[name] = SimHost(self, name, island, devices, memory)
                world.soon(lambda name=name: self.start_host(name), 0.1, 20)  # type: ignore[misc]
        self.quotas = Quotas(self, world.seed)
        self.quotas.start()
        self.absences.start()
        self.restarts.start()
        self.other_copies = OtherCopies(self, world.seed)
        self.migrations.start()
        self.tick()
        self.inspector.ask()
        self.stuck_hosts.start()
        self.slow_links.start()
        self.rescues.start()

    def _core(self, islands: dict[str, int], window: int) -> Core:
        """A controller whose deadlines are short."""
        world, devices = self.world, self.devices
        return Core(
            CoreConfig(
                island_hosts=dict(islands), session_wait_ns=20 * SECOND_NS, upload_ns=3 * SECOND_NS,
                inline_bytes_max=INLINE_BYTES_MAX, epoch_step_ns=5 * SECOND_NS, callback_ns=5 * SECOND_NS,
                window_gangs=window, quantum_gangs=world.random.choice([1, 2, 16]), pull_ns=20 * SECOND_NS,
                epoch_backoff_max_ns=2 * SECOND_NS, inspect_ns=30 * SECOND_NS, loads_lost_max=20,
                pool_slices=3, slice_wait_ns=10 * SECOND_NS, slice_turn_ns=SECOND_NS // 5,
                memory_stuck_ns=SECOND_NS // 10, memory_turn_ns=SECOND_NS // 50,
                spill_again_ns=SECOND_NS // 5, pull_linger_ns=SECOND_NS, cell_unused_ns=SECOND_NS // 2, cell_ask_ns=SECOND_NS,
                lease_ns=LEASE_NS, grace_ns=GRACE_NS, listening_gap_ns=SECOND_NS if self.stuck_hosts.limit_ns else GAP_NS,
                island_shapes={"b": (2, devices)} if islands.get("b") == 2 else {},
                stuck_ns=self.stuck_hosts.limit_ns, compile_once_platforms=sim_images.compile_once(world.seed),
                rescue_ns=RESCUE_NS,
                loaded_executables_max=sim_images.loaded_most(world.seed),
                **({"drain_again_ns": SECOND_NS // 20, "migration_ns": SECOND_NS // 2} if self.drained else {}),
                **sim_clock.policies(world.seed),
            )
        )  # fmt: skip

    # ---- the shell in small ----

    def post(self, event: events.Event) -> None:
        world = self.world
        if world.violations:
            return
        if isinstance(event, events.TimePassed):
            self.ticks += 1
        else:
            self.events += 1
        self.rules.before(event)
        self.restarts.told(world.now_ns + self.absences.skew_ns, event)
        try:
            effects = self.core.step(world.now_ns + self.absences.skew_ns, event)
            if world.tracing:
                if not isinstance(event, events.TimePassed):
                    world.record(f"<- {event!r}")
                for effect in effects:
                    world.record(f"   -> {effect!r}")
            self.rules.after(event, effects)
        except Exception as error:
            world.record("".join(traceback.format_exception(error)))
            world.violate("invariants", f"{type(error).__name__} {error} after {event!r}")
            return
        touched: dict[int, End] = {}
        for effect in effects:
            end = self.route(effect)
            if end is not None:
                touched[id(end)] = end
        for end in touched.values():
            end.flush()

    def route(self, effect: out.Effect) -> End | None:
        match effect:
            case out.SendToHost():
                end = self.ends.get(effect.host)
                if isinstance(effect.command, out.Free):
                    self.isolation.told_to_free(effect.host, effect.command.ids)
                if end is not None:
                    end.push(effect.command, effect.urgent)
                return end
            case out.SendToSession():
                client = self.clients.get(effect.session)
                if client is None or client.controller_end is None:
                    return None
                client.controller_end.push(effect.reply)
                return client.controller_end  # type: ignore[no-any-return]
            case out.DropHost():
                end = self.ends.get(effect.host)
                if end is not None:
                    end.close()
            case out.LeaksFound():
                self.inspector.on_found(effect)
            case out.WakeAt():
                due = events.WindowDue(effect.island)
                self.world.after(max(effect.at_ns - self.absences.skew_ns - self.world.now_ns, 0), lambda: self.post(due))
            case out.MigrationEnded():
                self.migrations.on_ended(effect)
            case out.LeaseEnded():
                self.absences.on_lease_ended(effect)
            case out.HostGivenUp():
                self.absences.on_given_up(effect)
            case out.Log():
                self.stuck += effect.phrase == "memory is stuck"
                self.isolation.on_log(effect)
                self.migrations.on_log(effect)
        return None

    def tick(self) -> None:
        self.post(events.TimePassed())
        self.world.after(self.tick_ns, self.tick)

    # ---- hosts ----

    def add_host(self, name: str, island: str) -> None:
        """One of a cell, which is there already if it was closed before."""
        if name not in self.hosts:
            self.hosts[name] = SimHost(self, name, island, self.devices, self.memory)

    def start_host(self, name: str) -> None:
        host = self.hosts[name]
        if host.up or not self.isolation.may_start(name):
            return
        host.up = True
        self.incarnations += 1
        host.incarnation = self.incarnations
        old = self.ends.get(name)
        if old is not None:
            old.close()
        controller_end, host_end = connect(self.world, self.receive_from_host, host.receive, lambda: host.slow)
        self.ends[name] = controller_end
        host.end = host_end
        if self.stuck_hosts.limit_ns:
            host_end.busy = host.is_busy
            controller_end.way_ns = host_end.way_ns = lambda: self.slow_links.way_ns(name)
        self.post(
            events.HostJoined(
                HostName(name), IslandName(host.island), host.incarnation, host.devices, f"{name}:1", 1, host.memory,
                self.topology if plain_name(host.island) == "a" else (), self.coordinates(host),
            )
        )  # fmt: skip

    def coordinates(self, host: SimHost) -> tuple[tuple[int, ...], ...]:
        """Of a host's devices, where its island has a topology."""
        if plain_name(host.island) != "a" or not self.topology:
            return ()
        return tuple((int(plain_name(host.name)[1:]), column) for column in range(host.devices))

    def receive_from_host(self, items: tuple[Any, ...]) -> None:
        for event in items:
            self.post(event)
            self.trouble.tell_again(event)

    def fabric(self, island: str, epoch: int) -> Fabric:
        return self.fabrics.setdefault((island, epoch), Fabric())

    def retire_executor(self, host: SimHost, executor: Executor) -> None:
        self.launches.setdefault((host.island, executor.epoch), []).append((host.name, executor.launches))
        for action in self.death_watch.pop(id(executor), []):
            action()

    def when_ready_or_dead(self, executor: Executor, cell: Cell, action: Callable[[], None]) -> None:
        done = {"yet": False}

        def once() -> None:
            if not done["yet"]:
                done["yet"] = True
                action()

        self.death_watch.setdefault(id(executor), []).append(once)
        cell.when_ready(once)

    # ---- clients ----

    def connect_client(self, client: Any) -> None:
        self.clients[client.number] = client
        controller_end, client_end = connect(
            self.world, lambda items: self.receive_from_client(client, items), client.receive, lambda: client.slow
        )
        client.controller_end = controller_end
        client.end = client_end
        number, tenant = SessionNumber(client.number), self.quotas.tenant_of(client.number)
        if not self.quotas.limited:
            self.isolation.declare(tenant)
        self.post(events.SessionOpened(number, client.wanted, f"client {client.number}", tenant))
        if not self.quotas.limited:
            sim_clock.declare(self, self.world.seed)
            self.restarts.keep()

    def receive_from_client(self, client: Any, items: tuple[Any, ...]) -> None:
        for event in items:
            self.post(event)
            if isinstance(event, events.SessionClosed):
                self.forget_client(client)
            elif isinstance(event, events.ViewMade):
                self.other_copies.on_made(event)

    def short_of_memory(self, failure: Failure) -> bool:
        """Whether devices of so little memory explain a failure."""
        return short_of_memory(self.memory, failure)

    def well_known(self, program: Program) -> Program:
        """This program, or one that some client compiled before."""
        if self.library and self.world.random.random() < 0.6:
            return self.world.random.choice(self.library)
        self.library.append(program)
        return program

    def forget_client(self, client: Any) -> None:
        client.controller_end = None
        client.closed = True

    # ---- the end ----

    def heal(self) -> None:
        self.faults.on = False
        self.quotas.heal()
        self.stuck_hosts.heal()
        self.migrations.heal()
        for name, host in self.hosts.items():
            host.slow = 1.0
            if not host.up:
                self.start_host(name)
        for client in self.clients.values():
            client.slow = 1.0

    def image_counts(self) -> tuple[int, int, int]:
        """Executables compiled, reused, and images pulled, on all hosts."""
        found = [host.images for host in self.hosts.values()]
        return sum(each.compiled for each in found), sum(each.reused for each in found), sum(each.pulled for each in found)

    def end(self) -> None:
        """Nothing more comes. Where a rule is broken already, what is left behind is no news, and what was launched may be."""
        judge_ample(self)
        broken = self.world.broken
        for rule in self.rules.all:
            if not broken:
                rule.at_end()
            elif isinstance(rule, Order | Accounting):
                rule.at_end_of_broken()

    def launch_logs(self) -> dict[tuple[str, int], list[tuple[str, list[tuple[int, int]]]]]:
        """By island and epoch: what each of its executors launched, as (sequence, execution) in its order."""
        logs = {key: list(found) for key, found in self.launches.items()}
        for host in self.hosts.values():
            if host.executor is not None:
                logs.setdefault((host.island, host.executor.epoch), []).append((host.name, host.executor.launches))
        return logs
