"""At most WINDOW launches are un-awaited: dozens in flight deadlock XLA's thread pool on CPU.

Every launch gets one entry, in launch order. An entry settles when its execution has ended: its token is awaited, which
tells errors exactly and also works when all its results were donated meanwhile. Settling reports what failed, once.

Entries leave in launch order, and then their time is booked (device_times.py). An end is noted by the watch, or awaited here, or
found to have come between two looks.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from pathways_worker.executor import runtime
from pathways_worker.executor.clock import now_ns
from pathways_worker.executor.device_times import DeviceTimes
from pathways_worker.executor.failures import FailureMessage, execution_failure
from pathways_worker.executor.launch_log import LaunchLog
from pathways_worker.executor.progress import FINISHED, Progress
from pathways_worker.executor.traces import Row
from pathways_worker.executor.watch import Watch

WINDOW = 8
# While others compete the controller grants some milliseconds ahead, and single launches are all it knows of: their ends are told
# within this, and short ones do not cost a report each.
PATIENCE_NS = 1_000_000
FAR_NS = 1 << 62
# What the watch does not tell of, nobody waits for.
LOOK_NS = 20_000_000
# Of a launch that did not come to be.
_NOWHERE: tuple[int, ...] = ()


class Entry:
    """One launch; `results` are the ids of its outputs. `failure` is set when it settled with one.

    `timed`: when it ran is told, with its end; the report before may be `patience_ns` old by then, while others are in flight.
    `places`: the devices it uses, by their index on this host. From `began_ns` to `handed_ns` it was handed to the runtime, 0 =
    never; `at_once`: it ran meanwhile. `ended_ns` is when its end was seen, 0 = not yet, by somebody who had to wait `late_ns`
    for a core to see it, None = unknown.
    """

    __slots__ = (
        "at_once", "began_ns", "ended_ns", "executable_id", "execution_id", "failure", "followed", "free", "handed_ns", "late_ns",
        "outputs", "patience_ns", "places", "results", "row", "sequence", "settled", "timed", "token",
    )  # fmt: skip

    def __init__(
        self,
        execution_id: int,
        sequence: int,
        results: Sequence[int],
        outputs: Sequence[runtime.Array] = (),
        token: runtime.Token = None,
        row: Row | None = None,
        timed: bool = False,
        patience_ns: int = PATIENCE_NS,
        executable_id: int = 0,
    ) -> None:
        self.execution_id = execution_id
        self.executable_id = executable_id
        self.sequence = sequence
        self.results = results
        self.outputs = outputs
        self.token = token
        self.row = row
        self.timed = timed
        self.patience_ns = patience_ns
        self.followed = False
        self.places = _NOWHERE
        self.began_ns = self.handed_ns = self.ended_ns = 0
        self.late_ns: int | None = None
        self.at_once = False
        self.settled = False
        self.failure: FailureMessage | None = None
        # Gives back the temporary bytes that it holds on a device with a limit.
        self.free: Callable[[], None] | None = None

    def note_end(self, now_ns: int, late_ns: int | None = None) -> None:
        """It has ended; the first to see that is right. Also called by the watch, from its thread."""
        if not self.ended_ns:
            self.late_ns = late_ns
            self.ended_ns = now_ns

    def ready(self) -> bool | None:
        """Whether it has ended; None if no result is left to ask."""
        if self.ended_ns:
            return True
        for output in self.outputs:
            if not output.is_deleted():
                return bool(output.is_ready())
        return None


OnFailed: TypeAlias = Callable[[Entry], None]


class Window:
    """The launches in flight. `on_failed(entry)` is called when one turns out to have failed.

    `times`: rows of timed ones that have left, until they are told: sequence, start, end.
    """

    def __init__(
        self, on_failed: OnFailed, progress: Progress | None = None, size: int = WINDOW, watch: Watch | None = None
    ) -> None:
        self.watch = watch or Watch()
        self.log = LaunchLog()
        self.times: list[tuple[int, int, int]] = []
        # How many of those in flight are timed.
        self.timed = 0
        # How old the last report may be, for what has left since.
        self.patience_ns = FAR_NS
        self._entries: deque[Entry] = deque()
        self._on_failed = on_failed
        self._size = size
        self._numbers = (progress or Progress()).numbers
        self._devices = DeviceTimes()
        # When the oldest was last found to be in flight, or the one before it ended.
        self._looked_ns = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        """Launches in flight, in their order."""
        return iter(self._entries)

    def add(self, entry: Entry) -> None:
        """Takes a launch in; waits for the oldest when there are too many.

        What has ended is let go at once: if the next launch takes the process down, the last one that ended is known.
        """
        entries = self._entries
        entries.append(entry)
        if entry.timed:
            self.timed += 1
        if len(entries) > self._size:
            self._pop()
        while entries and (entries[0].settled or entries[0].ready()):
            if entries[0] is entry:
                entry.at_once = True
            else:
                self._found_ended(entries[0])
            self._pop()
        self._looked_ns = now_ns()

    def _found_ended(self, entry: Entry) -> None:
        """Somewhere between two looks: in the middle, on average."""
        if not entry.ended_ns:
            entry.note_end((max(self._looked_ns, entry.began_ns) + now_ns()) // 2)
        self._looked_ns = max(self._looked_ns, entry.ended_ns)

    def settle(self, entry: Entry) -> None:
        """Waits for one launch to end, wherever it stands; reports its failure."""
        if entry.settled:
            return
        self._await(entry)
        # A device computes in order.
        for older in self._entries:
            if older is entry:
                break
            if any(place in entry.places for place in older.places):
                older.note_end(entry.ended_ns)

    def _await(self, entry: Entry) -> None:
        entry.settled = True
        try:
            entry.token.block_until_ready()
        except Exception as error:
            entry.failure = execution_failure(error)
            self._on_failed(entry)
        if not entry.ended_ns:
            entry.ended_ns = now_ns()
        # The results live on in the store, or nowhere.
        entry.outputs = ()
        if entry.free is not None:
            entry.free()
            entry.free = None

    @property
    def busy_ns(self) -> int:
        """How long launches that have left kept their devices, added up."""
        return self._devices.busy_ns

    @property
    def finished_through(self) -> int:
        """The highest sequence before which nothing is in flight."""
        return self._numbers[FINISHED]

    def told(self) -> None:
        """What has left was reported."""
        self.times.clear()
        self.patience_ns = FAR_NS

    def quiet_ns(self, reported_ns: int) -> int:
        """How long the dispatcher may sleep if nothing wakes it, when it reported last at that time."""
        oldest = self._entries[0]
        left_ns = reported_ns + min(oldest.patience_ns, self.patience_ns) - now_ns()
        if left_ns > 0:
            return left_ns
        return 0 if oldest.ended_ns or self.times else LOOK_NS

    def follow_timed(self) -> None:
        """Nobody here looks for a while: when timed launches end is noted by the watch."""
        if not self.timed:
            return
        for entry in self._entries:
            if entry.timed and not (entry.followed or entry.settled):
                entry.followed = True
                self.watch.follow(entry)

    def follow_last(self) -> None:
        """Launches in flight take long: when the last of them ends is to be known exactly."""
        last = self._entries[-1] if self._entries else None
        if last is not None and not (last.followed or last.settled):
            last.followed = True
            self.watch.follow(last)

    def sweep(self) -> int:
        """Settles, without waiting, what has ended; returns `finished_through`."""
        entries = self._entries
        while entries:
            # What has no result left was consumed by a later launch and has ended before it.
            ended = len(entries)
            for position, entry in enumerate(entries, 1):
                ready = True if entry.settled else entry.ready()
                if ready is not None:
                    ended = position if ready else 0
                    break
            if not ended:
                break
            if ready:
                for entry in itertools.islice(entries, ended):
                    self._found_ended(entry)
            # If nobody could be asked, only tokens can tell: programs without results, waited for here.
            for _ in range(ended):
                self._pop()
        self._looked_ns = now_ns()
        return self.finished_through

    def settle_oldest(self) -> bool:
        """Waits for the oldest launch in flight to end; False if there is none."""
        if self._entries:
            self._pop()
            return True
        return False

    def drain(self) -> None:
        """Waits for everything in flight."""
        while self._entries:
            self._pop()

    def _pop(self) -> None:
        entry = self._entries.popleft()
        if not entry.settled:
            self._await(entry)
        if entry.places:
            # What is behind it has not ended before it.
            self._looked_ns = max(self._looked_ns, entry.ended_ns)
            began_ns = entry.began_ns if entry.at_once or not entry.handed_ns else entry.handed_ns
            started_ns, ended_ns = self._devices.book(entry.places, began_ns, entry.ended_ns, entry.late_ns, entry.at_once)
            row = entry.row
            if row is not None:
                row.started_ns, row.finished_ns = started_ns, ended_ns
            self.log.add(entry, started_ns, ended_ns)
        else:
            started_ns = ended_ns = now_ns()
        if entry.timed:
            self.timed -= 1
            if entry.patience_ns < self.patience_ns:
                self.patience_ns = entry.patience_ns
            self.times.append((entry.sequence, started_ns, ended_ns))
        self._numbers[FINISHED] = entry.sequence
