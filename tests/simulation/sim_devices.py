"""Devices of one island under virtual time, light: every gang runs on all hosts, and begins when the last of them is ready.

When a gang runs follows from its grant alone: commands reach each host after a delay and in order, members wait for the last
starter and end together. Hosts report later, by clocks of their own: of several gangs at once if they tell when each one ran,
of every gang by itself if they tell only for how long they computed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from pathways_common.model.ids import Epoch, HostName, Sequence
from pathways_server.core import effects as out
from pathways_server.core import events

if TYPE_CHECKING:
    from tests.simulation.sim_shares import Contest, Session

REPORT_DELAY_MS = (0.2, 3.0)
COMMAND_DELAY_MS = (0.02, 0.3)


class Gang(NamedTuple):
    """`own`: when each host began and ended its part, by true time."""

    session: Session
    request: int
    sequence: int
    timed: bool
    begun_ns: int
    ended_ns: int
    own: tuple[tuple[int, int], ...]


@dataclass(eq=False)
class LightHost:
    """`clock_ns`: how far ahead its clock is."""

    name: str
    devices: int
    tells_times: bool
    clock_ns: int
    command_ns: int = 0  # when the last command arrived
    free_ns: int = 0  # when its last gang ends
    report_ns: int = 0  # when its last report arrives
    busy_ns: int = 0
    untold: deque[Gang] = field(default_factory=deque)


class Devices:
    """`gangs`: what was launched since the last time somebody took them away."""

    def __init__(self, contest: Contest, name: str, hosts: list[LightHost]) -> None:
        self.contest = contest
        self.name = name
        self.hosts = hosts
        self.epoch = 0
        self.resumed_ns = 0
        self.drained_ns = 0  # when what is granted has run
        self.told: dict[int, int] = {}  # how many hosts told of a gang
        self.losses = 0

    @property
    def device_count(self) -> int:
        return sum(host.devices for host in self.hosts)

    def begin(self, epoch: int) -> None:
        """What the epoch before had in flight is gone."""
        if epoch == self.epoch:
            return
        world = self.contest.world
        self.epoch = epoch
        self.resumed_ns = self.drained_ns = world.now_ns
        self.told.clear()
        for host in self.hosts:
            host.command_ns = host.free_ns = host.report_ns = world.now_ns
            host.busy_ns = 0
            host.untold.clear()

    def launch(self, session: Session, request: int, sequence: int, timed: bool) -> Gang:
        world, contest = self.contest.world, self.contest
        starts: list[int] = []
        for host in self.hosts:
            host.command_ns = max(host.command_ns, world.now_ns + world.delay(*COMMAND_DELAY_MS))
            starts.append(max(host.command_ns, host.free_ns))
        begun = max(starts)
        ended = begun + session.draw_duration_ns()
        gang = Gang(session, request, sequence, timed, begun, ended, tuple((start, ended) for start in starts))
        self.drained_ns = ended
        epoch = self.epoch
        for index, host in enumerate(self.hosts):
            host.free_ns = ended
            host.untold.append(gang)
            host.report_ns = max(host.report_ns, ended + world.delay(*contest.report_delay_ms))
            world.after(host.report_ns - world.now_ns, lambda index=index: self.report(index, epoch, gang))  # type: ignore[misc]
        return gang

    def report(self, index: int, epoch: int, last: Gang) -> None:
        """What a host finished, through this gang; one that tells times takes along what it finished since."""
        world, contest, host = self.contest.world, self.contest, self.hosts[index]
        if epoch != self.epoch or not host.untold or host.untold[0].sequence > last.sequence:
            return
        newest = world.now_ns - int(REPORT_DELAY_MS[0] * 1_000_000)
        rows: list[events.GangTime] = []
        finished: list[Gang] = []
        while host.untold and (
            host.untold[0].sequence <= last.sequence or (host.tells_times and host.untold[0].ended_ns <= newest)
        ):
            gang = host.untold.popleft()
            begun, ended = gang.own[index]
            host.busy_ns += ended - begun
            row = gang.timed and host.tells_times
            if row:
                rows.append(events.GangTime(gang.sequence, begun + host.clock_ns, ended + host.clock_ns))
            contest.tell(self, index, gang, row)
            finished.append(gang)
        through = Sequence(finished[-1].sequence)
        over: list[Gang] = []
        for gang in finished:
            self.told[gang.sequence] = self.told.get(gang.sequence, 0) + 1
            if self.told[gang.sequence] == len(self.hosts):
                del self.told[gang.sequence]
                over.append(gang)
        contest.step(events.HostProgressed(HostName(host.name), Epoch(epoch), through, through, host.busy_ns, tuple(rows)))
        contest.ended(over)

    def lose_executor(self, index: int) -> None:
        """The epoch ends; who had work in it finds out at once."""
        host = self.hosts[index]
        through = Sequence(host.untold[0].sequence - 1 if host.untold else 0)
        self.losses += 1
        epoch, self.epoch = self.epoch, -1
        self.contest.step(events.ExecutorLost(HostName(host.name), Epoch(epoch), "signal 9", "", through, through))


def launches_in(plan: out.LoadPlan, first_step: int, end_step: int) -> int:
    return sum(isinstance(step, out.PlanLaunch) for step in plan.steps[first_step:end_step])
