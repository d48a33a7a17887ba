"""What /metrics shows: plain numbers that the shell counts as it goes, read when someone asks.

Labels are bounded: operation names are fixed, hosts are those that ever joined, and islands are no more than they.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

# From 10 us, a turn with one cheap event, to 1 s, which should never be seen.
_TURN_BUCKETS = (1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)


@dataclass(slots=True)
class IslandGangs:
    """Gangs granted on one island: sequences of an epoch have no gaps, so the last one says how many there were."""

    epoch: int = 0
    sequence: int = 0
    total: int = 0

    def reach(self, epoch: int, last: int) -> None:
        """A grant up to sequence `last` went to one member."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.sequence = 0
        if last > self.sequence:
            self.total += last - self.sequence
            self.sequence = last


@dataclass(slots=True)
class Counters:
    """Counts since the start of this life."""

    operations: dict[str, int] = field(default_factory=dict)
    frames_sent: int = 0
    frames_received: int = 0
    events: int = 0
    gangs: dict[str, IslandGangs] = field(default_factory=dict)
    run_frames: dict[str, int] = field(default_factory=dict)


def turn_histogram(registry: CollectorRegistry) -> Histogram:
    """Time of one turn of the loop: a batch of steps with the encoding of their effects."""
    return Histogram(
        "pathways_server_turn_seconds",
        "Time of one turn: a batch of steps of the core.",
        buckets=_TURN_BUCKETS,
        registry=registry,
    )


class ServerCollector(Collector):
    """Reads the counters, and by two functions how many sessions and hosts are connected."""

    def __init__(
        self, counters: Counters, sessions: Callable[[], int], hosts: Callable[[], int], program_bytes: Callable[[], int]
    ) -> None:
        self._counters = counters
        self._sessions = sessions
        self._hosts = hosts
        self._program_bytes = program_bytes

    def collect(self) -> Iterator[Metric]:
        """The metric families; runs in the thread of the scrape."""
        counters = self._counters
        yield GaugeMetricFamily("pathways_server_sessions", "Sessions connected.", self._sessions())
        yield GaugeMetricFamily("pathways_server_hosts", "Hosts joined.", self._hosts())
        yield GaugeMetricFamily("pathways_server_program_bytes", "Bytes of programs kept.", self._program_bytes())
        gangs = CounterMetricFamily("pathways_server_gangs_granted", "Gangs granted.", labels=["island"])
        for island, count in list(counters.gangs.items()):
            gangs.add_metric([island], count.total)
        yield gangs
        runs = CounterMetricFamily("pathways_run_frames", "Frames that held runs of programs or grants of them.", labels=["host"])
        for host, number in list(counters.run_frames.items()):
            runs.add_metric([host], number)
        yield runs
        frames = CounterMetricFamily("pathways_server_frames", "Frames on all streams.", labels=["direction"])
        frames.add_metric(["sent"], counters.frames_sent)
        frames.add_metric(["received"], counters.frames_received)
        yield frames
        operations = CounterMetricFamily("pathways_server_operations", "Operations of sessions.", labels=["operation"])
        for name, number in list(counters.operations.items()):
            operations.add_metric([name], number)
        yield operations
        yield CounterMetricFamily("pathways_server_events", "Events stepped by the core.", counters.events)
