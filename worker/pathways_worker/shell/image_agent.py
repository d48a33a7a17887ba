"""Carries out what `core.images` decides: holds images and the Loads that wait for one, pulls images, serves them to others, and
writes and reads their files.

An image comes from an executor of this host, from a file that a worker of this cluster wrote, or from another host that the
controller named, and then only with the digest that the controller was told; one that came inside a command is not looked at.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, assert_never

from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.model.ids import GlobalId
from pathways_common.process.logs import fields
from pathways_common.process.tasks import Supervisor
from pathways_common.rpc.convert import failure_to_proto
from pathways_proto.v1 import workers_pb2

from pathways_worker.core import images as core
from pathways_worker.holdings import Held
from pathways_worker.shell.counters import Counters
from pathways_worker.shell.image_files import ImageFolder
from pathways_worker.shell.spill_files import Broken
from pathways_worker.shell.wire import COMMAND, Item

_LOG = logging.getLogger(__name__)

Pull = Callable[[str, str, int, int], Awaitable[list[bytes]]]


class _Image(NamedTuple):
    data: bytes
    digest: bytes


class Shelf(Protocol):
    """What serves bytes to other hosts under tickets."""

    def fetch_expected(self, fetch_id: int, ticket: str, timeout_ns: int) -> None:
        """A pull with this ticket may come."""

    def fetch_answered(self, fetch_id: int, failure: Failure | None, data: bytes) -> None:
        """This is what it gets."""


class ImageAgent:
    """The images of one host. Without a folder, no files.

    `send` hands a command that waited to the current executor, `tell` takes what the controller is to hear.
    """

    def __init__(
        self,
        counters: Counters,
        supervisor: Supervisor,
        shelf: Shelf,
        pull: Pull,
        send: Callable[[Item], None],
        tell: Callable[[workers_pb2.HostEvent], None],
        folder: ImageFolder | None,
    ) -> None:
        self._counters = counters
        self._supervisor = supervisor
        self._shelf = shelf
        self._pull = pull
        self._send = send
        self._tell = tell
        self._folder = folder
        # Of the current executor.
        self._compiler = ""
        self._core = core.Images(storing=folder is not None)
        self._images: dict[str, _Image] = {}
        self._loads: dict[GlobalId, workers_pb2.Load] = {}
        # What came with the event at hand.
        self._arrived: _Image | None = None

    def held(self) -> list[Held]:
        """Executables whose Load waits here. Images belong to nobody."""
        return [Held(workers_pb2.HELD_KIND_EXECUTABLE, self._core.waiting)]

    # ---- from the controller ----------------------------------------------------------------------------------------

    def on_load(self, load: workers_pb2.Load) -> list[Item]:
        """A Load; what of it goes on to the executor now: the Load, or nothing while it waits."""
        load.ClearField("image")
        identifier = GlobalId(load.executable_id)
        self._loads[identifier] = load
        ready: list[Item] = []
        key, compiler = load.image_key, self._compiler
        stored = self._folder is not None and bool(key) and bool(compiler) and self._folder.has(key, compiler)
        self._step(core.LoadWanted(identifier, key, load.HasField("source"), stored), ready.append)
        return ready

    def on_unload(self, command: workers_pb2.Unload) -> None:
        """An Unload, which also goes to the executor."""
        self._step(core.ExecutablesUnloaded(tuple(GlobalId(identifier) for identifier in command.executable_ids)))

    def on_offer(self, command: workers_pb2.OfferImage) -> None:
        """Another host will pull an image."""
        self._shelf.fetch_expected(command.fetch_id, command.ticket, command.timeout_ns)
        held = self._core.holds(command.image_key)
        failure = None if held else Failure(Reason.UNAVAILABLE, "the image of this executable is not kept here any more")
        self._shelf.fetch_answered(command.fetch_id, failure, self._images[command.image_key].data if held else b"")

    # ---- from the executor ------------------------------------------------------------------------------------------

    def on_ready(self, compiler: str) -> None:
        """The current executor has entered its epoch; this is the name of its compiler."""
        self._compiler = compiler

    def on_loaded(self, answer: workers_pb2.Loaded) -> None:
        """Takes the image out of the answer, and says instead that it is kept."""
        image = answer.image
        answer.ClearField("image")
        if not answer.HasField("failure"):
            self._counters.executables_compiled += not answer.reused
            self._counters.executables_reused += answer.reused
        load = self._loads.pop(GlobalId(answer.executable_id), None)
        self._arrived = _Image(image, hashlib.sha256(image).digest()) if image else None
        self._step(core.LoadAnswered(GlobalId(answer.executable_id), len(image), answer.reused))
        self._arrived = None
        if load is not None and self._core.holds(load.image_key):
            data, digest = self._images[load.image_key]
            answer.kept.CopyFrom(workers_pb2.KeptImage(size_bytes=len(data), digest=digest))

    def executor_changed(self) -> None:
        """Another executor, or none."""
        self._step(core.ExecutorChanged())
        self._loads.clear()

    def executor_died(self) -> None:
        """The one before ended by itself."""
        self._step(core.ExecutorDied())

    # ---- effects ----------------------------------------------------------------------------------------------------

    def _step(self, event: core.Event, forward: Callable[[Item], None] | None = None) -> None:
        for effect in self._core.step(event):
            match effect:
                case core.Forward(executable_id, key):
                    load = self._loads[executable_id]
                    command = workers_pb2.Load()
                    command.CopyFrom(load)
                    command.ClearField("source")
                    command.image = self._images[key].data if key else b""
                    (forward or self._send)(_item(command))
                case core.Pull(executable_id, key):
                    source = self._loads[executable_id].source
                    self._supervisor.spawn(f"pull image for {executable_id}", self._pull_image(key, source))
                case core.Read(key):
                    self._supervisor.spawn("read image", self._read_image(key, self._compiler))
                case core.Keep(key):
                    assert self._arrived is not None
                    self._images[key] = self._arrived
                case core.Store(key):
                    self._supervisor.spawn("write image", self._write_image(key, self._compiler, self._images[key].data))
                case core.Erase(key):
                    self._supervisor.spawn("erase image", self._erase_image(key, self._compiler))
                case core.Drop(key):
                    del self._images[key]
                case core.Discard(executable_id, unloaded):
                    load = self._loads.pop(executable_id)
                    if unloaded:
                        self._tell_unloaded(load)
                case _:
                    assert_never(effect)
        self._counters.images, self._counters.image_bytes = self._core.kept_count, self._core.kept_bytes

    async def _pull_image(self, key: str, source: workers_pb2.ImageSource) -> None:
        image, cause = None, ""
        try:
            data = b"".join(await self._pull(source.address, source.ticket, source.size_bytes, source.timeout_ns))
            self._counters.bytes_received += len(data)
            digest = (await asyncio.to_thread(hashlib.sha256, data)).digest()
            if digest == source.digest:
                image = _Image(data, digest)
            else:
                cause = "its bytes are not those that the host reported"
        except PathwaysError as error:
            cause = error.failure.message
        except Exception as error:  # a defect of ours must not take the daemon down with it
            _LOG.exception("pull failed", extra=fields(host=source.host))
            cause = str(error)
        if cause:
            _LOG.warning("no image from another host; the program is compiled here", extra=fields(host=source.host, cause=cause))
        self._arrived = image
        self._step(core.ImagePulled(key, 0 if image is None else len(image.data)))
        self._arrived = None

    def _tell_unloaded(self, load: workers_pb2.Load) -> None:
        """Every Load is answered, by the executor if it got there."""
        failure = Failure(Reason.CANCELLED, "the program was unloaded before it was loaded")
        loaded = workers_pb2.Loaded(executable_id=load.executable_id, epoch=load.epoch, failure=failure_to_proto(failure))
        self._tell(workers_pb2.HostEvent(loaded=loaded))

    # ---- files ------------------------------------------------------------------------------------------------------

    async def _read_image(self, key: str, compiler: str) -> None:
        image = None
        try:
            assert self._folder is not None
            data = await asyncio.to_thread(self._folder.read, key, compiler)
            image = _Image(data, hashlib.sha256(data).digest())
            self._counters.images_read += 1
        except Broken as error:
            _LOG.warning("no image from disk; the program is compiled here", extra=fields(cause=str(error)))
        self._arrived = image
        self._step(core.ImageRead(key, 0 if image is None else len(image.data)))
        self._arrived = None

    async def _write_image(self, key: str, compiler: str, data: bytes) -> None:
        if self._folder is not None and compiler:
            await self._on_disk("written", self._folder.write, key, compiler, data)

    async def _erase_image(self, key: str, compiler: str) -> None:
        if self._folder is not None and compiler:
            await self._on_disk("erased", self._folder.erase, key, compiler)

    async def _on_disk(self, done: str, what: Callable[..., None], *arguments: Any) -> None:
        """A disk that fails costs a compilation later, and a line in the log now."""
        try:
            await asyncio.to_thread(what, *arguments)
        except OSError as error:
            assert self._folder is not None
            sentence = f"an image was not {done}; choose another --image-dir, or --image-disk 0"
            _LOG.warning(sentence, extra=fields(folder=self._folder.path, cause=str(error)))


def _item(load: workers_pb2.Load) -> Item:
    return Item(COMMAND["load"], workers_pb2.HostCommand(load=load).SerializeToString())
