"""What /metrics shows: plain numbers that the daemon counts as it goes, read when someone asks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from dataclasses import fields as dataclass_fields

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


@dataclass(slots=True)
class Counters:
    """Counts since the daemon started, over all executors and joins."""

    frames_received: int = 0
    frames_sent: int = 0
    commands: int = 0
    events: int = 0
    gangs_launched: int = 0
    executor_starts: int = 0
    executor_deaths: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    joined: int = 0
    resumed: int = 0
    executables_compiled: int = 0
    executables_reused: int = 0
    images: int = 0
    image_bytes: int = 0
    images_read: int = 0
    arrays_spilled: int = 0
    arrays_restored: int = 0
    spilled_bytes: int = 0
    spilled_disk_bytes: int = 0
    # What the current executor said last; its own count starts at 0.
    gangs_of_executor: int = 0
    live_bytes: int = 0
    buffers: int = 0
    # Of cells on this host, which are part of its figures.
    cells: list[Counters] = field(default_factory=list)

    def beside(self) -> Counters:
        """Figures of a cell."""
        found = Counters()
        self.cells.append(found)
        return found

    def leave(self, cell: Counters) -> None:
        """A cell has ended: what it counted stays."""
        self.cells.remove(cell)
        cell.on_executor_changed()
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(cell, name))

    def total(self) -> Counters:
        """With all cells."""
        found = Counters()
        for each in (self, *self.cells):
            for name in _SUMS:
                setattr(found, name, getattr(found, name) + getattr(each, name))
        return found

    def on_memory(self, live_bytes: int, buffers: int, launched_gangs: int) -> None:
        """The executor's own figures."""
        self.live_bytes = live_bytes
        self.buffers = buffers
        self.gangs_launched += max(0, launched_gangs - self.gangs_of_executor)
        self.gangs_of_executor = launched_gangs

    def on_executor_changed(self) -> None:
        """Another executor, or none: its figures start anew."""
        self.live_bytes = self.buffers = self.gangs_of_executor = 0


_SUMS = tuple(each.name for each in dataclass_fields(Counters) if each.name != "cells")


class WorkerCollector(Collector):
    """Reads the counters."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """The metric families; runs in the thread of the scrape."""
        counters = self._counters.total()
        for name, text, value in (
            ("gangs_launched", "Gangs launched by the executors of this host.", counters.gangs_launched),
            ("commands", "Commands from the controller.", counters.commands),
            ("events", "Events to the controller.", counters.events),
            ("executor_starts", "Executor processes started.", counters.executor_starts),
            ("executor_deaths", "Executors that ended by themselves.", counters.executor_deaths),
            ("joins", "Times this host joined the cluster.", counters.joined),
            ("links_resumed", "Broken links to the controller that were replaced.", counters.resumed),
            ("executables_compiled", "Executables that an executor compiled.", counters.executables_compiled),
            ("executables_reused", "Executables that were loaded from an image.", counters.executables_reused),
            ("images_read", "Images that were read from disk.", counters.images_read),
            ("arrays_spilled", "Buffers that went to the spill store.", counters.arrays_spilled),
            ("arrays_restored", "Buffers that came back from it.", counters.arrays_restored),
        ):
            yield CounterMetricFamily(f"pathways_worker_{name}", text, value)
        for name, text, sent, received in (
            ("frames", "Frames on the link to the controller.", counters.frames_sent, counters.frames_received),
            ("transfer_bytes", "Bytes of transfers.", counters.bytes_sent, counters.bytes_received),
        ):
            family = CounterMetricFamily(f"pathways_worker_{name}", text, labels=["direction"])
            family.add_metric(["sent"], sent)
            family.add_metric(["received"], received)
            yield family
        yield GaugeMetricFamily("pathways_worker_live_bytes", "Bytes of live buffers.", counters.live_bytes)
        yield GaugeMetricFamily("pathways_worker_buffers", "Live buffers.", counters.buffers)
        yield GaugeMetricFamily("pathways_worker_images", "Images of executables that are kept.", counters.images)
        yield GaugeMetricFamily("pathways_worker_image_bytes", "Bytes of those images.", counters.image_bytes)
        yield GaugeMetricFamily("pathways_worker_spilled_bytes", "Memory of the spill store.", counters.spilled_bytes)
        yield GaugeMetricFamily("pathways_worker_spilled_disk_bytes", "Disk of the spill store.", counters.spilled_disk_bytes)
