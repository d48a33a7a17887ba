"""Calls that wait for the cluster, each in a thread of its own, so that whoever asked can look elsewhere and give up.

The thread of a call that was given up ends when the cluster answers it, which it does: no wait of the cluster is endless.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Waiting(Generic[T]):
    """One such call."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._over = threading.Event()
        self._results: list[T] = []
        self._error: BaseException | None = None
        threading.Thread(target=self._run, name="pathways-waiting", daemon=True).start()

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()

    def is_over(self, within_s: float = 0.0) -> bool:
        """Whether it has an answer, or has one so soon."""
        return self._over.wait(within_s) if within_s else self._over.is_set()

    @property
    def succeeded(self) -> bool:
        """Whether it has returned."""
        return self._over.is_set() and self._error is None

    def result(self) -> T:
        """What it returned, or raises what it raised; waits for that."""
        self._over.wait()
        if self._error is not None:
            raise self._error
        return self._results[0]
