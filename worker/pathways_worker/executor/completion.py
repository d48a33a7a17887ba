"""One thread waits for values that readers asked for, so that the dispatcher never does.

First come, first served: a device computes in order, so what was asked for first is ready first. Bytes still on their way are not
waited for here; the object store calls when they land. Each action runs once and its exceptions end the process with its name.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import TypeAlias

Action: TypeAlias = Callable[[], None]


class Lane:
    """A named thread that runs actions in order. Starts with its first action. `stack_bytes`: 0 = as large as the system's."""

    def __init__(self, name: str, stack_bytes: int = 0) -> None:
        self._name = name
        self._stack_bytes = stack_bytes
        self._actions: queue.SimpleQueue[Action] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def put(self, action: Action) -> None:
        """Runs the action after those put before it."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                # A setting of the process: a thread that starts just now has as much room, which harms nobody.
                before = threading.stack_size(self._stack_bytes)
                self._thread.start()
                threading.stack_size(before)
        self._actions.put(action)

    def _run(self) -> None:
        try:
            while True:
                self._actions.get()()
        except BrokenPipeError:
            os._exit(0)  # the daemon is gone
        except BaseException:
            print(f"thread {self._name} failed", file=sys.stderr)
            traceback.print_exc()
            os._exit(1)
