"""How far this executor has come, in memory that the daemon reads, too: without its help while it runs, and when it is gone.

Little-endian 64-bit numbers, each written in one store. Launched, finished and entered are island sequences that only grow,
since launches and their ends are taken in order: a launch is *entered* before it is handed to the runtime, which may come back
from it only when its collectives are through, and *launched* behind that. The beat is a moment at which some thread of this
process had the interpreter to itself. What is loaded is told apart from what the dispatcher waits for: it goes on meanwhile.
"""

from __future__ import annotations

import mmap
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pathways_worker.executor.clock import now_ns

LAUNCHED, FINISHED, ENTERED, ENTERED_NS, BEAT_NS, WAITS_FOR, LOADING = range(7)
_SIZE_BYTES = 56
# Often enough for a deadline of two seconds; a wake costs some microseconds.
BEAT_S = 0.25


class Progress:
    """The dispatcher's thread alone sets `numbers`, but for the beat, and the loader's. Without a descriptor only we see them.

    LAUNCHED, FINISHED, ENTERED: sequences; ENTERED_NS: when the last launch was entered; WAITS_FOR: an ExecutorWait; LOADING: the
    id of the executable that is being loaded, 0 = none.
    """

    __slots__ = ("numbers",)

    def __init__(self, descriptor: int | None = None) -> None:
        assert sys.byteorder == "little", "the numbers are little-endian"
        memory = bytearray(_SIZE_BYTES) if descriptor is None else mmap.mmap(descriptor, 0)
        self.numbers = memoryview(memory)[:_SIZE_BYTES].cast("Q")

    @property
    def launched(self) -> int:
        """Up to here everything was handed to the runtime, or was left out with its failure told."""
        return self.numbers[LAUNCHED]

    @property
    def finished(self) -> int:
        """Nothing up to here is in flight."""
        return self.numbers[FINISHED]

    @contextmanager
    def waiting_for(self, what: int) -> Iterator[None]:
        """The dispatcher is kept from launching by something that is nobody's fault here: an ExecutorWait."""
        self.numbers[WAITS_FOR] = what
        yield
        self.numbers[WAITS_FOR] = 0

    @contextmanager
    def loading(self, executable_id: int) -> Iterator[None]:
        """For the loader: if the process ends meanwhile, it may be of this."""
        self.numbers[LOADING] = executable_id
        yield
        self.numbers[LOADING] = 0

    def start_beat(self) -> None:
        """Shows from now on that the process runs, until it ends: a stopped one does not, nor one whose interpreter is held."""
        self.numbers[BEAT_NS] = now_ns()
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT_S)
            self.numbers[BEAT_NS] = now_ns()
