"""What the simulated programs compute: arithmetic on integers, so that a wrong order or a lost failure gives a wrong number.

A gang adds up every argument's shards on all its devices, plus what its callbacks return, plus its salt; shard i of
output j is a hash-like function of that sum. The client computes the same with plain arithmetic and never asks a host.
"""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.array import ArraySpec, ExecutableFacts

PRIME = 1_000_000_007
GARBAGE = -1
SMALL, LARGE, FLAG = 8, 128, 1
INLINE_BYTES_MAX = 64


@dataclass(frozen=True)
class Program:
    """Travels as text. `callback` is 0 or the number that each host hands to the client, which returns its double."""

    outputs: int
    parameters: int
    donated: tuple[int, ...]
    fallible: bool
    callback: int
    large: bool
    salt: int
    broken: bool = False
    flag: bool = False  # returns 0, 1 or 2 in one byte
    fused = False

    def text(self) -> str:
        donated = ",".join(map(str, self.donated))
        flags = f"{int(self.fallible)}|{self.callback}|{int(self.large)}|{self.salt}|{int(self.broken)}|{int(self.flag)}"
        return f"{self.outputs}|{self.parameters}|{donated}|{flags}"

    @staticmethod
    def parse(text: str) -> Program:
        outputs, parameters, donated, fallible, callback, large, salt, broken, flag = text.split("|")
        indices = tuple(int(index) for index in donated.split(",") if index)
        return Program(
            int(outputs), int(parameters), indices, fallible == "1", int(callback), large == "1", int(salt), broken == "1",
            flag == "1",
        )  # fmt: skip

    def facts(self) -> ExecutableFacts:
        size = FLAG if self.flag else LARGE if self.large else SMALL
        return ExecutableFacts(
            self.text().encode(),
            self.outputs,
            (size,) * self.outputs,
            frozenset(self.donated),
            self.fallible,
            0,
            b"",
            self.parameters,
            self.salt % 3 * 6 * SMALL,
            SMALL if self.donated else 0,
            outputs=(ArraySpec(11, (), b"", (size // 4,), ()),) * self.outputs,
        )

    def local(self, arguments: list[list[int]]) -> int:
        """What a host adds to the sum of all of them."""
        return sum(sum(shards) for shards in arguments)

    def output(self, total: int, index: int, shard: int) -> int:
        value = ((total + self.salt) * (index + 2) * 7919 + shard) % PRIME
        return value % 3 if self.flag else value

    def results(self, arguments: list[list[int]], devices: int, hosts: int) -> list[list[int]]:
        """The expected values: one list of shards per output."""
        total = sum(sum(shards) for shards in arguments) + 2 * self.callback * hosts
        return [[self.output(total, index, shard) for shard in range(devices)] for index in range(self.outputs)]


def encode(value: int, size: int = SMALL) -> bytes:
    return (value % (1 << 63)).to_bytes(8, "little") + bytes(size - 8)


def decode(data: bytes) -> int:
    return int.from_bytes(data[:8], "little")
