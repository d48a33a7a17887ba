"""Carries out what `core.spilled` decides: holds the bytes of spilled buffers, and passes them to the executor and back.

Pieces go to and from disk on threads, one store-wide write after another, and each within a deadline, so that a disk that hangs
delays only who waits for it. What the executor says of a buffer passes through here before the controller hears it.
What an executor was told to send it sends, whatever becomes of the copy: the rest of one that ended early is never taken for the
bytes of another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, assert_never

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId
from pathways_common.process.logs import fields
from pathways_common.process.tasks import Supervisor
from pathways_common.rpc.convert import failure_to_proto
from pathways_proto.v1 import spilling_pb2, workers_pb2

from pathways_worker.core import spilled as core
from pathways_worker.shell.counters import Counters
from pathways_worker.shell.spill_files import Broken, FileBlock, MemoryBlock, SpillFolder
from pathways_worker.shell.wire import COMMAND, Item

_LOG = logging.getLogger(__name__)
# A piece that takes longer is not coming.
DISK_TIMEOUT_S = 60.0
# How soon the controller hears of a change of the store that no event tells.
_TELL_S = 0.5

SPILL, RESTORE, DROP = COMMAND["spill_array"], COMMAND["restore_array"], COMMAND["drop_spilled"]


class Peer(Protocol):
    """The rest of the daemon."""

    @property
    def has_executor(self) -> bool:
        """Whether there is an executor to talk to."""

    @property
    def sender(self) -> int:
        """The number of the executor that what the store decides is told to."""

    def send_item(self, item: Item) -> None:
        """A command to the current executor."""

    async def send_spilled(self, buffer_id: int, data: bytes, failure: Failure | None) -> None:
        """The next bytes of a buffer to the current executor, or why there are none; OSError if it is gone."""

    def tell(self, event: workers_pb2.HostEvent) -> None:
        """An event to the controller; its failure gets the name of this host."""

    def store_changed(self) -> None:
        """The store has taken a step."""


@dataclass(slots=True, eq=False)
class _Incoming:
    """The copy that the bytes of a buffer go to, which executor sends them, and how many have not been read."""

    copy: core.CopyNumber
    size_bytes: int
    sender: int
    missing_bytes: int


class SpillAgent:
    """The spill store of one host."""

    def __init__(
        self, memory_bytes: int, disk_bytes: int, folder: SpillFolder, counters: Counters, supervisor: Supervisor, peer: Peer
    ) -> None:
        self._core = core.Spilled(memory_bytes, disk_bytes)
        self._folder = folder
        self._counters = counters
        self._supervisor = supervisor
        self._peer = peer
        self._offers: dict[GlobalId, list[Any]] = {}
        self._forms: dict[core.CopyNumber, list[Any]] = {}
        self._memory: dict[core.CopyNumber, MemoryBlock] = {}
        self._files: dict[core.CopyNumber, FileBlock] = {}
        self._incoming: dict[GlobalId, _Incoming] = {}
        # Bytes that an executor still sends of copies that ended before they were full; they come before any others of that id.
        self._void_bytes: dict[tuple[int, GlobalId], int] = {}
        self._shipping: dict[GlobalId, asyncio.Task[None]] = {}
        self._unreadable: set[GlobalId] = set()
        self._writing = asyncio.Lock()
        # Executors only say what changes: what the present one said last goes along when the store changes.
        self._executor_figures = workers_pb2.Memory()
        self._told = (0, 0)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def held(self) -> list[tuple[GlobalId, int]]:
        """Ids of buffers that are here and nowhere else, with their bytes."""
        return self._core.held

    @property
    def owed(self) -> bool:
        """Whether something that is kept of an epoch is not answered."""
        return self._core.owed

    @property
    def coming(self) -> frozenset[GlobalId]:
        """Buffers that an executor was asked for and that are not here."""
        return self._core.coming

    # ---- from the controller ----------------------------------------------------------------------------------------

    def on_command(self, kind: int, command: Any) -> list[Item]:
        """A SpillArray, RestoreArray or DropSpilled; what of it goes on to the executor."""
        items: list[Item] = []
        if kind == SPILL:
            self._step(core.SpillWanted(*_about(command), self._peer.has_executor), items.append)
        elif kind == RESTORE:
            self._step(core.RestoreWanted(*_about(command), self._peer.has_executor), items.append)
        else:
            self._step(core.Dropped(tuple(GlobalId(identifier) for identifier in command.ids)))
            items.append(Item(DROP, workers_pb2.HostCommand(drop_spilled=command).SerializeToString()))
        return items

    def keep(self, stored_id: int, number: int, executor: bool) -> bool:
        """A Keep of an epoch that ends, for whose executor there is something to ask or not; whether it is to be asked."""
        asked: list[Item] = []
        wanted = core.SpillWanted(GlobalId(stored_id), core.SpillNumber(number), executor, owed=True)
        self._step(wanted, asked.append)
        return bool(asked)

    # ---- from the executor ------------------------------------------------------------------------------------------

    def on_offered(self, offer: spilling_pb2.SpillOffered) -> None:
        """The executor has a buffer ready; it waits for our decision."""
        self._offers[GlobalId(offer.buffer_id)] = list(offer.shards)
        self._step(core.Offered(GlobalId(offer.buffer_id), sum(shard.size_bytes for shard in offer.shards)))

    def on_expected(self, expected: spilling_pb2.RestoreExpected) -> None:
        """The executor waits for the bytes of a buffer."""
        self._step(core.RestoreExpected(GlobalId(expected.buffer_id)))

    def on_refused(self, answer: spilling_pb2.ArraySpilled) -> None:
        """The executor keeps a buffer, and tells the controller why."""
        self._offers.pop(GlobalId(answer.buffer_id), None)
        # It was freed before a byte of it was sent, and none will be.
        self._incoming.pop(GlobalId(answer.buffer_id), None)
        self._step(core.ExecutorRefused(*_about(answer)))

    def on_kept_not(self, answer: spilling_pb2.ArraySpilled) -> None:
        """The executor of an epoch that ends has not what is to be kept; told here, if that is not answered yet."""
        if self._core.awaits(*_about(answer)):
            self._peer.tell(workers_pb2.HostEvent(array_spilled=answer))
            self.on_refused(answer)

    def on_restored(self, answer: spilling_pb2.ArrayRestored) -> None:
        """The executor has a buffer again, or tells the controller why not."""
        identifier = GlobalId(answer.buffer_id)
        succeeded = not answer.HasField("failure")
        self._counters.arrays_restored += succeeded
        lost = identifier in self._unreadable
        self._unreadable.discard(identifier)
        self._step(core.Restored(*_about(answer), succeeded, lost))

    async def on_bytes(self, sender: int, buffer_id: int, data: bytes) -> None:
        """The next bytes of a buffer; waits for the disk if they go there."""
        identifier = GlobalId(buffer_id)
        void_bytes = self._void_bytes.pop((sender, identifier), 0)
        if void_bytes:
            if void_bytes > len(data):
                self._void_bytes[sender, identifier] = void_bytes - len(data)
            return
        incoming = self._incoming.get(identifier)
        if incoming is None or incoming.sender != sender:
            return
        incoming.missing_bytes -= len(data)
        copy, size_bytes = incoming.copy, incoming.size_bytes
        try:
            block: MemoryBlock | FileBlock | None = self._memory.get(copy)
            if block is None:
                block = await self._to_disk(copy, size_bytes, data)
            else:
                block.write(data)
        except Exception as error:
            self._arrived(identifier, incoming, self._disk_failure(f"buffer {identifier:#x}", error))
            return
        if block.filled_bytes == size_bytes or self._incoming.get(identifier) is not incoming:
            self._arrived(identifier, incoming, None)

    async def _to_disk(self, copy: core.CopyNumber, size_bytes: int, data: bytes) -> FileBlock:
        async with asyncio.timeout(DISK_TIMEOUT_S):
            block = self._files.get(copy)
            if block is None:
                block = self._files[copy] = await asyncio.to_thread(self._folder.file, copy, size_bytes)
            await asyncio.to_thread(block.write, data)
        return block

    def _arrived(self, identifier: GlobalId, incoming: _Incoming, failure: Failure | None) -> None:
        if self._incoming.get(identifier) is incoming:
            self._end_incoming(identifier)
            self._step(core.Arrived(identifier, failure))
        else:
            # While a piece was written the executor ended, and with it what it was sending.
            self._remove_file(incoming.copy)

    def _end_incoming(self, identifier: GlobalId) -> None:
        incoming = self._incoming.pop(identifier)
        if incoming.missing_bytes > 0:
            key = incoming.sender, identifier
            self._void_bytes[key] = self._void_bytes.get(key, 0) + incoming.missing_bytes

    def executor_gone(self, number: int) -> None:
        """This process is gone: it sends nothing more."""
        self._void_bytes = {key: size_bytes for key, size_bytes in self._void_bytes.items() if key[0] != number}

    def executor_changed(self) -> None:
        """Another executor, or none; the one before may still send what it was told to."""
        self._executor_figures = workers_pb2.Memory()
        for task in self._shipping.values():
            task.cancel()
        self._shipping.clear()
        self._unreadable.clear()
        self._offers.clear()
        for identifier in list(self._incoming):
            self._end_incoming(identifier)
        self._step(core.ExecutorChanged())

    def close(self) -> None:
        """The link is gone, or the daemon ends: nothing stays, in memory or on disk."""
        self.executor_changed()
        self._step(core.Closed())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def remove_folder(self) -> None:
        """The daemon ends."""
        self._folder.remove()

    def add_figures(self, memory: workers_pb2.Memory) -> None:
        """The executor's figures are on their way; adds those of the store."""
        self._executor_figures.CopyFrom(memory)
        self._told = (self._core.memory_bytes, self._core.disk_bytes)
        memory.spilled_bytes, memory.spilled_disk_bytes = self._told

    def _tell_figures(self) -> None:
        self._timer = None
        if self._told != (self._core.memory_bytes, self._core.disk_bytes):
            memory = workers_pb2.Memory()
            memory.CopyFrom(self._executor_figures)
            self.add_figures(memory)
            self._peer.tell(workers_pb2.HostEvent(memory=memory))

    # ---- effects ----------------------------------------------------------------------------------------------------

    def _step(self, event: core.Event, forward: Callable[[Item], None] | None = None) -> None:
        for effect in self._core.step(event):
            self._carry_out(effect, forward or self._peer.send_item)
        self._peer.store_changed()
        counters = self._counters
        counters.spilled_bytes, counters.spilled_disk_bytes = self._core.memory_bytes, self._core.disk_bytes
        if self._timer is None and self._told != (self._core.memory_bytes, self._core.disk_bytes):
            self._timer = self._supervisor.later(_TELL_S, "figures of the spill store", self._tell_figures)

    def _carry_out(self, effect: core.Effect, forward: Callable[[Item], None]) -> None:
        match effect:
            case core.Ask(buffer_id, number):
                asked = spilling_pb2.SpillArray(buffer_id=buffer_id, spill_number=number)
                forward(Item(SPILL, workers_pb2.HostCommand(spill_array=asked).SerializeToString()))
            case core.Take(buffer_id, copy, on_disk):
                form = self._forms[copy] = self._offers.pop(buffer_id)
                size_bytes = sum(shard.size_bytes for shard in form)
                self._incoming[buffer_id] = _Incoming(copy, size_bytes, self._peer.sender, size_bytes)
                if not on_disk:
                    self._memory[copy] = MemoryBlock(size_bytes)
                self._decide(buffer_id, spilling_pb2.SPILL_DECISION_SEND)
            case core.Refuse(buffer_id, number, failure, offered):
                if offered:
                    self._decide(buffer_id, spilling_pb2.SPILL_DECISION_KEEP)
                    self._offers.pop(buffer_id, None)
                _LOG.warning("buffer not spilled", extra=fields(buffer_id=buffer_id, cause=failure.message))
                why = failure_to_proto(failure)
                answer = spilling_pb2.ArraySpilled(buffer_id=buffer_id, spill_number=number, failure=why)
                self._peer.tell(workers_pb2.HostEvent(array_spilled=answer))
            case core.Confirm(buffer_id, number, size_bytes):
                # First: what comes after it in the link finds the room that the buffer leaves.
                self._decide(buffer_id, spilling_pb2.SPILL_DECISION_FORGET)
                self._counters.arrays_spilled += 1
                answer = spilling_pb2.ArraySpilled(buffer_id=buffer_id, spill_number=number, size_bytes=size_bytes)
                self._peer.tell(workers_pb2.HostEvent(array_spilled=answer))
            case core.Write(copy):
                self._supervisor.spawn(f"write spilled copy {copy}", self._write(copy))
            case core.Release(copy):
                del self._memory[copy]
            case core.Discard(copy):
                self._memory.pop(copy, None)
                del self._forms[copy]
                self._remove_file(copy)
            case core.Admit(buffer_id, number, copy):
                back = spilling_pb2.RestoreArray(buffer_id=buffer_id, spill_number=number, shards=self._forms[copy])
                forward(Item(RESTORE, workers_pb2.HostCommand(restore_array=back).SerializeToString()))
            case core.Ship(buffer_id, copy):
                task = self._supervisor.spawn(f"restore buffer {buffer_id}", self._ship(buffer_id, copy))
                self._shipping[buffer_id] = task
            case core.RefuseRestore(buffer_id, number, failure):
                _LOG.warning("buffer not restored", extra=fields(buffer_id=buffer_id, cause=failure.message))
                why = failure_to_proto(failure)
                refused = spilling_pb2.ArrayRestored(buffer_id=buffer_id, spill_number=number, failure=why)
                self._peer.tell(workers_pb2.HostEvent(array_restored=refused))
            case _:
                assert_never(effect)

    def _decide(self, buffer_id: GlobalId, decision: spilling_pb2.SpillDecision) -> None:
        decided = spilling_pb2.SpillDecided(buffer_id=buffer_id, decision=decision)
        self._peer.send_item(Item(COMMAND["spill_decided"], workers_pb2.HostCommand(spill_decided=decided).SerializeToString()))

    # ---- disk -------------------------------------------------------------------------------------------------------

    async def _write(self, copy: core.CopyNumber) -> None:
        """Copies a block of memory to a file."""
        failure = None
        block = self._memory[copy]
        async with self._writing:
            try:
                for piece in block.pieces():
                    await self._to_disk(copy, block.size_bytes, piece)
            except Exception as error:
                failure = self._disk_failure("a buffer", error)
                self._remove_file(copy)
        self._step(core.Written(copy, failure))

    def _disk_failure(self, what: str, error: Exception) -> Failure:
        cause = f"no answer within {DISK_TIMEOUT_S:g} s" if isinstance(error, TimeoutError) else str(error)
        sentence = f"this host cannot spill {what}: writing to {self._folder.path} failed ({cause}); choose another --spill-dir"
        return Failure(Reason.RESOURCE_EXHAUSTED, sentence)

    def _remove_file(self, copy: core.CopyNumber) -> None:
        block = self._files.pop(copy, None)
        if block is not None:
            try:
                block.remove()
            except OSError as error:
                _LOG.warning("spill file not removed", extra=fields(copy=copy, cause=error.strerror))

    async def _ship(self, buffer_id: GlobalId, copy: core.CopyNumber) -> None:
        """Sends the bytes of a copy to the executor, which answers when it has placed them."""
        try:
            await self._ship_pieces(buffer_id, copy)
        except OSError as error:
            # The executor is gone; its death is reported apart, and the copy is still here.
            _LOG.info("buffer not restored", extra=fields(buffer_id=buffer_id, cause=str(error)))
        finally:
            if self._shipping.get(buffer_id) is asyncio.current_task():
                del self._shipping[buffer_id]

    async def _ship_pieces(self, buffer_id: GlobalId, copy: core.CopyNumber) -> None:
        block = self._memory.get(copy)
        if block is not None:
            for piece in block.pieces() if block.size_bytes else (b"",):
                await self._peer.send_spilled(buffer_id, piece, None)
            return
        file = self._files[copy]
        pieces = file.pieces()
        while True:
            try:
                async with asyncio.timeout(DISK_TIMEOUT_S):
                    piece = await asyncio.to_thread(next, pieces, b"")
            except (Broken, TimeoutError) as error:
                why = str(error) or f"its file did not answer within {DISK_TIMEOUT_S:g} s"
                sentence = f"buffer {buffer_id:#x} is lost: of its spilled bytes {why}"
                self._unreadable.add(buffer_id)
                await self._peer.send_spilled(buffer_id, b"", Failure(Reason.BUFFER_LOST, sentence))
                return
            if not piece:
                return
            await self._peer.send_spilled(buffer_id, piece, None)


def _about(message: Any) -> tuple[GlobalId, core.SpillNumber]:
    """Which buffer a command or an answer is about, and which command."""
    return GlobalId(message.buffer_id), core.SpillNumber(message.spill_number)
