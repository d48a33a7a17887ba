"""Tenants that compete for an island: the controller's core under virtual time, with light hosts, for the rules about shares.

Each seed draws tenants with weights and classes, their sessions and how long their programs are, what hosts tell and how late,
and a few phases. Between two phases something changes: tenants come, go idle and return, weights, classes or the policy change,
an epoch ends. Whoever takes part keeps work in line.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from pathways_common.model import graph
from pathways_common.model.array import ArraySpec
from pathways_common.model.ids import IslandName, SessionNumber, global_id
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.invariants import check
from pathways_server.core.share_records import Policy
from pathways_server.core.tenant_events import TenantSet
from pathways_server.core.tenant_records import Declared, Priority, TenantName

from tests.simulation.checkers.share_rules import RULES
from tests.simulation.sim_devices import REPORT_DELAY_MS, Devices, Gang, LightHost, launches_in
from tests.simulation.sim_world import MILLISECOND_NS, World
from tests.unit.core.core_driver import F32, Driver, facts

MS = MILLISECOND_NS
PHASES = 5
# A phase is as long as is needed for three percent of the smallest share, unless so many gangs would cost too much.
LONGEST_GRANTS = 75
GANGS_OF_A_PHASE = (60, 60, 60, 800)
PROBES = 4


@dataclass(eq=False)
class Request:
    """An execution or a run: what of it is not granted, and what has not ended, in gangs."""

    number: int
    asked_ns: int
    ungranted: int
    unfinished: int


@dataclass(eq=False)
class Tenant:
    name: str
    weight: int
    priority: Priority
    sessions: list[Session] = field(default_factory=list)
    active: bool = False

    def on(self, island: str) -> list[Session]:
        return [session for session in self.sessions if session.island == island]

    def waits_on(self, island: str) -> bool:
        return any(session.line for session in self.on(island))

    def is_ready_on(self, island: str) -> bool:
        return any(session.line and session.is_ready for session in self.on(island))


@dataclass(eq=False)
class Session:
    """`nodes` 0: plain executions. `keep`: requests that it has unfinished. `dry_ns`: when it last had nothing in line."""

    contest: Contest
    tenant: Tenant
    number: int
    island: str
    duration_ns: int
    jitter: float
    nodes: int
    keep: int = 0
    asked: int = 0
    dry_ns: int = 0
    loaded_ns: int = -1  # when its program was last loaded
    requests: dict[int, Request] = field(default_factory=dict)
    line: deque[Request] = field(default_factory=deque)

    @property
    def longest_ns(self) -> int:
        """The longest gang it can have."""
        return int(self.duration_ns * (1 + self.jitter))

    @property
    def grant_ns(self) -> int:
        """The longest grant: a gang, or of a run a quantum with the half of one that may be its rest."""
        config = self.contest.core.state.config
        strict = self.contest.policies[self.island] is Policy.PRIORITY
        quantum = (config.quantum_ns if strict else config.settled_quantum_ns) * 3 // 2 if self.nodes else 0
        return max(self.longest_ns, int(quantum * (1 + self.jitter)))

    @property
    def is_ready(self) -> bool:
        """Whether its program is loaded in this epoch, and was before this instant: until then others go first."""
        return self.contest.islands[self.island].resumed_ns <= self.loaded_ns < self.contest.world.now_ns

    def draw_duration_ns(self) -> int:
        if not self.jitter:
            return self.duration_ns
        return int(self.duration_ns * self.contest.world.random.uniform(1 - self.jitter, 1 + self.jitter))


class Granted(NamedTuple):
    """Gangs that one effect granted. `asked_ns`: when their request was made."""

    session: Session
    asked_ns: int
    gangs: list[Gang]

    @property
    def duration_ns(self) -> int:
        return sum(gang.ended_ns - gang.begun_ns for gang in self.gangs)


class LightDriver(Driver):
    """A driver that does not look at every table after every step."""

    def step(self, event: events.Event) -> list[out.Effect]:
        todo: list[events.Event] = [event]
        seen: list[out.Effect] = []
        while todo:
            effects = self.core.step(self.now_ns, todo.pop(0))
            seen += effects
            for effect in effects:
                if isinstance(effect, out.SendToHost):
                    todo += self._answer(effect)
        return seen


class Contest:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.world = world = World(seed)
        draw = world.random
        islands = draw.choice([{"a": 1}, {"a": 2}, {"a": 2}, {"a": 3}, {"a": 2, "b": 1}])
        names = {name: [f"{name}{index}" for index in range(count)] for name, count in islands.items()}
        policies = {name: draw.choice([Policy.PROPORTIONAL_SHARE, Policy.PRIORITY, Policy.FIFO, *Policy]) for name in islands}
        per_host = draw.choice([1, 1, 2])
        self.ageing_ns = draw.choice([100 * MS, 400 * MS, 2_000 * MS])
        self.driver = LightDriver(names, per_host, island_policies=policies, ageing_ns=self.ageing_ns, guess_ns=6 * MS)
        self.core = self.driver.core
        self.policies = policies
        lowest = draw.uniform(*REPORT_DELAY_MS)
        self.report_delay_ms = (lowest, draw.uniform(lowest, REPORT_DELAY_MS[1]))
        tells = draw.choice(["times", "times", "busy", "some"])
        self.clocks_agree = draw.random() < 0.7
        self.islands: dict[str, Devices] = {}
        for name, hosts in names.items():
            light = [
                LightHost(
                    host, per_host, tells == "times" or (tells == "some" and index == 0),
                    0 if self.clocks_agree else draw.randrange(10_000 * MS),
                )
                for index, host in enumerate(hosts)
            ]  # fmt: skip
            self.islands[name] = Devices(self, name, light)
            self.islands[name].begin(int(self.driver.epoch(name)))
        self.plans: dict[int, out.LoadPlan] = {}
        self.runs: dict[int, int] = {}  # plan of a run
        self.lost: dict[int, None] = {}  # requests that ended with an epoch
        self.tenants: list[Tenant] = []
        self.sessions: dict[int, Session] = {}
        self.figures: dict[str, int] = {}
        self.steps = 0
        self.rules = [rule(self) for rule in RULES]
        self.options = f"islands {islands}, hosts tell {tells}, reports after {lowest:.1f} ms, ageing {self.ageing_ns // MS} ms"
        self._enlist()

    def count(self, figure: str, by: int = 1) -> None:
        self.figures[figure] = self.figures.get(figure, 0) + by

    # ---- who is there -------------------------------------------------------------------------------------------------

    def _enlist(self) -> None:
        draw = self.world.random
        shortest = 10 ** draw.uniform(-1, 1.5)
        ratio = draw.choice([1, 3, 10, 100])
        for index in range(draw.randint(2, 5)):
            tenant = Tenant(f"t{index}", draw.choice([1, 1, 2, 3, 4, 8]), draw.choice(list(Priority)))
            self.tenants.append(tenant)
            for _ in range(draw.randint(1, 3)):
                island = draw.choice(list(self.islands))
                length = int(min(shortest * ratio ** draw.random(), 100.0) * MS)
                if self.sessions and draw.random() < 0.3:  # both ends of the range
                    length = int(min(shortest * ratio, 100.0) * MS)
                nodes = draw.choice([0, 0, draw.randint(4, 32)]) if length > MS else draw.choice([0, draw.randint(4, 32)])
                jitter = draw.choice([0.0, 0.0, 0.3])
                session = Session(self, tenant, len(self.sessions) + 1, island, length, jitter, nodes)
                enough = 6 + 3 * self.core.state.config.settled_window_ns // length  # gangs: the window is full and some wait
                session.keep = 2 + enough // max(nodes, 1)
                tenant.sessions.append(session)
                self.sessions[session.number] = session
                self._open(session)
            self.declare(tenant)

    def _open(self, session: Session) -> None:
        number = SessionNumber(session.number)
        self.driver.step(events.SessionOpened(number, (session.island,), "test", tenant=TenantName(session.tenant.name)))
        devices = tuple(range(self.islands[session.island].device_count))
        made = [global_id(number, 1), global_id(number, 2)]
        for executable, parameters in zip(made, (0, 1), strict=True):
            content = f"{session.duration_ns} {parameters} {session.number}"
            self.driver.facts[content] = facts(parameters=parameters)
            self.step(events.CompileRequested(number, executable, content, devices, ()))
        if session.nodes:
            spec = ArraySpec(F32, (2,), b"", (2,), devices)
            computations = (graph.Computation(made[0], (), (spec,)), graph.Computation(made[1], (spec,), (spec,)))
            nodes = [graph.Node("", "", (), graph.ArgumentKind(()))]
            for place in range(session.nodes):
                edges = (graph.Edge(place, 0),) if place else ()
                nodes.append(graph.Node(f"{place}", "test", edges, graph.ComputationKind(min(place, 1))))
            nodes.append(graph.Node("", "", (graph.Edge(session.nodes, 0),), graph.ResultKind()))
            program = graph.Program("train", devices, computations, (graph.Graph(tuple(nodes)),))
            self.step(events.DefinitionRequested(number, global_id(number, 3), program))
            assert len(self.core.state.sessions[number].definitions) == 1, "the program was refused"

    def declare(self, tenant: Tenant) -> None:
        self.step(TenantSet(TenantName(tenant.name), Declared(weight=tenant.weight, priority=tenant.priority)))

    # ---- work ---------------------------------------------------------------------------------------------------------

    def refill(self, session: Session) -> None:
        if session.tenant.active and len(session.requests) < session.keep:
            self.ask(session, session.keep - len(session.requests))

    def ask(self, session: Session, count: int) -> None:
        number = SessionNumber(session.number)
        results = []
        for _ in range(count):
            session.asked += 1
            result = global_id(number, 10 + 2 * session.asked)
            identifier = global_id(number, 11 + 2 * session.asked)
            gangs = max(session.nodes, 1)
            request = session.requests[identifier] = Request(identifier, self.world.now_ns, gangs, gangs)
            session.line.append(request)
            for rule in self.rules:
                rule.asked(session)
            event: events.Event = events.ExecuteRequested(number, identifier, global_id(number, 1), (), result, (), 0)
            if session.nodes:
                event = events.RunRequested(number, identifier, global_id(number, 3), (), result, (), 0)
            self.step(event)
            results.append(result)
        self.step(events.Released(number, tuple(results), ()))

    def step(self, event: events.Event) -> None:
        self.driver.now_ns = self.world.now_ns
        self.steps += 1
        for effect in self.driver.step(event):
            if isinstance(effect, out.SendToHost):
                self._sent(effect.host, effect.command)
        if self.steps % 997 == 0:
            check(self.core)

    def _sent(self, host: str, command: out.HostCommand) -> None:
        island = self.islands[host[0]]
        first = host == island.hosts[0].name
        match command:
            case out.EpochBegin():
                island.begin(int(command.epoch))
            case out.LoadPlan():
                self.plans[command.plan_id] = command
                launch = next(step for step in command.steps if isinstance(step, out.PlanLaunch))
                self.sessions[launch.executable_id >> 40].loaded_ns = self.world.now_ns
            case out.Load():
                session = self.sessions.get(command.executable_id >> 40)
                if session is not None and not session.nodes:
                    session.loaded_ns = self.world.now_ns
            case out.Prepare() if first:
                self._granted(island, command.execution_id, command.sequence, 1, command.timed)
            case out.RunPlan() if first:
                self.runs[command.execution_id] = command.plan_id
                gangs = launches_in(self.plans[command.plan_id], 0, command.end_step)
                self._granted(island, command.execution_id, command.sequence, gangs, command.timed)
            case out.GrantRun() if first:
                gangs = launches_in(self.plans[self.runs[command.execution_id]], command.first_step, command.end_step)
                self._granted(island, command.execution_id, command.sequence, gangs, command.timed)
            case _:
                pass

    def _granted(self, island: Devices, identifier: int, sequence: int, count: int, timed: bool) -> None:
        session = self.sessions[identifier >> 40]
        request = session.requests[identifier]
        gangs = [island.launch(session, identifier, sequence + index, timed) for index in range(count)]
        request.ungranted -= count
        if not request.ungranted:
            session.line.remove(request)
            self.runs.pop(identifier, None)
        if not session.line:
            session.dry_ns = self.world.now_ns
        granted = Granted(session, request.asked_ns, gangs)
        self.count("grants")
        for rule in self.rules:
            rule.granted(island, granted)

    def tell(self, island: Devices, index: int, gang: Gang, row: bool) -> None:
        """A host is about to report a gang."""
        for rule in self.rules:
            rule.told(island, index, gang, row)

    def ended(self, gangs: list[Gang]) -> None:
        """All hosts have reported them: their client knows, and asks for more."""
        touched: dict[Session, None] = {}
        for gang in gangs:
            request = gang.session.requests[gang.request]
            request.unfinished -= 1
            touched[gang.session] = None
            if not request.unfinished:
                del gang.session.requests[gang.request]
        for session in touched:
            self.refill(session)

    # ---- phases -------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        world, draw = self.world, self.world.random
        for tenant in self.tenants:
            tenant.active = draw.random() < 0.8
        if not any(tenant.active for tenant in self.tenants):
            self.tenants[0].active = True
        self._tick()
        for phase in range(PHASES):
            if phase:
                self._change()
            for rule in self.rules:
                rule.opens()
            for session in self.sessions.values():
                self.refill(session)
            for rule in self.rules:
                rule.opened()
            self.pass_time(self._phase_ns())
            for rule in self.rules:
                rule.closes()
            if world.broken:
                return
            self._probe()
        for tenant in self.tenants:
            tenant.active = False
        world.run_until(lambda: not any(session.requests for session in self.sessions.values()), world.now_ns + 600_000 * MS)
        if any(session.requests for session in self.sessions.values()) and not world.broken:
            world.violate("starvation", "work is left that never ends")
        check(self.core)
        for rule in self.rules:
            if not world.broken:
                rule.at_end()

    def _tick(self) -> None:
        self.step(events.TimePassed())
        self.world.after(50 * MS, self._tick)

    def pass_time(self, span_ns: int) -> None:
        world = self.world
        world.after(span_ns, lambda: None)
        end = world.now_ns + span_ns
        world.run_until(lambda: False, end)
        world.now_ns = max(world.now_ns, end)
        self.count("virtual milliseconds", span_ns // MS)

    def _phase_ns(self) -> int:
        """Long enough for three percent of the smallest share; shorter if so many gangs would cost too much."""
        spans: list[float] = [20.0 * MS]
        most = self.world.random.choice(GANGS_OF_A_PHASE)
        for name in self.islands:
            active = [tenant for tenant in self.tenants if tenant.active and tenant.on(name)]
            sessions = [session for tenant in active for session in tenant.on(name)]
            if not sessions:
                continue
            weight = sum(tenant.weight for tenant in active)
            cost = 0.0
            for session in sessions:
                share = session.tenant.weight / weight / len(session.tenant.on(name))
                cost += share / session.duration_ns * (0.3 if session.nodes else 1)
            smallest = min(tenant.weight for tenant in active) / weight
            spans.append(min(LONGEST_GRANTS * max(session.grant_ns for session in sessions) / smallest, most / cost))
        return int(max(spans))

    def _change(self) -> None:
        draw = self.world.random
        tenant = draw.choice(self.tenants)
        kinds = ["idle" if tenant.active else "return", "weight", "class", "policy"]
        kind = draw.choice([*kinds, kinds[0], "loss"])
        if kind == "idle" and sum(other.active for other in self.tenants) == 1:
            kind = "weight"
        self.count(kind)
        match kind:
            case "idle":
                tenant.active = False
            case "return":
                tenant.active = True
            case "weight":
                tenant.weight = draw.choice([1, 2, 4, 8])
                self.declare(tenant)
            case "class":
                tenant.priority = draw.choice(list(Priority))
                self.declare(tenant)
            case "policy":
                name = draw.choice(list(self.islands))
                self.policies[name] = draw.choice(list(Policy))
                self.step(events.PolicySet(IslandName(name), self.policies[name]))
            case _:
                self._lose(draw.choice(list(self.islands.values())))

    def _lose(self, island: Devices) -> None:
        """An executor ends. Executions in flight and runs of which something was granted are gone."""
        for session in self.sessions.values():
            if session.island == island.name:
                for request in [each for each in session.requests.values() if each.ungranted < max(session.nodes, 1)]:
                    del session.requests[request.number]
                    self.lost[request.number] = None
                    if request in session.line:
                        session.line.remove(request)
        island.lose_executor(self.world.random.randrange(len(island.hosts)))

    def _probe(self) -> None:
        """Tenants of the highest class that are idle ask for one gang at a time, beside those who compete."""
        idle = [tenant for tenant in self.tenants if not tenant.active and tenant.priority is Priority.HIGH]
        for tenant in idle:
            for session in tenant.sessions:
                if self.policies[session.island] is Policy.PRIORITY and not session.requests:
                    for _ in range(PROBES):
                        self.ask(session, 1)
                        self.pass_time(self.world.delay(5, 50))


class Outcome(NamedTuple):
    seed: int
    options: str
    figures: dict[str, int]
    looks: dict[str, int]
    violations: tuple[tuple[str, str], ...]

    def report(self) -> str:
        broken = "\n".join(f"  {rule}: {text}" for rule, text in self.violations)
        return f"seed {self.seed} ({self.options})\n{broken}\nreplay: python -m tests.simulation.sim_shares {self.seed}"


def run_seed(seed: int) -> Outcome:
    contest = Contest(seed)
    contest.run()
    world = contest.world
    return Outcome(seed, contest.options, contest.figures, world.looks, tuple(world.violations))


if __name__ == "__main__":
    import sys

    print(run_seed(int(sys.argv[1])).report())
