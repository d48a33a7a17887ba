"""The simulated cluster: the real core between simulated hosts and clients, and the faults of one seed.

This is the shell in small: it turns frames into events, steps the core, checks the invariants, sends the effects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pathways_common.model.ids import HostName, IslandName, SessionNumber
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.config import CoreConfig
from pathways_server.core.controller import Core
from pathways_server.core.invariants import check

from tests.simulation.sim_arithmetic import INLINE_BYTES_MAX, Program
from tests.simulation.sim_cells import Cell
from tests.simulation.sim_holdings import Inspector
from tests.simulation.sim_host import Executor, Fabric, SimHost
from tests.simulation.sim_runs import Exchange
from tests.simulation.sim_slices import Book
from tests.simulation.sim_world import MILLISECOND_NS, End, World, connect

SECOND_NS = 1_000_000_000
FAULT_KINDS = (
    "executor death", "host loss", "node failure", "slow host", "transfer failure", "silent upload", "client gone",
    "swapped launches", "refused epoch", "raising callback", "useless image",
)  # fmt: skip


class Faults:
    """Which kinds a seed draws, and whether they are on now."""

    def __init__(self, world: World, kinds: tuple[str, ...]) -> None:
        self.world = world
        self.kinds = kinds
        self.on = True
        self.counts: dict[str, int] = {}

    def strikes(self, kind: str, chance: float) -> bool:
        if not self.on or kind not in self.kinds or self.world.random.random() >= chance:
            return False
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return True

    def node_fails(self, _host: str) -> bool:
        return self.strikes("node failure", 0.15)

    def transfer_fails(self, _host: str) -> bool:
        return self.strikes("transfer failure", 0.1)

    def epoch_refused(self, _host: str) -> bool:
        return self.strikes("refused epoch", 0.4)

    def maybe_swap(self, _host: str, commands: list[Any]) -> list[Any]:
        """Adjacent launches change places on the way to one host."""
        for index in range(len(commands) - 1):
            pair = commands[index : index + 2]
            launches = all(isinstance(command, out.Prepare | out.RunPlan | out.GrantRun) for command in pair)
            if launches and pair[0].execution_id != pair[1].execution_id and self.strikes("swapped launches", 0.3):
                commands[index], commands[index + 1] = pair[1], pair[0]
                break
        return commands


class Cluster:
    def __init__(self, world: World, islands: dict[str, int], devices: int, kinds: tuple[str, ...], window: int) -> None:
        self.world = world
        self.faults = Faults(world, kinds)
        self.core = Core(
            CoreConfig(
                island_hosts=dict(islands), session_wait_ns=20 * SECOND_NS, upload_ns=3 * SECOND_NS,
                inline_bytes_max=INLINE_BYTES_MAX, epoch_step_ns=5 * SECOND_NS, callback_ns=5 * SECOND_NS,
                window_gangs=window, quantum_gangs=world.random.choice([1, 2, 16]), pull_ns=20 * SECOND_NS,
                epoch_backoff_max_ns=2 * SECOND_NS, inspect_ns=30 * SECOND_NS, loads_lost_max=20,
                pool_slices=3, slice_wait_ns=10 * SECOND_NS,
                island_shapes={"b": (2, devices)} if islands.get("b") == 2 else {},
            )
        )  # fmt: skip
        # Hosts of a declare where they are, each with its devices in a row.
        self.topology = (2, devices) if islands["a"] == 2 else ()
        self.book = Book(world, {name: count * devices for name, count in islands.items()}, devices)
        self.exchange = Exchange(self)
        self.inspector = Inspector(self)
        self.hosts: dict[str, SimHost] = {}
        self.library: list[Program] = []
        self.ends: dict[str, End] = {}
        self.clients: dict[int, Any] = {}
        self.fabrics: dict[tuple[str, int], Fabric] = {}
        self.launches: dict[tuple[str, int], list[tuple[str, list[tuple[int, int]]]]] = {}
        self.lost_islands: dict[str, None] = {}
        self.death_watch: dict[int, list[Callable[[], None]]] = {}
        self.events = 0
        self.fused_launches = 0
        self.split_ranges = 0  # of plans with groups, granted node by node
        self.incarnations = 0
        for island, count in islands.items():
            for index in range(count):
                name = f"{island}{index}"
                self.hosts[name] = SimHost(self, name, island, devices, 10_000)
                world.soon(lambda name=name: self.start_host(name), 0.1, 20)  # type: ignore[misc]
        self.tick()
        self.inspector.ask()

    # ---- the shell in small ----

    def post(self, event: events.Event) -> None:
        if self.world.broken:
            return
        self.events += 1
        self.book.on_event(event)
        try:
            effects = self.core.step(self.world.now_ns, event)
            if not isinstance(event, events.TimePassed):
                self.world.record(f"<- {event!r}")
            for effect in effects:
                self.world.record(f"   -> {effect!r}")
            check(self.core)
        except AssertionError as error:
            self.world.violate("invariants", f"{error} after {event!r}")
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
                if end is not None:
                    end.push(effect.command, effect.urgent)
                return end
            case out.SendToSession():
                client = self.clients.get(effect.session)
                if client is None or client.controller_end is None:
                    return None
                client.controller_end.push(effect.reply)
                return client.controller_end  # type: ignore[no-any-return]
            case out.LeaksFound():
                self.inspector.on_found(effect)
            case out.Log():
                self.book.on_log(effect)
                if effect.phrase == "epoch ended":
                    self.lost_islands[dict(effect.fields)["island"]] = None
        return None

    def tick(self) -> None:
        self.post(events.TimePassed())
        self.world.after(100 * MILLISECOND_NS, self.tick)

    # ---- hosts ----

    def start_host(self, name: str) -> None:
        host = self.hosts[name]
        if host.up:
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
        self.post(
            events.HostJoined(
                HostName(name), IslandName(host.island), host.incarnation, host.devices, f"{name}:1", 1, host.memory,
                self.topology if host.island == "a" else (), self.coordinates(host),
            )
        )  # fmt: skip

    def coordinates(self, host: SimHost) -> tuple[tuple[int, ...], ...]:
        """Of a host's devices, where its island has a topology."""
        if host.island != "a" or not self.topology:
            return ()
        return tuple((int(host.name[1:]), column) for column in range(host.devices))

    def receive_from_host(self, items: tuple[Any, ...]) -> None:
        for event in items:
            self.post(event)

    def lose_host(self, name: str) -> None:
        host = self.hosts[name]
        if not host.up:
            return
        host.up = False
        host.end.close()
        host.stop_executor()
        if self.world.random.random() < 0.5:
            host.images.forget()
        lost = events.HostLost(HostName(name), host.incarnation, "connection reset")
        self.world.soon(lambda: self.post(lost), 1, 30)
        self.world.soon(lambda: self.start_host(name), 40, 400)

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
            self.world, lambda items: self.receive_from_client(client, items), client.receive, lambda: 1.0
        )
        client.controller_end = controller_end
        client.end = client_end
        self.post(events.SessionOpened(SessionNumber(client.number), client.wanted, f"client {client.number}"))

    def receive_from_client(self, client: Any, items: tuple[Any, ...]) -> None:
        for event in items:
            self.post(event)
            if isinstance(event, events.SessionClosed):
                self.forget_client(client)

    def cut_client(self, client: Any) -> None:
        """The client is gone without a goodbye."""
        client.end.close()
        client.closed = True
        gone = events.SessionClosed(SessionNumber(client.number), "connection lost")

        def notice() -> None:
            self.post(gone)
            self.forget_client(client)

        self.world.soon(notice, 1, 20)

    def well_known(self, program: Program) -> Program:
        """This program, or one that some client compiled before."""
        if self.library and self.world.random.random() < 0.6:
            return self.world.random.choice(self.library)
        self.library.append(program)
        return program

    def forget_client(self, client: Any) -> None:
        client.controller_end = None
        client.closed = True

    # ---- faults over time ----

    def trouble(self) -> None:
        """Strikes somewhere, again and again, until the healing begins."""
        if not self.faults.on:
            return
        names = list(self.hosts)
        name = self.world.random.choice(names)
        if self.hosts[name].executor is not None and self.faults.strikes("executor death", 0.2):
            self.lost_islands[self.hosts[name].island] = None
            self.hosts[name].kill_executor()
        name = self.world.random.choice(names)
        if self.hosts[name].up and self.faults.strikes("host loss", 0.15):
            self.lost_islands[self.hosts[name].island] = None
            self.lose_host(name)
        name = self.world.random.choice(names)
        if self.faults.strikes("slow host", 0.4):
            self.hosts[name].slow = self.world.random.choice([1.0, 5.0, 20.0])
        open_clients = [client for client in self.clients.values() if client.devices and not client.closed]
        if len(open_clients) > 1 and self.faults.strikes("client gone", 0.3):
            self.cut_client(self.world.random.choice(open_clients))
        self.world.soon(self.trouble, 5, 80)

    def heal(self) -> None:
        self.faults.on = False
        for name, host in self.hosts.items():
            host.slow = 1.0
            if not host.up:
                self.start_host(name)

    # ---- what must hold at the end ----

    def image_counts(self) -> tuple[int, int, int]:
        """Executables compiled, reused, and images pulled, on all hosts."""
        found = [host.images for host in self.hosts.values()]
        return sum(each.compiled for each in found), sum(each.reused for each in found), sum(each.pulled for each in found)

    def check_order(self) -> None:
        """All members of an epoch launched the same gang under the same sequence, each in rising order."""
        for host in self.hosts.values():
            if host.executor is not None:
                self.launches.setdefault((host.island, host.executor.epoch), []).append((host.name, host.executor.launches))
        for (island, epoch), logs in self.launches.items():
            named: dict[int, int] = {}
            for name, launches in logs:
                last = 0
                for sequence, execution in launches:
                    if sequence <= last:
                        self.world.violate(
                            "order", f"{name} launched {sequence} after {last} in epoch {epoch} of island {island}"
                        )
                    if named.setdefault(sequence, execution) != execution:
                        self.world.violate(
                            "order", f"{name} launched another gang as {sequence} in epoch {epoch} of island {island}"
                        )
                    last = sequence

    def check_leaks(self) -> None:
        """After the last session nothing is left: in the core, on the hosts."""
        state = self.core.state
        tables: dict[str, Any] = {
            "sessions": state.sessions, "pending": state.pending, "readers": state.readers,
            "source fetches": state.source_fetches, "pulls": state.pulls, "suspicions": state.suspicions,
            "transfers": state.transfers,
            "slices": state.slices, "slices in the book": self.book.holders,
            "calls": state.calls, "inspects": state.inspects, "programs": state.programs, "traces": state.collections,
        }  # fmt: skip
        for island in state.islands.values():
            tables[f"executables of {island.name}"] = island.executables
            tables[f"lanes of {island.name}"] = island.lanes
            tables[f"gangs of {island.name}"] = island.inflight
            tables[f"held by {island.name}"] = list(island.held)
            tables[f"runs of {island.name}"] = {**island.runs, **island.paced}
        for name, table in tables.items():
            if table:
                self.world.violate("leaks", f"the core still holds {len(table)} {name}: {list(table)[:4]}")
        for host in self.hosts.values():
            if left := host.leftovers():
                self.world.violate("leaks", f"{host.name} still holds {len(left)} values: {left[:4]}")
