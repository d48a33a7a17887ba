"""Who is stuck while it has work is named within the deadline and a second, and nobody else ever is.

Goes by what the simulated hosts do: stopped executors, executors that handle nothing more, stopped daemons. Whoever is inside a
gang, or waits for bytes, or has no work, need not be named, unless its executor shows no life and its daemon can tell; time in
which everything stood still does not count.
"""

from __future__ import annotations

from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.transitions import IslandState

from tests.simulation.checkers.checker import Checker
from tests.simulation.sim_world import MILLISECOND_NS

_GRACE_NS = 1000 * MILLISECOND_NS


class NamedWhenStuck(Checker):
    name = "stuck"

    def __init__(self, cluster: object) -> None:
        super().__init__(cluster)  # type: ignore[arg-type]
        # By time in which not all stood still: since when a host has been what it is now, and since when it is stuck.
        self.since: dict[str, tuple[object, int]] = {}
        self.guilty: dict[str, int] = {}

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
            if now_ns - since_ns > stuck.limit_ns + _GRACE_NS:
                self.violate(f"{name} has kept others waiting for {(now_ns - since_ns) / 1e9:.1f} s and was not named: {key}")

    def _guilt(self, name: str) -> object:
        """What a host that must be named is, while nothing of it changes; None if it need not be."""
        host, record = self.cluster.hosts[name], self.cluster.core.state.hosts.get(name)  # type: ignore[call-overload]
        executor = host.executor
        if record is None or record.rank < 0 or record.island.state is not IslandState.ACTIVE or executor is None:
            return None
        if executor.epoch != record.island.epoch or not record.unfinished or not self.cluster.stuck_hosts.is_guilty(name):
            return None
        done = record.finished_through
        if executor.stuck.stopped and host.inbox is None:
            return ("stopped", done, executor.stuck.since_ns)
        if executor.launched:
            return None
        return ("daemon" if host.inbox is not None else "deaf", done)
