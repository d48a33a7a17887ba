"""Notes when launches end, as they end: a thread per device sleeps in the runtime until the oldest one followed has ended.

The dispatcher is woken only when there is something to do: by an end that may not wait for a later report, or when none that is
followed is left. Other ends are noted and wait, so that short launches do not cost a report each. A thread that sleeps in the
runtime costs nothing; one wake per launch is what an exact end takes, so launches are followed only where somebody needs it: when
the dispatcher, which awaits the oldest launch itself while it launches, goes to sleep.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
from contextlib import suppress
from typing import TYPE_CHECKING

from pathways_worker.executor.clock import now_ns
from pathways_worker.executor.core_wait import FIGURES, CoreWait

if TYPE_CHECKING:
    from pathways_worker.executor.window import Entry

# What is taken for waiting after an end, where part of it may have been before: most waits are shorter.
UNSURE_MAX_NS = 1_000_000


class Watch:
    """For the dispatcher, which says when it sleeps; `descriptor` becomes readable to wake it. Threads start when needed.

    `figures`: where the kernel says how long they wait for a core.
    """

    def __init__(self, figures: str = FIGURES) -> None:
        self._figures = figures
        self.descriptor = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        # The dispatcher sets both before it sleeps: when it reported last, and that it sleeps.
        self.reported_ns = 0
        self.asleep = False
        self._queues: dict[int, queue.SimpleQueue[Entry]] = {}
        # Launches followed, and per device those that ended: each number has one writer.
        self._followed = 0
        self._ended: dict[int, int] = {}
        self._rung = False

    def follow(self, entry: Entry) -> None:
        """Notes the end of a launch that is in flight."""
        device = entry.places[0]
        entries = self._queues.get(device)
        if entries is None:
            entries = self._queues[device] = queue.SimpleQueue()
            self._ended[device] = 0
            threading.Thread(target=self._run, args=(device, entries), name=f"watch of device {device}", daemon=True).start()
        self._followed += 1
        entries.put(entry)

    def woken(self) -> None:
        """The dispatcher sleeps no longer and looks at everything."""
        self.asleep = False
        if self._rung:
            self._rung = False
            # The bell may be a moment later than the word that it was rung; then it ends the next sleep.
            with suppress(BlockingIOError):
                os.eventfd_read(self.descriptor)

    def _run(self, device: int, entries: queue.SimpleQueue[Entry]) -> None:
        try:
            core_wait = CoreWait(self._figures)
            while True:
                self._note(device, entries.get(), core_wait)
        except BaseException:
            print(f"the watch of device {device} failed", file=sys.stderr)
            traceback.print_exc()
            os._exit(1)

    def _note(self, device: int, entry: Entry, core_wait: CoreWait) -> None:
        waited_ns, turns = core_wait.so_far()
        # Whoever settles the launch tells how it ended.
        with suppress(Exception):
            entry.token.block_until_ready()
        ended_ns = now_ns()
        all_waited_ns, all_turns = core_wait.so_far()
        late_ns = all_waited_ns - waited_ns
        # In more turns than one it may have waited before it slept, and before the end.
        entry.note_end(ended_ns, late_ns if all_turns - turns <= 1 else min(late_ns, UNSURE_MAX_NS))
        self._ended[device] += 1
        due_ns = self.reported_ns + entry.patience_ns
        if self.asleep and (ended_ns >= due_ns or self._followed == sum(self._ended.values())):
            self._rung = True
            os.eventfd_write(self.descriptor, 1)
