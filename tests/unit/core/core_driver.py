"""Drives a Core by hand: hosts that answer membership and loads at once, sessions with local ids, invariants after every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pathways_common.model.agreement import FieldDigest, launches_field, plan_fields
from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_common.model.cells import cell_name
from pathways_common.model.failure import Failure
from pathways_common.model.ids import Epoch, GlobalId, HostName, IslandName, Sequence, SessionNumber, TransferId, global_id
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.config import CoreConfig
from pathways_server.core.controller import Core
from pathways_server.core.invariants import check
from pathways_server.core.tenant_records import TenantName

F32 = 11
CommandT = TypeVar("CommandT")


def facts(
    outputs: int = 1,
    donated: tuple[int, ...] = (),
    fallible: bool = False,
    digest: bytes = b"d",
    peak: int = 0,
    parameters: int = -1,
) -> ExecutableFacts:
    made = ArraySpec(F32, (4,), b"", (2,), ())  # a part on each device
    return ExecutableFacts(
        digest, outputs, (8,) * outputs, frozenset(donated), fallible, peak, b"info", parameters, outputs=(made,) * outputs
    )


def spec(*devices: int, elements: int = 2, memory_kind: str = "") -> ArraySpec:
    return ArraySpec(F32, (elements * len(devices),), b"", (elements,), devices, memory_kind)


def understood(host: str, command: out.LoadPlan) -> tuple[FieldDigest, ...]:
    """What a host makes of a plan, worked out here from the message alone."""
    names = [each.name for each in command.hosts]
    island, me = command.hosts[names.index(HostName(host))].island, names.index(HostName(host))
    own, offset = [], 0
    for position, step in enumerate(command.steps):
        if isinstance(step, out.PlanLaunch) and command.hosts[step.hosts[0]].island == island:
            if me in step.hosts:
                own.append((position, step.node, step.executable_id, offset))
            offset += 1
    hosts = [(each.name, each.island, each.epoch) for each in command.hosts]
    slots = (command.argument_count, command.slot_count, command.results)
    return (*plan_fields(hosts, command.specs, command.steps, slots), launches_field(own))


class Driver:
    """`hosts` maps an island to its hosts; all of them join at once unless `join=False`."""

    def __init__(
        self,
        islands: dict[str, list[str]] | None = None,
        devices: int = 1,
        memory: int = 0,
        join: bool = True,
        compilers: dict[str, str] | None = None,
        **config: Any,
    ) -> None:
        self.islands = islands if islands is not None else {"a": ["a0", "a1"]}
        config.setdefault("island_hosts", {name: len(hosts) for name, hosts in self.islands.items()})
        config.setdefault("pool_slices", 0)
        config.setdefault("compile_once_platforms", ())  # where hosts compile side by side, one answer is like another
        config.setdefault("guess_ns", 0)  # these hosts do not say how long gangs take, so that windows count gangs alone
        config.setdefault("window_joint", CoreConfig().window_gangs)
        config.setdefault("window_joint_short", CoreConfig().window_gangs)
        self.core = Core(CoreConfig(**config))
        self.now_ns = 0
        self.devices = devices
        self.memory = memory
        self.incarnation = 0
        self.facts: dict[str, ExecutableFacts] = {}
        self.compilers = compilers or {}
        self.answer_membership = True
        self.answer_loads = True
        self.answer_plans = True
        self.answer_cells = True
        self.answer_ends = True
        self.log: list[out.Effect] = []
        if join:
            for island, hosts in self.islands.items():
                for host in hosts:
                    self.join(host, island)

    # ---- stepping ----

    def step(self, event: events.Event) -> list[out.Effect]:
        """One event and the answers of well-behaved hosts; returns the effects of all."""
        todo: list[events.Event] = [event]
        seen: list[out.Effect] = []
        while todo:
            effects = self.core.step(self.now_ns, todo.pop(0))
            check(self.core)
            seen += effects
            for effect in effects:
                if isinstance(effect, out.SendToHost):
                    todo += self._answer(effect)
        self.log += seen
        return seen

    def _answer(self, sent: out.SendToHost) -> list[events.Event]:
        host, command = sent.host, sent.command
        if isinstance(command, out.StartCoordinator) and self.answer_membership:
            return [events.CoordinatorStarted(host, command.epoch, "127.0.0.1:1", None)]
        if isinstance(command, out.EpochBegin) and self.answer_membership:
            return [self.entered(host, command.epoch)]
        if isinstance(command, out.EpochEnd) and self.answer_ends:
            return [*(self.kept(host, keep) for keep in command.keep), self.left(host, command.epoch)]
        if isinstance(command, out.Load) and self.answer_loads:
            return [self.loaded(host, command)]
        if isinstance(command, out.LoadPlan) and self.answer_plans:
            return [self.plan_loaded(host, command)]
        if isinstance(command, out.OpenCell) and self.answer_cells:
            return self.cell_joined(host, command.tenant)
        if isinstance(command, out.CloseCell) and cell_name(host, command.tenant) in self.core.state.hosts:
            name = HostName(cell_name(host, command.tenant))
            return [events.HostLost(name, self.core.state.hosts[name].incarnation, "closed")]
        return []

    def cell_joined(self, host: str, tenant: str) -> list[events.Event]:
        """What a host's daemon does when it is told to open a cell; nothing if it is open."""
        name = HostName(cell_name(host, tenant))
        if name in self.core.state.hosts:
            return []
        self.incarnation += 1
        plain = self.core.state.hosts[HostName(host)]
        island = IslandName(cell_name(plain.island.name, tenant))
        return [events.HostJoined(name, island, self.incarnation, plain.device_count, f"{name}:1", 100, self.memory)]

    def plan_loaded(self, host: str, command: out.LoadPlan, **other: bytes) -> events.PlanLoaded:
        """The answer of a host that understood the plan, but for the fields named in `other`."""
        fields = [field._replace(digest=other.get(field.name, field.digest)) for field in understood(host, command)]
        epoch = next(each.epoch for each in command.hosts if each.name == host)
        return events.PlanLoaded(HostName(host), epoch, command.plan_id, tuple(fields))

    def entered(self, host: str, epoch: int) -> events.EpochEntered:
        kinds = ("device", "pinned_host")
        return events.EpochEntered(HostName(host), Epoch(epoch), "cpu", "v1", "cpu", kinds, self.compilers.get(host, "xla"))

    def loaded(self, host: str, command: out.Load) -> events.ExecutableLoaded:
        return events.ExecutableLoaded(
            HostName(host), command.epoch, command.executable_id, self.facts.get(command.program, facts()), None
        )

    def kept(self, host: str, keep: out.Keep, failure: Failure | None = None) -> events.ArraySpilled:
        return events.ArraySpilled(HostName(host), keep.stored_id, keep.spill_number, 8, failure)

    def left(self, host: str, epoch: int) -> events.EpochLeft:
        return events.EpochLeft(HostName(host), Epoch(epoch))

    def pass_time(self, seconds: float) -> list[out.Effect]:
        self.now_ns += int(seconds * 1e9)
        return self.step(events.TimePassed())

    # ---- hosts ----

    def join(self, host: str, island: str, devices: int | None = None) -> list[out.Effect]:
        self.incarnation += 1
        return self.step(
            events.HostJoined(
                HostName(host), IslandName(island), self.incarnation, devices or self.devices, f"{host}:1", 100, self.memory
            )
        )

    def lose(self, host: str, reason: str = "connection reset") -> list[out.Effect]:
        incarnation = self.core.state.hosts[HostName(host)].incarnation
        return self.step(events.HostLost(HostName(host), incarnation, reason))

    def epoch(self, island: str = "a") -> Epoch:
        return self.core.state.islands[IslandName(island)].epoch

    def kill_executor(self, host: str, tail: str = "gloo gave up", signal: int = 9) -> list[out.Effect]:
        island = self.core.state.hosts[HostName(host)].island
        return self.step(events.ExecutorLost(HostName(host), island.epoch, f"signal {signal}", tail))

    def finish(self, host: str, through: int, island: str = "a") -> list[out.Effect]:
        return self.step(events.HostProgressed(HostName(host), self.epoch(island), Sequence(through)))

    # ---- slices ----

    def add_slice(self, slice_id: int, count: int = 0, session: int = 1, **wish: Any) -> list[out.Effect]:
        return self.step(events.SliceRequested(SessionNumber(session), slice_id, count, **wish))

    def release_slice(self, slice_id: int, session: int = 1) -> list[out.Effect]:
        return self.step(events.SliceReleased(SessionNumber(session), slice_id))

    # ---- sessions ----

    def open(self, number: int = 1, islands: tuple[str, ...] = (), tenant: str = "default") -> list[out.Effect]:
        return self.step(events.SessionOpened(SessionNumber(number), islands, "test", TenantName(tenant)))

    def close(self, number: int = 1) -> list[out.Effect]:
        return self.step(events.SessionClosed(SessionNumber(number), "goodbye"))

    def compile(
        self,
        executable: int,
        devices: tuple[int, ...] = (0, 1),
        program: str = "p",
        session: int = 1,
        callbacks: tuple[int, ...] = (),
    ) -> list[out.Effect]:
        number = SessionNumber(session)
        return self.step(events.CompileRequested(number, global_id(number, executable), program, devices, callbacks))

    def put(self, buffer: int, devices: tuple[int, ...] = (0, 1), session: int = 1) -> list[out.Effect]:
        """A small array: one inline piece of 8 bytes for all shards."""
        number = SessionNumber(session)
        piece = events.Piece(tuple(range(len(devices))), 8, b"12345678", 0)
        return self.step(events.ArrayMade(number, global_id(number, buffer), spec(*devices), (piece,)))

    def upload(
        self, buffer: int, upload: int, devices: tuple[int, ...] = (0, 1), session: int = 1, size: int = 8
    ) -> list[out.Effect]:
        number = SessionNumber(session)
        piece = events.Piece(tuple(range(len(devices))), size, None, upload)
        return self.step(events.ArrayMade(number, global_id(number, buffer), spec(*devices, elements=size // 4), (piece,)))

    def execute(
        self, executable: int, arguments: tuple[int, ...], result: int, session: int = 1, execution: int = 0,
        non_donatable: tuple[int, ...] = (),
    ) -> list[out.Effect]:  # fmt: skip
        number = SessionNumber(session)
        return self.step(
            events.ExecuteRequested(
                number, global_id(number, execution or result + 5000), global_id(number, executable),
                tuple(global_id(number, argument) for argument in arguments), global_id(number, result), non_donatable, 0,
            )
        )  # fmt: skip

    def view(self, view: int, *ranges: tuple[int, int, int], session: int = 1) -> list[out.Effect]:
        number = SessionNumber(session)
        named = tuple((global_id(number, source), start, count) for source, start, count in ranges)
        return self.step(events.ViewMade(number, global_id(number, view), named))

    def copy(
        self, result: int, source: int, devices: tuple[int, ...], session: int = 1, memory_kind: str = ""
    ) -> list[out.Effect]:
        number = SessionNumber(session)
        wanted = spec(*devices, memory_kind=memory_kind)
        return self.step(events.CopyRequested(number, (global_id(number, result),), (global_id(number, source),), (wanted,)))

    def fetch(
        self, view: int, fetch: int = 1, shard: int = 0, size: int = 8, session: int = 1, held: bool = False
    ) -> list[out.Effect]:
        number = SessionNumber(session)
        return self.step(events.FetchRequested(number, fetch, global_id(number, view), shard, size, held))

    def wait(self, *views: int, wait: int = 1, session: int = 1) -> list[out.Effect]:
        number = SessionNumber(session)
        return self.step(events.WaitRequested(number, wait, tuple(global_id(number, view) for view in views)))

    def release(self, *views: int, executables: tuple[int, ...] = (), session: int = 1) -> list[out.Effect]:
        number = SessionNumber(session)
        named = tuple(global_id(number, executable) for executable in executables)
        return self.step(events.Released(number, tuple(global_id(number, view) for view in views), named))

    def delete(self, *views: int, session: int = 1) -> list[out.Effect]:
        number = SessionNumber(session)
        return self.step(events.ViewsDeleted(number, tuple(global_id(number, view) for view in views)))

    def landed(self, host: str, transfer: TransferId) -> list[out.Effect]:
        return self.step(events.TransferLanded(HostName(host), transfer, None))


def sent(effects: list[out.Effect], kind: type[CommandT]) -> list[tuple[str, CommandT]]:
    """Commands of one kind, each with its host."""
    return [(e.host, e.command) for e in effects if isinstance(e, out.SendToHost) and isinstance(e.command, kind)]


def replies(effects: list[out.Effect], kind: type[CommandT]) -> list[CommandT]:
    """Replies of one kind, to whatever session."""
    return [e.reply for e in effects if isinstance(e, out.SendToSession) and isinstance(e.reply, kind)]


def gid(local: int, session: int = 1) -> GlobalId:
    return global_id(SessionNumber(session), local)


def only(items: list[CommandT], holds: Callable[[CommandT], bool] = lambda _: True) -> CommandT:
    """The one item for which `holds` is true."""
    found = [item for item in items if holds(item)]
    assert len(found) == 1, f"one was expected, {len(found)} found: {found}"
    return found[0]
