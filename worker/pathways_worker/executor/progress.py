"""How far this executor has come: the last sequences launched and finished, also in memory that outlives the process.

The daemon gives a descriptor of the memory and reads it when the process is gone: two little-endian 64-bit numbers, each written
in one store. Both only grow, since launches and their ends are taken in order.
"""

from __future__ import annotations

import mmap
import sys

LAUNCHED, FINISHED = 0, 1


class Progress:
    """The dispatcher's thread alone sets `numbers[LAUNCHED]` and `numbers[FINISHED]`. Without a descriptor only it sees them."""

    __slots__ = ("numbers",)

    def __init__(self, descriptor: int | None = None) -> None:
        assert sys.byteorder == "little", "the numbers are little-endian"
        memory = bytearray(16) if descriptor is None else mmap.mmap(descriptor, 0)
        self.numbers = memoryview(memory)[:16].cast("Q")

    @property
    def launched(self) -> int:
        """Up to here everything was handed to the runtime, or was left out with its failure told."""
        return self.numbers[LAUNCHED]

    @property
    def finished(self) -> int:
        """Nothing up to here is in flight."""
        return self.numbers[FINISHED]
