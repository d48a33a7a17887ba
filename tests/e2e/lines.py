"""Output of a running script, line by line, with deadlines. It is read all the time: a full pipe would stop the script."""

from __future__ import annotations

import queue
import subprocess
import threading


class Lines:
    """Lines of a process's output as they come."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._lines: queue.Queue[str] = queue.Queue()
        self._process = process
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.strip())

    def next(self, timeout_s: float) -> str | None:
        """None when no line comes in time."""
        try:
            return self._lines.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def drain(self) -> list[str]:
        """Everything up to the first half second of silence."""
        lines = []
        while (line := self.next(0.5)) is not None:
            lines.append(line)
        return lines


def stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(20)
    finally:
        process.kill()
