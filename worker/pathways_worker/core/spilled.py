"""The spilled buffers of one host: which are held, where, and which are refused. The least recently used go from memory to disk.

A buffer is asked of the executor, which offers it with its size once it is computed. It is taken only when there is room for all
of it, so neither limit is ever passed; what has to go to disk first is waited for. A copy ends when the executor has the buffer
back, not before. What is kept of an epoch that ends is answered also if its executor ends first. The shell moves and holds the
bytes of copies; here are only their names and sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId

from .spill_messages import (
    Admit,
    Arrived,
    Ask,
    Closed,
    Confirm,
    CopyNumber,
    Discard,
    Dropped,
    Effect,
    Event,
    ExecutorChanged,
    ExecutorRefused,
    Offered,
    Refuse,
    RefuseRestore,
    Release,
    Restored,
    RestoreExpected,
    RestoreWanted,
    Ship,
    SpillNumber,
    SpillWanted,
    Take,
    Write,
    Written,
)

__all__ = [
    "TRANSITIONS",
    "Admit",
    "Arrived",
    "Ask",
    "Closed",
    "Confirm",
    "CopyNumber",
    "Discard",
    "Dropped",
    "Effect",
    "Event",
    "ExecutorChanged",
    "ExecutorRefused",
    "Offered",
    "Phase",
    "Place",
    "Refuse",
    "RefuseRestore",
    "Release",
    "RestoreExpected",
    "RestoreWanted",
    "Restored",
    "Ship",
    "SpillNumber",
    "SpillWanted",
    "Spilled",
    "Take",
    "Write",
    "Written",
]


class Phase(Enum):
    """Of one buffer."""

    NONE = "none"
    ASKED = "asked"  # the executor will offer it when it is computed
    QUEUED = "queued"  # it has to wait until others are on disk
    COMING = "coming"  # its bytes are under way
    KEPT = "kept"
    LEAVING = "leaving"  # the executor will have it back


TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.NONE: frozenset({Phase.ASKED}),
    Phase.ASKED: frozenset({Phase.QUEUED, Phase.COMING, Phase.NONE}),
    Phase.QUEUED: frozenset({Phase.COMING, Phase.NONE}),
    Phase.COMING: frozenset({Phase.KEPT, Phase.NONE}),
    Phase.KEPT: frozenset({Phase.LEAVING, Phase.NONE}),
    Phase.LEAVING: frozenset({Phase.KEPT, Phase.NONE}),
}


class Place(Enum):
    """Of one copy: where it takes up room."""

    MEMORY = "memory"
    MOVING = "moving"  # in memory, and being written to disk: room is taken in both
    DISK = "disk"


@dataclass(slots=True)
class _Copy:
    number: CopyNumber
    size_bytes: int
    place: Place
    # A discarded copy that is being written takes up room until that has ended.
    discarded: bool = False


@dataclass(slots=True)
class _Buffer:
    identifier: GlobalId
    number: SpillNumber  # of the last command about it
    phase: Phase = Phase.NONE
    size_bytes: int = 0
    copy: _Copy | None = None
    # Whoever wants it is answered also if the executor ends before.
    owed: bool = False
    # Dropped while it came or left: it goes when that has ended.
    unwanted: bool = False


class Spilled:
    """The store's decisions. Limits in bytes; 0 = nothing goes there."""

    def __init__(self, memory_limit_bytes: int, disk_limit_bytes: int) -> None:
        self._memory_limit_bytes = memory_limit_bytes
        self._disk_limit_bytes = disk_limit_bytes
        # In the order in which they were last used: the first goes to disk first.
        self._buffers: dict[GlobalId, _Buffer] = {}
        self._copies: dict[CopyNumber, _Copy] = {}
        self._last_copy = CopyNumber(0)
        # Of what every step asks for; nothing that is done once for each buffer may look at all of them.
        self._queued: dict[GlobalId, _Buffer] = {}
        self._queued_bytes = 0
        self._moving_bytes = self._moving_count = 0
        self._owed_count = 0
        self.memory_bytes = 0
        self.disk_bytes = 0

    @property
    def held(self) -> list[tuple[GlobalId, int]]:
        """Buffers that are here and nowhere else, with their bytes; by id."""
        kept = [buffer for buffer in self._buffers.values() if buffer.phase in (Phase.KEPT, Phase.LEAVING)]
        return sorted((buffer.identifier, buffer.size_bytes) for buffer in kept)

    @property
    def buffer_count(self) -> int:
        """Buffers that are held, come or go."""
        return len(self._buffers)

    @property
    def owed(self) -> bool:
        """Whether something that is kept of an epoch is still to come."""
        return self._owed_count > 0

    @property
    def coming(self) -> frozenset[GlobalId]:
        """Buffers that an executor was asked for and that are not here."""
        coming = (Phase.ASKED, Phase.QUEUED, Phase.COMING)
        return frozenset(buffer.identifier for buffer in self._buffers.values() if buffer.phase in coming)

    def awaits(self, buffer_id: GlobalId, number: SpillNumber) -> bool:
        """Whether this very spill is not answered."""
        buffer = self._in_phase(buffer_id, Phase.ASKED, Phase.QUEUED, Phase.COMING)
        return buffer is not None and buffer.number == number

    def phase(self, buffer_id: GlobalId) -> Phase:
        """Of one buffer; those that are not here are NONE."""
        buffer = self._buffers.get(buffer_id)
        return Phase.NONE if buffer is None else buffer.phase

    def step(self, event: Event) -> list[Effect]:
        """What to do about one event."""
        match event:
            case SpillWanted():
                return self._on_spill_wanted(event)
            case Offered(buffer_id, size_bytes):
                return self._on_offered(buffer_id, size_bytes)
            case ExecutorRefused(buffer_id, number):
                return self._on_executor_refused(buffer_id, number)
            case Arrived(buffer_id, failure):
                return self._on_arrived(buffer_id, failure)
            case Written(copy, failure):
                return self._on_written(copy, failure)
            case RestoreWanted():
                return self._on_restore_wanted(event)
            case RestoreExpected(buffer_id):
                buffer = self._in_phase(buffer_id, Phase.LEAVING)
                return [] if buffer is None or buffer.copy is None else [Ship(buffer_id, buffer.copy.number)]
            case Restored():
                return self._on_restored(event)
            case Dropped(buffer_ids):
                return [effect for buffer_id in buffer_ids for effect in self._on_dropped(buffer_id)]
            case ExecutorChanged():
                return self._on_executor_changed()
            case Closed():
                return [effect for buffer in list(self._buffers.values()) for effect in self._end(buffer)]
            case _:
                assert_never(event)

    # ---- in ---------------------------------------------------------------------------------------------------------

    def _on_spill_wanted(self, event: SpillWanted) -> list[Effect]:
        buffer_id, number = event.buffer_id, event.number
        if not event.executor:
            return [Refuse(buffer_id, number, _failure(buffer_id, "it has no executor now", Reason.UNAVAILABLE), False)]
        if buffer_id in self._buffers:
            text = "it is being spilled already"
            return [Refuse(buffer_id, number, _failure(buffer_id, text, Reason.INVALID_ARGUMENT), False)]
        buffer = self._buffers[buffer_id] = _Buffer(buffer_id, number, owed=event.owed)
        self._owed_count += event.owed
        self._move(buffer, Phase.ASKED)
        return [Ask(buffer_id, number)]

    def _on_offered(self, buffer_id: GlobalId, size_bytes: int) -> list[Effect]:
        buffer = self._in_phase(buffer_id, Phase.ASKED)
        if buffer is None:
            return []
        buffer.size_bytes = size_bytes
        if buffer.unwanted:
            return self._refuse(buffer, _dropped(buffer_id))
        return self._find_room(buffer)

    def _find_room(self, buffer: _Buffer) -> list[Effect]:
        """Takes the buffer now, or has it wait for others to be on disk, or refuses it."""
        size_bytes = buffer.size_bytes
        wanted_bytes = self.memory_bytes + self._queued_bytes + size_bytes
        if wanted_bytes <= self._memory_limit_bytes:
            return self._take(buffer, Place.MEMORY)
        if size_bytes <= self._memory_limit_bytes:
            victims = self._victims(wanted_bytes - self._memory_limit_bytes)
            if victims is not None:
                self._move(buffer, Phase.QUEUED)
                for copy in victims:
                    self._set_place(copy, Place.MOVING)
                    self.disk_bytes += copy.size_bytes
                return [Write(copy.number) for copy in victims]
        if self.disk_bytes + size_bytes <= self._disk_limit_bytes:
            return self._take(buffer, Place.DISK)
        return self._refuse(buffer, self._no_room(buffer))

    def _victims(self, need_bytes: int) -> list[_Copy] | None:
        """The copies to write so that, with those being written, so many bytes of memory become free; None if they cannot."""
        need_bytes -= self._moving_bytes
        disk_bytes = self._disk_limit_bytes - self.disk_bytes
        victims = []
        for buffer in self._buffers.values():
            if need_bytes <= 0 or disk_bytes <= 0:
                break
            copy = buffer.copy
            if buffer.phase is not Phase.KEPT or copy is None or copy.place is not Place.MEMORY or copy.size_bytes > disk_bytes:
                continue
            victims.append(copy)
            need_bytes -= copy.size_bytes
            disk_bytes -= copy.size_bytes
        return victims if need_bytes <= 0 else None

    def _take(self, buffer: _Buffer, place: Place) -> list[Effect]:
        self._last_copy = CopyNumber(self._last_copy + 1)
        copy = buffer.copy = self._copies[self._last_copy] = _Copy(self._last_copy, buffer.size_bytes, place)
        if place is Place.MEMORY:
            self.memory_bytes += copy.size_bytes
        else:
            self.disk_bytes += copy.size_bytes
        self._move(buffer, Phase.COMING)
        return [Take(buffer.identifier, copy.number, place is Place.DISK)]

    def _refuse(self, buffer: _Buffer, failure: Failure) -> list[Effect]:
        return [Refuse(buffer.identifier, buffer.number, failure, True), *self._end(buffer)]

    def _on_executor_refused(self, buffer_id: GlobalId, number: SpillNumber) -> list[Effect]:
        buffer = self._in_phase(buffer_id, Phase.ASKED, Phase.QUEUED, Phase.COMING)
        return [] if buffer is None or buffer.number != number else [*self._end(buffer), *self._pump()]

    def _on_arrived(self, buffer_id: GlobalId, failure: Failure | None) -> list[Effect]:
        buffer = self._in_phase(buffer_id, Phase.COMING)
        if buffer is None:
            return []
        failure = _dropped(buffer_id) if buffer.unwanted else failure
        if failure is not None:
            return [*self._refuse(buffer, failure), *self._pump()]
        self._move(buffer, Phase.KEPT)
        self._not_owed(buffer)
        self._used(buffer)
        return [Confirm(buffer_id, buffer.number, buffer.size_bytes), *self._pump()]

    # ---- to disk ----------------------------------------------------------------------------------------------------

    def _on_written(self, number: CopyNumber, failure: Failure | None) -> list[Effect]:
        copy = self._copies.get(number)
        if copy is None or copy.place is not Place.MOVING:
            return []
        effects: list[Effect] = []
        if copy.discarded:
            effects += self._forget(copy)
        elif failure is None:
            self._set_place(copy, Place.DISK)
            self.memory_bytes -= copy.size_bytes
            effects.append(Release(number))
        else:
            self._set_place(copy, Place.MEMORY)
            self.disk_bytes -= copy.size_bytes
            # It would fail again: whoever waits for room does not get it.
            for buffer in list(self._queued.values()):
                effects += self._refuse(buffer, failure)
        return effects + self._pump()

    def _pump(self) -> list[Effect]:
        """Those that wait for room get it, first come, first served."""
        effects: list[Effect] = []
        while self._queued:
            buffer = next(iter(self._queued.values()))
            if self.memory_bytes + buffer.size_bytes <= self._memory_limit_bytes:
                effects += self._take(buffer, Place.MEMORY)
                continue
            if not self._moving_count:
                # Nothing becomes free by itself any more, because what was to go came back instead.
                effects += self._refuse(buffer, self._no_room(buffer))
                continue
            break
        return effects

    def _no_room(self, buffer: _Buffer) -> Failure:
        text = (
            f"it has {buffer.size_bytes} bytes, {self.memory_bytes} of {self._memory_limit_bytes} bytes of memory and "
            f"{self.disk_bytes} of {self._disk_limit_bytes} bytes of disk are taken; raise spill_memory or spill_disk"
        )
        return _failure(buffer.identifier, text, Reason.RESOURCE_EXHAUSTED)

    # ---- out --------------------------------------------------------------------------------------------------------

    def _on_restore_wanted(self, event: RestoreWanted) -> list[Effect]:
        buffer_id, number = event.buffer_id, event.number
        buffer = self._in_phase(buffer_id, Phase.KEPT)
        if buffer is None or buffer.copy is None:
            text = f"buffer {buffer_id:#x} cannot be restored: it is not in the spill store of this host"
            return [RefuseRestore(buffer_id, number, Failure(Reason.BUFFER_LOST, text))]
        if not event.executor:
            text = f"buffer {buffer_id:#x} cannot be restored: this host has no executor now"
            return [RefuseRestore(buffer_id, number, Failure(Reason.UNAVAILABLE, text, retryable=True))]
        self._move(buffer, Phase.LEAVING)
        buffer.number = number
        return [Admit(buffer_id, number, buffer.copy.number)]

    def _on_restored(self, event: Restored) -> list[Effect]:
        buffer = self._in_phase(event.buffer_id, Phase.LEAVING)
        if buffer is None or buffer.number != event.number:
            return []
        if event.succeeded or event.lost or buffer.unwanted:
            return [*self._end(buffer), *self._pump()]
        self._move(buffer, Phase.KEPT)
        self._used(buffer)
        return []

    def _on_dropped(self, buffer_id: GlobalId) -> list[Effect]:
        buffer = self._buffers.get(buffer_id)
        if buffer is None:
            return []
        if buffer.phase is Phase.KEPT:
            return [*self._end(buffer), *self._pump()]
        if buffer.phase is Phase.QUEUED:
            return [*self._refuse(buffer, _dropped(buffer_id)), *self._pump()]
        buffer.unwanted = True
        return []

    def _on_executor_changed(self) -> list[Effect]:
        effects: list[Effect] = []
        for buffer in list(self._buffers.values()):
            if buffer.owed:
                text = "its executor ended, or its time was over, before all of it was here"
                effects.append(
                    Refuse(buffer.identifier, buffer.number, _failure(buffer.identifier, text, Reason.BUFFER_LOST), False)
                )
            if buffer.phase in (Phase.ASKED, Phase.QUEUED, Phase.COMING) or (buffer.phase is Phase.LEAVING and buffer.unwanted):
                effects += self._end(buffer)
            elif buffer.phase is Phase.LEAVING:
                self._move(buffer, Phase.KEPT)
        return effects

    # ---- records ----------------------------------------------------------------------------------------------------

    def _in_phase(self, buffer_id: GlobalId, *phases: Phase) -> _Buffer | None:
        """A buffer, if it is in one of these phases: what is late about it is void."""
        buffer = self._buffers.get(buffer_id)
        return buffer if buffer is not None and buffer.phase in phases else None

    def _used(self, buffer: _Buffer) -> None:
        del self._buffers[buffer.identifier]
        self._buffers[buffer.identifier] = buffer

    def _end(self, buffer: _Buffer) -> list[Effect]:
        self._move(buffer, Phase.NONE)
        self._not_owed(buffer)
        del self._buffers[buffer.identifier]
        copy, buffer.copy = buffer.copy, None
        if copy is None:
            return []
        if copy.place is Place.MOVING:
            copy.discarded = True
            return []
        return self._forget(copy)

    def _forget(self, copy: _Copy) -> list[Effect]:
        del self._copies[copy.number]
        if copy.place is not Place.DISK:
            self.memory_bytes -= copy.size_bytes
        if copy.place is not Place.MEMORY:
            self.disk_bytes -= copy.size_bytes
        if copy.place is Place.MOVING:
            self._set_place(copy, Place.DISK)
        return [Discard(copy.number)]

    def _move(self, buffer: _Buffer, to: Phase) -> None:
        assert to in TRANSITIONS[buffer.phase], f"spilled buffer cannot go from {buffer.phase.name} to {to.name}"
        if buffer.phase is Phase.QUEUED:
            del self._queued[buffer.identifier]
            self._queued_bytes -= buffer.size_bytes
        if to is Phase.QUEUED:
            self._queued[buffer.identifier] = buffer
            self._queued_bytes += buffer.size_bytes
        buffer.phase = to

    def _not_owed(self, buffer: _Buffer) -> None:
        self._owed_count -= buffer.owed
        buffer.owed = False

    def _set_place(self, copy: _Copy, place: Place) -> None:
        change = (place is Place.MOVING) - (copy.place is Place.MOVING)
        self._moving_count += change
        self._moving_bytes += change * copy.size_bytes
        copy.place = place


def _failure(buffer_id: GlobalId, why: str, reason: Reason) -> Failure:
    return Failure(reason, f"this host cannot spill buffer {buffer_id:#x}: {why}", retryable=reason is Reason.UNAVAILABLE)


def _dropped(buffer_id: GlobalId) -> Failure:
    return _failure(buffer_id, "it was dropped meanwhile", Reason.DELETED)
