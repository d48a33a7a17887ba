"""Who is stuck while it has work is named within the deadline and a second, and nobody else ever is.

Goes by what the simulated hosts do: stopped executors, executors that handle nothing more, stopped daemons. Whoever is inside a
gang, or waits for bytes, or has done its work, need not be named, unless its executor shows no life and its daemon can tell: then
also if all that it has not done is a load, a read, an inspection, or to take bytes; and the same if its daemon has not heard of
that. Time in which everything stood still does not count, and nobody is judged right behind it. Who answered slowly has two such
times more before it must have begun a gang.
"""

from __future__ import annotations

from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.records import Host
from pathways_server.core.transitions import ExecutableState, IslandState

from tests.simulation.checkers.checker import Checker
from tests.simulation.sim_world import MILLISECOND_NS

_GRACE_NS = 1000 * MILLISECOND_NS
_BEHIND_A_PAUSE_NS = 400 * MILLISECOND_NS


class NamedWhenStuck(Checker):
    name = "stuck"

    def __init__(self, cluster: object) -> None:
        super().__init__(cluster)  # type: ignore[arg-type]
        # By time in which not all stood still: since when a host has been what it is now, and since when it is stuck.
        self.since: dict[str, tuple[object, int]] = {}
        self.guilty: dict[str, int] = {}
        self.stood_still: tuple[int, int] = (0, 0)  # for how long so far, and until when
        # By host: what it was asked and when, and how long an answer took at most since it finished a gang.
        self.asked: dict[tuple[str, int], int] = {}
        self.slowest: dict[str, tuple[int, int]] = {}

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        stuck, now_ns = self.cluster.stuck_hosts, self.world.now_ns - self.cluster.stuck_hosts.stood_still_ns
        for effect in effects:
            if isinstance(effect, out.Log) and effect.phrase == "host stuck":
                fields = dict(effect.fields)
                self.look()
                stuck.named += 1
                if not stuck.is_guilty(fields["host"]):
                    self.violate(f"{fields['host']} is not stuck and was named: {fields['reason']}")
                elif now_ns - self.guilty.get(fields["host"], now_ns) < stuck.limit_ns - 5 * self.cluster.tick_ns:
                    self.violate(f"{fields['host']} was named too soon: {fields['reason']}")
        self._answers(event, effects)
        if stuck.stood_still_ns != self.stood_still[0]:
            self.stood_still = (stuck.stood_still_ns, self.world.now_ns + _BEHIND_A_PAUSE_NS)
        if not isinstance(event, events.TimePassed):
            return
        for name in self.cluster.hosts:
            if stuck.is_guilty(name):
                self.guilty.setdefault(name, now_ns)
            else:
                self.guilty.pop(name, None)
            key = self._guilt(name)
            if key is None:
                self.since.pop(name, None)
                continue
            known, since_ns = self.since.get(name, (None, now_ns))
            if known != key:
                since_ns = now_ns
            self.since[name] = (key, since_ns)
            slowly_ns = 2 * self.slowest.get(name, (0, 0))[1] if "stopped" not in key else 0
            if now_ns - since_ns > stuck.limit_ns + _GRACE_NS + slowly_ns and self.world.now_ns > self.stood_still[1]:
                self.violate(f"{name} has kept others waiting for {(now_ns - since_ns) / 1e9:.1f} s and was not named: {key}")

    def _answers(self, event: events.Event, effects: list[out.Effect]) -> None:
        if isinstance(event, events.HostPulsed):
            asked_ns = self.asked.pop((event.host, event.number), self.world.now_ns)
            finished, slowest_ns = self.slowest.get(event.host, (-1, 0))
            slowest_ns = slowest_ns if finished == event.finished_through else 0
            self.slowest[event.host] = (event.finished_through, max(slowest_ns, self.world.now_ns - asked_ns))
        for effect in effects:
            if isinstance(effect, out.SendToHost) and isinstance(effect.command, out.Probe):
                self.asked[effect.host, effect.command.number] = self.world.now_ns

    def _guilt(self, name: str) -> tuple[object, ...] | None:
        """What a host that must be named is, while nothing of it changes; None if it need not be."""
        if self.cluster.slow_links.has_slow_link(name):
            return None  # what it says comes late
        host, record = self.cluster.hosts[name], self.cluster.core.state.hosts.get(name)  # type: ignore[call-overload]
        executor = host.executor
        if record is None or record.rank < 0 or record.island.state is not IslandState.ACTIVE or executor is None:
            return None
        if executor.epoch != record.island.epoch or not self.cluster.stuck_hosts.is_guilty(name):
            return None
        done, told = record.finished_through, [command for _, command in executor.stuck.backlog or ()]
        if executor.stuck.stopped and host.inbox is None:
            due = bool(record.unfinished) or any(self._is_due(record, command) for command in told)
            return ("stopped", done, executor.stuck.since_ns) if due else None
        if not record.unfinished:
            unheard = any(self._is_due(record, command) for commands in host.inbox or () for command in commands)
            return ("daemon", done) if unheard else None
        if executor.launched or executor.finished >= record.last_sequence:
            return None  # it is in a gang, or has done all it was told to, and nobody waits for it to begin anything
        return ("daemon" if host.inbox is not None else "deaf", done)

    def _is_due(self, host: Host, command: object) -> bool:
        """Whether somebody still wants the answer to what it was told and has not handled."""
        state = self.cluster.core.state
        match command:
            case out.FetchShard():
                due = command.fetch_id in state.readers or command.fetch_id in state.source_fetches
            case out.AwaitReady():
                due = command.wait_id in state.readers
            case out.InspectExecutable():
                due = command.inspect_id in state.inspects
            case out.SpillArray() | out.RestoreArray():
                moving = state.moving.get(command.buffer_id)
                due = moving is not None and moving.number == command.spill_number
            case out.PlaceArray():
                due = any(piece.transfer_id in state.transfers for piece in command.pieces)
            case out.LoadPlan():
                due = command.plan_id in state.agreements
            case out.Load():
                executable = host.island.executables.get(command.executable_id)
                loading = executable is not None and executable.state is ExecutableState.LOADING
                due = loading and executable is not None and host.name in executable.answers_due
            case _:
                due = False
        return due
