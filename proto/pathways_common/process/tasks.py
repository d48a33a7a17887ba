"""Every background task and every timer has a name, and one that fails stops the process instead of leaving it half alive.

`run_until_stopped` ends when `stop` was called or a task failed; then all tasks are cancelled and awaited, with a deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from pathways_common.model.failure import PathwaysError
from pathways_common.process.logs import fields

_LOG = logging.getLogger(__name__)


class TaskFailed(Exception):
    """A supervised task ended with an exception, which is the cause."""

    def __init__(self, name: str) -> None:
        super().__init__(f"task {name} failed")
        self.name = name


class Supervisor:
    """Owns the tasks of one process; use it from one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopped = asyncio.Event()
        self._failure: tuple[str, BaseException] | None = None
        self.reason = ""

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts a task; it may end without an exception at any time."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._on_failure(task.get_name(), error)

    def later(self, delay_s: float, name: str, callback: Callable[..., None], *arguments: Any) -> asyncio.TimerHandle:
        """Calls back once, after so many seconds unless the handle is cancelled; an exception of it is as that of a task."""
        return asyncio.get_running_loop().call_later(delay_s, self._call, name, callback, arguments)

    def _call(self, name: str, callback: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            callback(*arguments)
        except Exception as error:
            self._on_failure(name, error)

    def _on_failure(self, name: str, error: BaseException) -> None:
        foreseen = isinstance(error, PathwaysError)
        _LOG.critical("task failed", extra=fields(task=name, error=error), exc_info=None if foreseen else error)
        if self._failure is None:
            self._failure = (name, error)
        self.stop(f"task {name} failed")

    def stop(self, reason: str) -> None:
        """Lets `run_until_stopped` return; the first reason is kept."""
        if not self._stopped.is_set():
            self.reason = reason
            self._stopped.set()

    @property
    def stopping(self) -> bool:
        """Whether `stop` was called or a task failed."""
        return self._stopped.is_set()

    async def run_until_stopped(self) -> None:
        """Waits for `stop` or a failing task; raises TaskFailed for the latter. Cancel tasks with `close` afterwards."""
        await self._stopped.wait()
        if self._failure is not None:
            name, error = self._failure
            raise TaskFailed(name) from error

    async def close(self, timeout_s: float = 5.0) -> None:
        """Cancels what still runs and waits for it; names in the log what does not end in time."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=timeout_s)
            for task in late:
                _LOG.error("task did not end", extra=fields(task=task.get_name(), timeout_s=timeout_s))
