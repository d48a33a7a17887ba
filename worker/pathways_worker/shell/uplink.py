"""What an agent of a host is given: its way to the controller, and room for what is spilled."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pathways_worker.shell.spill_files import SpillFolder


class Uplink(Protocol):
    """The way to the controller."""

    def push(self, event: bytes, urgent: bool = False) -> None:
        """Queues a serialized HostEvent."""

    def wake(self) -> None:
        """The acknowledgement or the progress has changed."""

    def restart_progress(self) -> None:
        """Progress counts from 0 again, for another executor."""


class SpillStore(NamedTuple):
    """What spilled buffers may take up, and where their files go."""

    memory_bytes: int
    disk_bytes: int
    folder: SpillFolder
