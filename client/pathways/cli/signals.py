"""Ctrl-C and its kin are counted, never raised: a command looks at the count where stopping is safe, so nothing is half done."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from types import FrameType, TracebackType

from pathways.cli.faults import Interrupted

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts SIGINT, SIGTERM and SIGHUP inside a `with` block; `on_signal` (if set) runs for each, in the handler."""

    def __init__(self) -> None:
        self.count = 0
        self.first = 0
        self.on_signal: Callable[[int], None] | None = None
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> Interrupts:
        for number in _SIGNALS:
            if number is signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # nohup
            self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.first = self.first or number
        if self.on_signal is not None:
            self.on_signal(number)

    @property
    def impatient(self) -> bool:
        """Asked twice: stop at once instead of gently."""
        return self.count > 1

    def check(self) -> None:
        """Raises Interrupted if a signal came."""
        if self.count:
            raise Interrupted(self.first)

    def wait(self, seconds: float) -> None:
        """Sleeps; raises Interrupted at once if a signal comes."""
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, 0.05))
