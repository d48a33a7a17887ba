"""The question for leaks, asked again and again while everything is under way: no answer may name any, whatever is in flight."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pathways_common.model.ids import Epoch, HostName, Sequence
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.effects import HeldKind, HeldObjects

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster
    from tests.simulation.sim_host import SimHost


def report(host: SimHost, command: out.ReportHoldings) -> None:
    """The daemon answers, and its executor apart, as the real ones do."""
    executor = host.executor
    spilled = HeldObjects(HeldKind.SPILLED, tuple(host.store.kept))
    name, number = HostName(host.name), command.request_id
    if executor is None:
        host.report(events.HoldingsReported(name, number, True, Epoch(0), Sequence(0), (spilled,)))
        return
    waiting = HeldObjects(HeldKind.EXECUTABLE, tuple(host.images.core.waiting))
    plans = HeldObjects(HeldKind.PLAN, tuple(executor.runs.plans))
    host.report(events.HoldingsReported(name, number, True, executor.epoch, Sequence(0), (plans, waiting, spilled)))
    values = HeldObjects(HeldKind.VALUE, tuple(executor.arrays), (8,) * len(executor.arrays))
    launched = Sequence(executor.launched_through)
    # In two parts, as a large answer comes.
    host.report(events.HoldingsReported(name, number, False, executor.epoch, launched, (values,), more=True))
    rest = (
        HeldObjects(HeldKind.EXECUTABLE, tuple(executor.loader.held())),
        plans,
        HeldObjects(HeldKind.RUN, tuple(executor.runs.runs)),
        HeldObjects(HeldKind.EXECUTION, tuple(executor.prepared)),
    )
    host.report(events.HoldingsReported(name, number, False, executor.epoch, launched, rest))


class Inspector:
    """Asks now and then; `compared` is how many objects the answers told of, `answers` how many of them were whole.

    What they name is told at the end: whatever else breaks goes first.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.questions = self.answers = self.compared = 0
        self.named: list[str] = []

    def ask(self) -> None:
        self.questions += 1
        self.cluster.post(events.LeaksRequested(self.questions))
        # At the end of a seed, when hardly anything happens any more, as rarely as its timer ticks.
        self.cluster.world.after(int(self.cluster.world.random.uniform(1, 12) * self.cluster.tick_ns), self.ask)

    def on_found(self, found: out.LeaksFound) -> None:
        self.answers += not found.late_hosts and not found.lost_hosts
        self.compared += found.objects
        for leak in found.leaks:
            when = f"at {self.cluster.world.now_ns / 1e9:.6f} s"
            self.named.append(f"{when} {'not held' if leak.missing else 'leaked'}: {leak}")
