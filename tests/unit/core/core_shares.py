"""An island under virtual time: hosts that take as long as each program is said to, and tell it; clients with work in line.

Gangs run one after another in the order of their grants, as on one device; reports come at once. The core is woken when it asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pathways_common.model.ids import HostName, IslandName, Sequence, SessionNumber, global_id
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.config import CoreConfig
from pathways_server.core.invariants import check
from pathways_server.core.tenant_records import Declared, Priority, TenantName

from tests.unit.core.core_driver import Driver

MS = 1_000_000
HOSTS = ("a0", "a1")


class Launched(NamedTuple):
    session: int
    sequence: int
    duration_ns: int
    timed: bool


@dataclass
class Client:
    """`backlog`: gangs that it always has asked for and not got."""

    session: int
    tenant: str
    duration_ns: int
    backlog: int
    asked: int = 0
    ended: int = 0
    device_ns: int = 0


class Bench:
    """`late_ns`: how much later than a0 host a1 begins each gang; a0 waits for it in the collective."""

    def __init__(self, late_ns: int = 0, tells_times: bool = True, **config: Any) -> None:
        config.setdefault("guess_ns", 2 * MS)
        config.setdefault("window_joint", CoreConfig().window_joint)
        config.setdefault("window_joint_short", CoreConfig().window_joint_short)
        self.driver = Driver({"a": list(HOSTS)}, **config)
        self.late_ns = late_ns
        self.tells_times = tells_times
        self.clients: dict[int, Client] = {}
        self.queue: deque[Launched] = deque()
        self.ends_ns = 0  # of what runs now
        self.busy = dict.fromkeys(HOSTS, 0)
        self.order: list[tuple[int, int, int]] = []  # session, start, end
        self.skew_ns = 0
        self.steps = 0
        self.wakes: list[int] = []  # when the core wants to be woken
        self.dry = 0  # gangs that ended when nothing was granted behind them

    def join(
        self,
        tenant: str,
        duration_ns: int,
        weight: int = 1,
        priority: Priority = Priority.NORMAL,
        backlog: int = 4,
        content: str = "",
    ) -> Client:
        """A client that keeps so much work in line; program content names its duration, unless it is given."""
        number = len(self.clients) + 1
        client = self.clients[number] = Client(number, tenant, duration_ns, backlog)
        named = events.SessionOpened(SessionNumber(number), (), "test", tenant=TenantName(tenant))
        self.step(named)
        self.declare(tenant, weight, priority)
        self.step(
            events.CompileRequested(
                SessionNumber(number), global_id(SessionNumber(number), 1), content or f"{duration_ns}", (0, 1), ()
            )
        )
        self.driver.put(2, session=number)
        self.refill(client)
        return client

    def declare(self, tenant: str, weight: int, priority: Priority = Priority.NORMAL) -> None:
        self.driver.core.state.tenants[TenantName(tenant)].declared = Declared(weight=weight, priority=priority)

    def refill(self, client: Client) -> None:
        while client.asked - client.ended < client.backlog:
            self.ask(client)

    def ask(self, client: Client, argument: int = 2) -> None:
        client.asked += 1
        number = SessionNumber(client.session)
        result = global_id(number, 10 + 2 * client.asked)
        execution = global_id(number, 11 + 2 * client.asked)
        self.step(events.ExecuteRequested(number, execution, global_id(number, 1), (global_id(number, argument),), result, (), 0))
        self.step(events.Released(number, (result,), ()))

    def step(self, event: events.Event) -> None:
        self.steps += 1
        answers = isinstance(event, events.SessionOpened | events.CompileRequested)
        core = self.driver.core
        effects = self.driver.step(event) if answers else core.step(self.driver.now_ns, event)
        if self.steps % 1009 == 0:  # looking at everything is slow
            check(core)
        for effect in effects:
            if isinstance(effect, out.WakeAt):
                self.wakes.append(effect.at_ns)
            if isinstance(effect, out.SendToHost) and effect.host == HOSTS[0] and isinstance(effect.command, out.Prepare):
                session = effect.command.execution_id >> 40
                command = effect.command
                duration = self.clients[session].duration_ns
                self.queue.append(Launched(session, command.sequence, duration, command.timed))

    def run(self, span_ns: int) -> None:
        """Lets virtual time pass; a gang under way at the end of it is not counted."""
        end = self.driver.now_ns + span_ns
        while self.queue:
            if self.ends_ns < self.driver.now_ns:
                self.ends_ns = self.driver.now_ns
            gang = self.queue[0]
            done = self.ends_ns + gang.duration_ns + self.late_ns
            self.wake(min(done, end))
            if done > end:
                break
            self.queue.popleft()
            self.finish(gang, self.ends_ns, done)
        self.driver.now_ns = end

    def wake(self, until_ns: int) -> None:
        for at_ns in sorted(at_ns for at_ns in self.wakes if at_ns <= until_ns):
            self.wakes.remove(at_ns)
            self.driver.now_ns = max(self.driver.now_ns, at_ns)
            self.step(events.WindowDue(IslandName("a")))

    def finish(self, gang: Launched, begun_ns: int, done_ns: int) -> None:
        self.driver.now_ns = self.ends_ns = done_ns
        client = self.clients[gang.session]
        client.ended += 1
        self.dry += not self.queue
        client.device_ns += gang.duration_ns * len(HOSTS)
        self.order.append((gang.session, begun_ns, done_ns))
        self.skew_ns += self.late_ns
        for host, start in zip(HOSTS, (begun_ns, begun_ns + self.late_ns), strict=True):
            self.busy[host] += done_ns - start
            times = (events.GangTime(gang.sequence, start, done_ns),) if gang.timed and self.tells_times else ()
            sequence = Sequence(gang.sequence)
            self.step(events.HostProgressed(HostName(host), self.driver.epoch("a"), sequence, sequence, self.busy[host], times))
        if client.backlog:
            self.refill(client)

    def shares(self) -> Mapping[str, float]:
        """Of the device time so far, by tenant."""
        total = sum(client.device_ns for client in self.clients.values())
        found: dict[str, float] = {}
        for client in self.clients.values():
            found[client.tenant] = found.get(client.tenant, 0.0) + client.device_ns / total
        return found

    def booked(self, tenant: str) -> int:
        return self.driver.core.state.tenants[TenantName(tenant)].device_ns
