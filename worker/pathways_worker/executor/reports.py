"""Everything the executor says on the control pair goes through here: one report per frame, and events of other threads at once.

What the dispatcher says while it handles a frame goes with that frame's report, or before it when something long comes first.
Acknowledgements are cumulative; a report that another thread sends repeats the last one.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Sequence
from typing import Any

from pathways_proto.v1 import workers_pb2

from pathways_worker.executor.clock import wall_ns
from pathways_worker.executor.frames import write_frame


class Reports:
    """The sending half of the control pair. Safe for several threads; made by the dispatcher's."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._acknowledged = 0
        self._finished_through = 0
        self._launched_through = 0
        self._busy_ns = 0
        self._dispatcher = threading.get_ident()
        self._kept: list[Any] = []
        # Nothing that is kept explains anything: it answers readers.
        self.answers_alone = True

    @property
    def kept(self) -> int:
        """Events of the dispatcher that go with its next report."""
        return len(self._kept)

    def keep(self, **event: Any) -> None:
        """An event of the dispatcher, for its next report. It may explain what readers are told later."""
        self.answers_alone = False
        self._kept.append(workers_pb2.HostEvent(**event))

    def send(
        self,
        acknowledged: int,
        finished_through: int,
        launched_through: int,
        busy_ns: int = 0,
        times: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        """The dispatcher's report about one frame, or about what was launched or finished meanwhile.

        `times` are sequence, start and end of timed launches; each is sent once.
        """
        events, self._kept = self._kept, []
        self.answers_alone = True
        with self._lock:
            self._acknowledged = max(self._acknowledged, acknowledged)
            self._finished_through = max(self._finished_through, finished_through)
            self._launched_through = max(self._launched_through, launched_through)
            self._busy_ns = max(self._busy_ns, busy_ns)
            self._write(events, times)

    def post(self, **event: Any) -> None:
        """One event: `post(landed=Landed(...))`. At once, except from the dispatcher, whose report follows."""
        if threading.get_ident() == self._dispatcher:
            self._kept.append(workers_pb2.HostEvent(**event))
            return
        with self._lock:
            self._write([workers_pb2.HostEvent(**event)])

    def _write(self, events: Sequence[Any], times: Sequence[tuple[int, int, int]] = ()) -> None:
        report = workers_pb2.ExecutorReport(
            acknowledged_frame=self._acknowledged,
            finished_through=self._finished_through,
            launched_through=self._launched_through,
            busy_ns=self._busy_ns,
            events=events,
        )
        for sequence, started_ns, ended_ns in times:
            report.times.add(sequence=sequence, started_ns=wall_ns(started_ns), ended_ns=wall_ns(ended_ns))
        write_frame(self._channel, report.SerializeToString())
