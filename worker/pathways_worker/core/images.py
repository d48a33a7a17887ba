"""Loads pass through here: one whose image the host holds takes that along, and one whose image may come waits for it.

A Load is held while its image is read from disk or pulled from another host, or while the executor compiles an equal one;
whatever ends the wait, it goes on, with the image or without. Nothing else waits for it: the controller uses an executable only
when it was told that it is loaded. What another session has in line is not waited for, but for the first of it: that one is
compiled when the session has its turn, as our own would be. An image that an executor died of is not given to a second one, nor
read or pulled again from where it is still: that program is compiled here. The shell holds the bytes and the Loads; here are only
their names. Images outlive executors and joins, and are dropped, the least used first, when they are too many. On disk, where
there is a folder for them, they outlive the daemon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, TypeVar, assert_never

from pathways_common.model.ids import GlobalId, SessionNumber, session_of

_KeyT = TypeVar("_KeyT")
# A hundredth of the memory of a small host; images of large programs have a few megabytes.
KEPT_BYTES_MAX = 256 << 20
KEPT_MAX = 4096
# Images that executors died of, as remembered: forgetting one costs another executor.
DEADLY_MAX = 1024


@dataclass(frozen=True, slots=True)
class LoadWanted:
    """A Load; `key` is empty if it can have no image, `pullable` if it names another host that has it, `stored` if a file has."""

    executable_id: GlobalId
    key: str
    pullable: bool
    stored: bool = False


@dataclass(frozen=True, slots=True)
class ImagePulled:
    """The pull of this image ended; `size_bytes` is 0 if there are none."""

    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ImageRead:
    """The reading of this image ended; `size_bytes` is 0 if its file is of no use."""

    key: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LoadAnswered:
    """The executor answered; with the image of what it compiled, unless `size_bytes` is 0."""

    executable_id: GlobalId
    size_bytes: int
    reused: bool


@dataclass(frozen=True, slots=True)
class ExecutablesUnloaded:
    executable_ids: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class ExecutorChanged:
    """Another executor, or none: Loads for the one before are void."""


@dataclass(frozen=True, slots=True)
class ExecutorDied:
    """It ended by itself. Comes after ExecutorChanged."""


Event: TypeAlias = LoadWanted | ImagePulled | ImageRead | LoadAnswered | ExecutablesUnloaded | ExecutorChanged | ExecutorDied


@dataclass(frozen=True, slots=True)
class Forward:
    """Hand this Load to the executor, with the image of `key` unless that is empty."""

    executable_id: GlobalId
    key: str


@dataclass(frozen=True, slots=True)
class Pull:
    """Pull the image that this Load names."""

    executable_id: GlobalId
    key: str


@dataclass(frozen=True, slots=True)
class Read:
    """Read the image of this key from disk."""

    key: str


@dataclass(frozen=True, slots=True)
class Keep:
    """Keep the bytes that came with this event."""

    key: str


@dataclass(frozen=True, slots=True)
class Drop:
    """Forget the bytes of this image."""

    key: str


@dataclass(frozen=True, slots=True)
class Store:
    """Write the bytes of this image to disk; Keep came just before."""

    key: str


@dataclass(frozen=True, slots=True)
class Erase:
    """Remove the file of this image, if there is one: it is of no use."""

    key: str


@dataclass(frozen=True, slots=True)
class Discard:
    """Forget this Load: nobody wants it any more. `unloaded`: because of an Unload, which leaves its answer to us."""

    executable_id: GlobalId
    unloaded: bool = False


Effect: TypeAlias = Forward | Pull | Read | Keep | Drop | Store | Erase | Discard


class Images:
    """What one daemon holds. `step` gives effects that are to be carried out in order. `storing`: there is a folder on disk."""

    def __init__(self, bytes_max: int = KEPT_BYTES_MAX, count_max: int = KEPT_MAX, storing: bool = False) -> None:
        self._bytes_max = bytes_max
        self._count_max = count_max
        self._storing = storing
        # Least used first.
        self._kept: dict[str, int] = {}
        self._kept_bytes = 0
        # Loads that wait, in their order.
        self._held: dict[GlobalId, str] = {}
        self._arriving: dict[str, None] = {}
        # Loads at the executor; whether the image went along. By session in their order there, and by key.
        self._forwarded: dict[GlobalId, tuple[str, bool]] = {}
        self._lines: dict[SessionNumber, dict[GlobalId, None]] = {}
        self._makers: dict[str, dict[GlobalId, None]] = {}
        self._suspects: list[str] = []
        # The latest last.
        self._deadly: dict[str, None] = {}

    @property
    def kept_bytes(self) -> int:
        """Bytes of all images."""
        return self._kept_bytes

    @property
    def kept_count(self) -> int:
        """How many images there are."""
        return len(self._kept)

    @property
    def waiting(self) -> list[GlobalId]:
        """Executables whose Load waits for an image."""
        return list(self._held)

    def holds(self, key: str) -> bool:
        """Whether the shell has the bytes of this image; asking counts as use."""
        if key not in self._kept:
            return False
        self._kept[key] = self._kept.pop(key)
        return True

    def step(self, event: Event) -> list[Effect]:
        """What to do about one event."""
        match event:
            case LoadWanted(executable_id, key, pullable, stored):
                return self._on_load(executable_id, key, pullable, stored)
            case ImagePulled(key, size_bytes):
                self._arriving.pop(key, None)
                return [*self._keep_new(key, size_bytes), *self._release(key)]
            case ImageRead(key, size_bytes):
                self._arriving.pop(key, None)
                return [*self._keep(key, size_bytes), *self._release(key)]
            case LoadAnswered(executable_id, size_bytes, reused):
                return self._on_answer(executable_id, size_bytes, reused)
            case ExecutablesUnloaded(executable_ids):
                held = [identifier for identifier in executable_ids if self._held.pop(identifier, None) is not None]
                return [Discard(identifier, unloaded=True) for identifier in held]
            case ExecutorChanged():
                return self._on_changed()
            case ExecutorDied():
                suspects, self._suspects = self._suspects, []
                return [effect for suspect in suspects for effect in self._on_died_of(suspect)]
            case _:
                assert_never(event)

    def _on_load(self, executable_id: GlobalId, key: str, pullable: bool, stored: bool) -> list[Effect]:
        if not key or self.holds(key):
            return [self._forward(executable_id, key)]
        if key in self._arriving or self._in_the_making(key, session_of(executable_id)):
            self._held[executable_id] = key
            return []
        if (pullable or stored) and key not in self._deadly:
            self._held[executable_id] = key
            self._arriving[key] = None
            return [Read(key) if stored else Pull(executable_id, key)]
        return [self._forward(executable_id, key)]

    def _on_answer(self, executable_id: GlobalId, size_bytes: int, reused: bool) -> list[Effect]:
        key, took_image = self._forwarded.pop(executable_id, ("", False))
        _take_out(self._lines, session_of(executable_id), executable_id)
        _take_out(self._makers, key, executable_id)
        if not key:
            return []
        effects: list[Effect] = []
        if took_image and not reused:
            # It was of no use, and what was compiled instead takes its place.
            effects += self._discard_image(key)
        return [*effects, *self._keep_new(key, size_bytes), *self._release(key)]

    def _on_changed(self) -> list[Effect]:
        # It was at the first of some session. Which one is not asked: who is suspected wrongly is compiled once more.
        firsts = [self._forwarded[next(iter(line))] for line in self._lines.values()]
        self._suspects = list(dict.fromkeys(key for key, took_image in firsts if took_image))
        self._forwarded.clear()
        self._lines.clear()
        self._makers.clear()
        held = list(self._held)
        self._held.clear()
        return [Discard(identifier) for identifier in held]

    def _on_died_of(self, key: str) -> list[Effect]:
        self._deadly.pop(key, None)
        self._deadly[key] = None
        if len(self._deadly) > DEADLY_MAX:
            del self._deadly[next(iter(self._deadly))]
        return self._discard_image(key)

    def _in_the_making(self, key: str, session: SessionNumber) -> bool:
        """Whether an equal one is at the executor that this session need not wait for longer than for its own turn."""
        return any(
            session_of(maker) == session or maker == next(iter(self._lines[session_of(maker)]))
            for maker in self._makers.get(key, ())
        )

    def _forward(self, executable_id: GlobalId, key: str) -> Forward:
        kept = self.holds(key)
        _take_out(self._makers, self._forwarded.get(executable_id, ("", False))[0], executable_id)  # asked for once more
        self._forwarded[executable_id] = (key, kept)
        self._lines.setdefault(session_of(executable_id), {})[executable_id] = None
        if key:
            self._makers.setdefault(key, {})[executable_id] = None
        return Forward(executable_id, key if kept else "")

    def _release(self, key: str) -> list[Effect]:
        """Lets those go that waited for this image; without it, one goes and others wait for what it compiles, as above."""
        effects: list[Effect] = []
        for executable_id in [identifier for identifier, wanted in self._held.items() if wanted == key]:
            if not self.holds(key) and self._in_the_making(key, session_of(executable_id)):
                continue
            del self._held[executable_id]
            effects.append(self._forward(executable_id, key))
        return effects

    def _keep_new(self, key: str, size_bytes: int) -> list[Effect]:
        """Keeps an image that is not on disk."""
        effects = self._keep(key, size_bytes)
        if effects and self._storing:
            effects.insert(1, Store(key))
        return effects

    def _keep(self, key: str, size_bytes: int) -> list[Effect]:
        if not size_bytes or size_bytes > self._bytes_max:
            return []
        self._kept_bytes += size_bytes - self._kept.pop(key, 0)
        self._kept[key] = size_bytes
        effects: list[Effect] = [Keep(key)]
        while self._kept_bytes > self._bytes_max or len(self._kept) > self._count_max:
            effects += self._drop(next(iter(self._kept)))
        return effects

    def _discard_image(self, key: str) -> list[Effect]:
        """Drops what is of no use, here and on disk."""
        return [*self._drop(key), *([Erase(key)] if self._storing else [])]

    def _drop(self, key: str) -> list[Effect]:
        size_bytes = self._kept.pop(key, 0)
        self._kept_bytes -= size_bytes
        return [Drop(key)] if size_bytes else []


def _take_out(table: dict[_KeyT, dict[GlobalId, None]], key: _KeyT, executable_id: GlobalId) -> None:
    line = table.get(key, {})
    line.pop(executable_id, None)
    if not line:
        table.pop(key, None)
