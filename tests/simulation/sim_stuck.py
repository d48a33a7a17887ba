"""Hosts that get stuck, and some that only seem to be: drawn from a random stream of their own, in the seeds that are for it.

Stopped: the executor does nothing more and shows no life (SIGSTOP). Deaf: it lives, waits, and nothing it is told arrives. A
daemon that is stopped hears and says nothing, while its executor goes on with what it has. The first two stay so until they are
killed. Paused ones go on in time; a long gang is one that everybody is in, and a long load is nobody's fault, nor an excuse; and
sometimes the whole machine stands still.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import Epoch, HostName, Sequence
from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.sim_cells import Cell
from tests.simulation.sim_world import MILLISECOND_NS

if TYPE_CHECKING:
    from tests.simulation.sim_cells import Gang
    from tests.simulation.sim_cluster import Cluster
    from tests.simulation.sim_executor import Executor
    from tests.simulation.sim_host import SimHost

LIMIT_NS = 3000 * MILLISECOND_NS
STUCK_KINDS = (
    "stopped executor", "deaf executor", "stopped daemon", "paused executor", "paused daemon", "long gang", "still machine",
)  # fmt: skip
# Drawn by itself.
LONG_LOAD = "long load"
LONG_LOADS_SHARE = 0.05


class Still:
    """Whether one executor is stuck: `stopped` keeps what it would do, `backlog` what it was told."""

    def __init__(self) -> None:
        self.stopped = False
        self.since_ns = 0
        self.actions: list[Callable[[], None]] = []
        self.backlog: list[tuple[SimHost, Any]] | None = None
        self.leaves = False  # its epoch has ended: what it is told now is done by nobody
        self.long_ns = 0
        self.pause_ns = 0  # of a paused one, how long
        self.stood_ns = -LIMIT_NS  # when the whole machine last went on after it had stood still with this one stopped

    def keeps(self, action: Callable[[], None]) -> bool:
        if self.stopped:
            self.actions.append(action)
        return self.stopped

    def keeps_command(self, host: SimHost, command: Any) -> bool:
        if self.leaves:
            return True
        if self.backlog is not None:
            self.backlog.append((host, command))
        return self.backlog is not None


def answer(host: SimHost, command: out.Probe) -> None:
    """What the daemon sees of its executor without its help; it goes past what waits for the window of the link."""
    executor, now_ns = host.executor, host.world.now_ns
    if executor is None:
        nothing = Sequence(0)
        pulse = events.HostPulsed(HostName(host.name), command.number, Epoch(0), nothing, 0, nothing, 0, False, False)
        host.report(pulse, urgent=True)
        return
    front = executor.launched[0] if executor.launched else None
    silent_ns = now_ns - executor.stuck.since_ns if executor.stuck.stopped else host.cluster.stuck_hosts.beat_age_ns()
    entered = front.prepare.sequence if front is not None and executor.running else executor.finished
    host.report(
        events.HostPulsed(
            HostName(host.name), command.number, executor.epoch, Sequence(entered),
            now_ns - executor.clock.begun_ns if executor.running else 0, Sequence(executor.finished),
            silent_ns, front is None and not executor.stuck.stopped,
            front is not None and not executor.running,
        ),
        urgent=True,
    )  # fmt: skip


class Stuck:
    """The faults of one seed; `limit_ns` is the deadline of the core, 0 = this seed is not for them."""

    def __init__(self, cluster: Cluster, on: bool) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.limit_ns = LIMIT_NS if on else 0
        # A daemon keeps a call that comes before what explains it: that may stand behind what a stuck host has not handled.
        self.early_tries = 300 if on else 40
        self.pace = 40 if on else 1  # how much slower clients and other faults are: there has to be work while somebody is named
        self.random = Random(f"stuck {cluster.world.seed}")
        self.loads = Random(f"long loads {cluster.world.seed}")
        self.counts: dict[str, int] = {}
        self.stood_still_ns = self.still_ns = 0
        self.moved_ns = -(10**12)  # when all went on after the last time, which lasted for `still_ns`
        self.named = 0
        self.deaf: dict[str, None] = {}  # hosts whose executor was, at some time

    def kept(self, cell: Cell) -> Cell:
        """What is sent of a value under a ticket: hosts copy it once it is computed, and a stuck one may come to that late.

        Elsewhere it is read when it leaves, so that nobody may touch it for as long.
        """
        if not self.limit_ns:
            return cell
        copy = Cell()
        cell.when_ready(lambda: copy.resolve(cell.value, cell.failure))
        return copy

    def start(self) -> None:
        if self.limit_ns:
            self._later(self.strike, 100, 1500)

    def _later(self, action: Callable[[], None], low_ms: float, high_ms: float) -> None:
        self.world.after(int(self.random.uniform(low_ms, high_ms) * MILLISECOND_NS), action)

    def is_guilty(self, name: str) -> bool:
        host = self.cluster.hosts[name]
        return host.inbox is not None or (host.executor is not None and host.executor.stuck.backlog is not None)

    def beat_age_ns(self) -> int:
        """How old the last beat of a healthy executor is: when all stood still, its next one is on its way."""
        since_ns = self.world.now_ns - self.moved_ns
        return self.still_ns + since_ns if since_ns < 200 * MILLISECOND_NS else 0

    def long_load_ns(self) -> int:
        """How long a load takes that takes longer than the deadline; 0: this one does not."""
        if not self.limit_ns or not self.cluster.faults.on or self.loads.random() >= LONG_LOADS_SHARE:
            return 0
        self.counts[LONG_LOAD] = self.counts.get(LONG_LOAD, 0) + 1
        return int(self.loads.uniform(3500, 8000) * MILLISECOND_NS)

    def figures(self) -> dict[str, int]:
        """How often each kind struck, and how many hosts were named."""
        return {**self.counts, "slow link": self.cluster.slow_links.count, "named": self.named}

    def may_cause(self, failure: Failure) -> bool:
        """Time goes by while a daemon hears nothing, or all stand still, or for ever where an executor hears of reads alone.

        One that lives and has no gang may take any time, and is not named.
        """
        late = any(self.counts.get(kind) for kind in ("stopped daemon", "paused daemon", "still machine", "paused executor"))
        late = late or self.cluster.slow_links.count > 0 or failure.host in self.deaf
        return late and failure.reason in (Reason.TIMED_OUT, Reason.UNAVAILABLE)

    def strike(self) -> None:
        if not self.cluster.faults.on:
            return
        host = self.cluster.hosts[self.random.choice(list(self.cluster.hosts))]
        kind = self.random.choice(STUCK_KINDS)
        if self._strike(kind, host):
            self.counts[kind] = self.counts.get(kind, 0) + 1
        self._later(self.strike, 200, 1500)

    def _strike(self, kind: str, host: SimHost) -> bool:
        executor = host.executor
        if kind == "still machine":
            duration_ns = int(self.random.uniform(1, 20) * 1000) * MILLISECOND_NS
            known = [each.executor.stuck for each in self.cluster.hosts.values() if each.executor is not None]
            if any(each.pause_ns > LIMIT_NS // 2 or self.world.now_ns - each.stood_ns < LIMIT_NS for each in known):
                return False  # a second of it counts each time: a pause that is short would be as long as the limit
            self.stood_still_ns += max(0, duration_ns - self.cluster.core.state.config.listening_gap_ns)
            self.world.stand_still(duration_ns)
            self.still_ns, self.moved_ns = duration_ns, self.world.now_ns
            for each in known:
                each.stood_ns = self.world.now_ns if each.stopped else each.stood_ns
            return True
        if kind.endswith("daemon"):
            if not host.up or host.inbox is not None or host.end.broken or not host.end.open:
                return False
            if self.cluster.slow_links.has_slow_link(host.name):
                return False  # a short pause and a slow link would be silent for longer than the deadline
            host.inbox = []
            host.end.broken = True  # nothing of what it would say leaves
            pause = (4000, 9000) if kind == "stopped daemon" else (200, 2000)
            self._later(lambda end=host.end: self._go_on(host, end), *pause)  # type: ignore[misc]
            return True
        if executor is None or executor.stuck.backlog is not None:
            return False
        if kind == "long gang":
            executor.stuck.long_ns = int(self.random.uniform(3500, 8000) * MILLISECOND_NS)
            return True
        executor.stuck.backlog = []
        if kind == "deaf executor":
            self.deaf[host.name] = None
        else:
            executor.stuck.stopped = True
            executor.stuck.since_ns = self.world.now_ns
        if kind == "paused executor":
            executor.stuck.pause_ns = int(self.random.uniform(200, 2000) * MILLISECOND_NS)
            self.world.after(executor.stuck.pause_ns, lambda: self.thaw(executor))
        return True

    def is_long(self, executor: Executor, gang: Gang, total: int) -> bool:
        """Whether a gang that everybody is in goes on for a while."""
        long_ns, executor.stuck.long_ns = executor.stuck.long_ns, 0
        if long_ns:
            self.world.after(long_ns, lambda: executor.end(gang, total))
        return long_ns > 0

    def thaw(self, executor: Executor) -> None:
        """SIGCONT: what it would have done and what it was told comes now."""
        stuck = executor.stuck
        backlog, stuck.backlog = stuck.backlog, None
        actions, stuck.actions = stuck.actions, []
        stuck.stopped, stuck.pause_ns = False, 0
        if not executor.alive:
            return
        for action in actions:
            action()
        for host, command in backlog or ():
            if executor.alive:
                host.handle(command)
        executor.pump()
        executor.host.flush()

    def _go_on(self, host: SimHost, end: Any) -> None:
        """The daemon runs again: if its connection was ended meanwhile, it joins anew, with a new executor."""
        if host.end is not end or host.inbox is None:
            return
        inbox, host.inbox = host.inbox, None
        end.broken = False
        if not end.open:
            self.cluster.trouble.lose_host(host.name)
            return
        for commands in inbox:
            host.receive(commands)
        host.flush()

    def heal(self) -> None:
        """What is stuck and has work is named first; the rest goes on."""
        if not self.limit_ns:
            return

        def wake() -> None:
            for host in self.cluster.hosts.values():
                if host.inbox is not None:
                    self._go_on(host, host.end)
                if host.executor is not None and host.executor.stuck.backlog is not None:
                    self.thaw(host.executor)

        self.world.after(25_000 * MILLISECOND_NS, wake)
