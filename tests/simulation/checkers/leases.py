"""Who has no connection is given up when its lease or grace is over, not before, and never because the controller was stopped.

The time of the simulated world is the time in which the controller listens: while it is stopped, only its own clock goes on.
"""

from __future__ import annotations

from pathways_server.core import effects as out
from pathways_server.core import events

from tests.simulation.checkers.checker import Checker
from tests.simulation.sim_absences import GAP_NS, GRACE_NS, LEASE_NS

TICK_NS = 100_000_000


class Leases(Checker):
    name = "leases"

    def __init__(self, cluster: object) -> None:
        super().__init__(cluster)  # type: ignore[arg-type]
        self.away: dict[object, tuple[int, int, int]] = {}  # since when, for how long, and the stops before
        self.ended: dict[int, None] = {}
        self.refused: dict[
            tuple[str, int], None
        ] = {}  # hosts that nobody needs: their daemons are told to end, and nobody waits for them

    def before(self, event: events.Event) -> None:
        now_ns, stopped_ns = self.world.now_ns, self.cluster.absences.skew_ns
        match event:
            case events.SessionDetached():
                self.away.setdefault(event.session, (now_ns, LEASE_NS, stopped_ns))
            case events.HostDetached() if (event.host, event.incarnation) not in self.refused:
                self.away.setdefault((event.host, event.incarnation), (now_ns, GRACE_NS, stopped_ns))
            case events.SessionResumed() | events.SessionClosed():
                self.away.pop(event.session, None)
            case events.HostResumed() | events.HostLost():
                self.away.pop((event.host, event.incarnation), None)
            case events.HostJoined():
                for key in [key for key in self.away if isinstance(key, tuple) and key[0] == event.host]:
                    del self.away[key]

    def after(self, event: events.Event, effects: list[out.Effect]) -> None:
        for effect in effects:
            if (
                isinstance(event, events.HostJoined)
                and isinstance(effect, out.SendToHost)
                and isinstance(effect.command, out.Shutdown)
            ):
                self.refused[event.host, event.incarnation] = None
            if isinstance(effect, out.LeaseEnded):
                self.ends(effect.session, event)
            elif isinstance(effect, out.HostGivenUp):
                self.ends((effect.host, effect.incarnation), event)
            elif isinstance(effect, out.SendToSession) and effect.session in self.ended:
                self.violate(f"session {effect.session} is answered after the end of its lease: {effect}")
        self.ended.update((effect.session, None) for effect in effects if isinstance(effect, out.LeaseEnded))
        if isinstance(event, events.TimePassed) and self.cluster.tick_ns == TICK_NS:
            for key, (since_ns, limit_ns, _) in self.away.items():
                self.look()
                if self.world.now_ns - since_ns > limit_ns + 2 * TICK_NS:
                    self.violate(f"{key} has no connection since {since_ns / 1e9:.3f} s and is not given up")

    def ends(self, key: object, event: events.Event) -> None:
        self.look()
        known = self.away.pop(key, None)
        if known is None:
            self.violate(f"{event} gave up {key}, which has a connection")
            return
        since_ns, limit_ns, stopped_ns = known
        # Of a stop a moment counts.
        moments = GAP_NS * (-(-(self.cluster.absences.skew_ns - stopped_ns) // (900 * 1_000_000)))
        if self.world.now_ns - since_ns < limit_ns - moments:
            self.violate(f"{key} was given up after {(self.world.now_ns - since_ns) / 1e9:.3f} s of listening")
