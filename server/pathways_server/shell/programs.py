"""Program bytes by content, kept while the core knows an executable of them or a request for one is under way.

A request holds its program until the core took the step for it, so that a drop decided earlier in the same batch cannot
take the bytes away.
"""

from __future__ import annotations

import hashlib


class Programs:
    """The store of (program, options) pairs."""

    def __init__(self) -> None:
        self._bytes: dict[str, tuple[bytes, bytes]] = {}
        self._holds: dict[str, int] = {}
        self._owned: set[str] = set()

    def hold(self, program: bytes, options: bytes) -> str:
        """Keeps the bytes for a request; returns their name. The name says where the program ends and the options begin."""
        digest = hashlib.sha256(len(program).to_bytes(8, "little"))
        digest.update(program)
        digest.update(options)
        name = digest.hexdigest()
        self._bytes.setdefault(name, (program, options))
        self._holds[name] = self._holds.get(name, 0) + 1
        return name

    def adopt(self, program: bytes, options: bytes) -> str:
        """Keeps bytes that the core will be told of: it says when to drop them."""
        name = self.hold(program, options)
        self.hand_over(name)
        return name

    def hand_over(self, name: str) -> None:
        """The core took the step for one request; from here on it says when to drop."""
        self._owned.add(name)
        self._release(name)

    def _release(self, name: str) -> None:
        left = self._holds.get(name, 0) - 1
        if left > 0:
            self._holds[name] = left
        else:
            self._holds.pop(name, None)

    def drop(self, name: str) -> None:
        """The core knows no executable of these bytes any more."""
        self._owned.discard(name)
        if name not in self._holds:
            self._bytes.pop(name, None)

    def withdraw(self, name: str) -> None:
        """A request never reached the core: its hold goes, and the bytes if nobody else wants them."""
        self._release(name)
        if name not in self._owned:
            self.drop(name)

    def owned(self) -> tuple[tuple[bytes, bytes], ...]:
        """Program and options of everything that the core knows."""
        return tuple(self._bytes[name] for name in self._bytes if name in self._owned)

    def bytes_of(self, name: str) -> tuple[bytes, bytes]:
        """Program and options; KeyError if they were dropped, which is a defect of ours."""
        return self._bytes[name]

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def size_bytes(self) -> int:
        """Bytes of everything kept."""
        return sum(len(program) + len(options) for program, options in self._bytes.values())
