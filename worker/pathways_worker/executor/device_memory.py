"""An account of each device's memory, for hosts whose devices have a limit that nothing else keeps: CPU devices share memory.

Counted are arrays in the device's own memory, by id, and the temporary bytes of launches in flight, as XLA states them. What
would pass the limit is refused with figures. The controller admits work by the same figures, so a refusal means that it was
wrong; the highest figure, which it is told, shows that it never was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from pathways_common.model.failure import Reason

from pathways_worker.executor.failures import FailureMessage, make_failure

# Pairs of local device and bytes.
Sizes: TypeAlias = Sequence[tuple[int, int]]


class DeviceMemory:
    """The accounts of this host's devices; `limit_bytes` is that of each. Safe for several threads."""

    def __init__(self, limit_bytes: int, device_count: int) -> None:
        self.limit_bytes = limit_bytes
        # The most that one device held.
        self.peak_bytes = 0
        self._used_bytes = [0] * device_count
        self._charges: dict[int, Sizes] = {}
        self._lock = threading.Lock()

    def admit(self, identifier: int, sizes: Sizes) -> FailureMessage | None:
        """Takes room for an array, or says why there is none."""
        with self._lock:
            failure = self._against(f"buffer {identifier:#x}", sizes)
            if failure is None:
                self._put(identifier, sizes)
            return failure

    def against(self, what: str, sizes: Sizes) -> FailureMessage | None:
        """Why something does not fit now; None if it does."""
        with self._lock:
            return self._against(what, sizes)

    def charge(self, identifier: int, sizes: Sizes) -> None:
        """An array is there, fit or not."""
        with self._lock:
            self._put(identifier, sizes)

    def release(self, identifiers: Iterable[int]) -> None:
        """These ids hold nothing any more; some never did."""
        with self._lock:
            for identifier in identifiers:
                for device, size_bytes in self._charges.pop(identifier, ()):
                    self._used_bytes[device] -= size_bytes

    def charged(self, identifier: int) -> bool:
        """Whether an id holds room."""
        return identifier in self._charges

    def hold(self, sizes: Sizes) -> Callable[[], None]:
        """Temporary bytes; call the result once when they are free again."""
        with self._lock:
            self._add(sizes)

        def free() -> None:
            with self._lock:
                for device, size_bytes in sizes:
                    self._used_bytes[device] -= size_bytes

        return free

    def _put(self, identifier: int, sizes: Sizes) -> None:
        for device, size_bytes in self._charges.pop(identifier, ()):
            self._used_bytes[device] -= size_bytes
        self._charges[identifier] = sizes
        self._add(sizes)

    def _add(self, sizes: Sizes) -> None:
        for device, size_bytes in sizes:
            self._used_bytes[device] += size_bytes
            self.peak_bytes = max(self.peak_bytes, self._used_bytes[device])

    def _against(self, what: str, sizes: Sizes) -> FailureMessage | None:
        wanted = [0] * len(self._used_bytes)
        for device, size_bytes in sizes:
            wanted[device] += size_bytes
        for device, size_bytes in enumerate(wanted):
            used_bytes = self._used_bytes[device]
            if size_bytes > 0 and used_bytes + size_bytes > self.limit_bytes:
                text = (
                    f"{what} needs {size_bytes} bytes on device {device} of this host, "
                    f"of whose {self.limit_bytes} bytes {used_bytes} are taken; free or spill other arrays"
                )
                figures = {"needed_bytes": size_bytes, "used_bytes": used_bytes, "device_memory_bytes": self.limit_bytes}
                return make_failure(Reason.RESOURCE_EXHAUSTED, text, **figures)
        return None
