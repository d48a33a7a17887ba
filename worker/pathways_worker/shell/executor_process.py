"""One executor process behind its socket pairs: control, data, callbacks, segments. What is sent before it runs is kept.
It shares one page of memory with us, on which it keeps how far it has come, and writes its stacks to a pipe when it is signalled.

Frames are a 4-byte little-endian length and a message; on the data pair raw bytes follow the header. The process ends with the
daemon: its sockets close, and it asked the kernel to be killed with its parent. Its end is reported once, after its last words.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from google.protobuf.message import DecodeError
from pathways_common.model.failure import PathwaysError
from pathways_common.process.logs import fields
from pathways_common.process.spawn import Child, start_child
from pathways_proto.v1 import segments_pb2, workers_pb2

from pathways_worker.shell import out_of_memory
from pathways_worker.shell.output_log import OutputLog, Tail
from pathways_worker.shell.progress_page import Progress, ProgressPage, Signs
from pathways_worker.shell.report_pair import ReportPair
from pathways_worker.shell.segment_pair import SegmentPair
from pathways_worker.shell.stacks import Stacks

_LOG = logging.getLogger(__name__)
_LENGTH = struct.Struct("<I")
# How far a reader may run ahead of us before the socket pushes back.
_READ_AHEAD_BYTES = 4 << 20
# After its end the pipe of a process holds a few kilobytes at most, unless a grandchild keeps it open.
_LAST_WORDS_S = 1.0
_CHANNELS = ("control", "data", "callback")
# Those that carry commands and reports.
_REPORTING = ("control", "callback")


@dataclass(frozen=True, slots=True)
class Death:
    """How a process ended, and how far it had come."""

    exit_text: str
    tail: str = ""
    progress: Progress = field(default_factory=Progress)


class Owner(Protocol):
    """Who is told what an executor says. All calls come from the event loop."""

    def on_report(self, number: int, data: bytes) -> None:
        """An ExecutorReport, from the control or the callback pair."""

    def on_fetched(self, number: int, header: workers_pb2.ExecutorDataHeader, data: bytes) -> None:
        """The bytes or the failure of a fetch."""

    async def on_spilled(self, number: int, buffer_id: int, data: bytes) -> None:
        """The next bytes of a buffer that is spilled; nothing more is read of the data pair meanwhile."""

    def on_exit(self, number: int, death: Death) -> None:
        """The process is gone."""


class ExecutorProcess:
    """Starts with `run`, which returns when the process is gone."""

    def __init__(self, number: int, owner: Owner, log: OutputLog) -> None:
        self.number = number
        self.pid = 0
        self._owner = owner
        self._log = log
        self._process: Child | None = None
        self._page: ProgressPage | None = None
        self._stacks: Stacks | None = None
        self._segments: SegmentPair | None = None
        self._killed = False
        self._pairs: dict[str, ReportPair] = {}
        self._data: asyncio.StreamWriter | None = None
        self._kept: list[tuple[str, bytes]] = []
        self._connected = asyncio.Event()
        self._data_lock = asyncio.Lock()
        self._defect: BaseException | None = None

    def progress(self) -> Progress:
        """How far it has come, by itself, also if it is stopped."""
        return Progress() if self._page is None else self._page.read()

    async def ask_stacks(self, timeout_s: float) -> list[str]:
        """Its Python stacks, without its help; empty if it writes none in time. It has to keep stacks."""
        child, stacks = self._process, self._stacks
        if child is None or stacks is None:
            return []
        # It is reaped by this event loop, so until it is seen to have ended its pid is its own.
        return await stacks.ask(child.pid, lambda: not child.ended, timeout_s)

    def send_commands(self, payload: bytes) -> None:
        """Sends serialized ExecutorCommands on the control pair; what a dead process misses, nobody misses."""
        self._send("control", payload)

    def send_callback(self, payload: bytes) -> None:
        """Sends serialized ExecutorCommands on the callback pair."""
        self._send("callback", payload)

    def _send(self, channel: str, payload: bytes) -> None:
        pair = self._pairs.get(channel)
        if pair is None:
            self._kept.append((channel, payload))
        else:
            pair.send(payload)

    def use_segment(self, order: segments_pb2.SegmentUse, descriptor: int = -1) -> None:
        """Hands over shared memory of a client, or says what becomes of a shard that is held."""
        if self._segments is not None:
            self._segments.send(order, descriptor)

    async def send_transfer(self, transfer_id: int, chunks: Sequence[bytes]) -> None:
        """Sends the bytes of a transfer, chunk by chunk as the executor takes them; raises OSError if it is gone."""
        await self._send_data(workers_pb2.ExecutorDataHeader(transfer_id=transfer_id, size_bytes=sum(map(len, chunks))), chunks)

    async def send_spilled(self, buffer_id: int, data: bytes) -> None:
        """Sends the next bytes of a buffer that is restored; raises OSError if the executor is gone."""
        await self._send_data(workers_pb2.ExecutorDataHeader(buffer_id=buffer_id, size_bytes=len(data)), (data,))

    async def send_failure(self, header: workers_pb2.ExecutorDataHeader) -> None:
        """Says in place of bytes why there are none; raises OSError if the executor is gone."""
        await self._send_data(header, ())

    async def _send_data(self, header: workers_pb2.ExecutorDataHeader, chunks: Sequence[bytes]) -> None:
        message = header.SerializeToString()
        async with self._data_lock:
            writer = await self._data_writer()
            writer.write(_LENGTH.pack(len(message)) + message)
            for chunk in chunks or (b"",):
                if writer.is_closing():
                    raise ConnectionResetError("the executor is gone")
                writer.write(chunk)
                await writer.drain()

    async def _data_writer(self) -> asyncio.StreamWriter:
        await self._connected.wait()
        if self._data is None or self._data.is_closing():
            raise ConnectionResetError("the executor is gone")
        return self._data

    def look(self) -> Signs | None:
        """How far it is, without its help; None if it does not run."""
        return None if self._page is None or not self.pid else self._page.look()

    def kill(self) -> None:
        """Ends the process now, or keeps it from starting."""
        self._killed = True
        self._connected.set()
        if self._process is not None:
            self._process.kill()

    async def run(self, command: Sequence[str], device_count: int, environment: Mapping[str, str]) -> None:
        """The life of the process; `on_exit` is the last call to the owner."""
        if self._killed:
            self._owner.on_exit(self.number, Death("never started"))
            return
        tail, progress = Tail(), Progress()
        try:
            exit_text = await self._live(command, device_count, environment, tail)
        except OSError as error:
            _LOG.error("executor not started", extra=fields(number=self.number, cause=error.strerror))
            exit_text = f"it could not be started ({error.strerror})"
        finally:
            self.kill()
            for pair in self._pairs.values():
                pair.close()
            if self._data is not None:
                self._data.close()
            if self._page is not None:
                page, self._page = self._page, None
                progress = page.take()
            if self._stacks is not None:
                self._stacks.close()
            if self._segments is not None:
                self._segments.close()
        self._owner.on_exit(self.number, Death(exit_text, tail.text(), progress))

    async def _live(self, command: Sequence[str], device_count: int, environment: Mapping[str, str], tail: Tail) -> str:
        page = self._page = ProgressPage()
        stacks = self._stacks = Stacks()
        segments = self._segments = SegmentPair()
        starved = out_of_memory.kills()
        pairs = {name: socket.socketpair() for name in _CHANNELS}
        theirs = {name: pair[1].fileno() for name, pair in pairs.items()}
        arguments = [word for name in _CHANNELS for word in (f"--{name}-fd", str(theirs[name]))]
        arguments += ["--progress-fd", str(page.descriptor), "--stacks-fd", str(stacks.descriptor)]
        arguments += ["--segment-fd", str(segments.theirs.fileno()), "--device-count", str(device_count)]
        inherited = (*theirs.values(), page.descriptor, stacks.descriptor, segments.theirs.fileno())
        try:
            self._process = await start_child([*command, *arguments], environment, inherited)
        except BaseException:
            for pair in pairs.values():
                pair[0].close()
            raise
        finally:
            page.handed_over()
            stacks.handed_over()
            segments.handed_over()
            for pair in pairs.values():
                pair[1].close()
        self.pid = self._process.pid
        if self._killed:
            self.kill()
        tasks = [asyncio.create_task(self._log.copy(self._process.output, tail), name="executor output")]
        tasks += await self._connect({name: pair[0] for name, pair in pairs.items()})
        try:
            code = await self._process.wait()
            await asyncio.wait(tasks[:1], timeout=_LAST_WORDS_S)
        finally:
            for task in tasks:
                task.cancel()
        if self._defect is not None:
            raise self._defect
        if code == -signal.SIGKILL and out_of_memory.kills() > starved:
            return f"signal {-code} (out of memory)"
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    async def _connect(self, sockets: Mapping[str, socket.socket]) -> list[asyncio.Task[None]]:
        loop = asyncio.get_running_loop()
        pairs = {name: ReportPair(partial(self._owner.on_report, self.number), self._on_wrong) for name in _REPORTING}
        reader, self._data = await asyncio.open_connection(sock=sockets["data"], limit=_READ_AHEAD_BYTES)
        for name, pair in pairs.items():
            await loop.create_connection(partial(_itself, pair), sock=sockets[name])
        # All at once, or what is sent meanwhile would overtake what was kept.
        self._pairs = pairs
        for name, payload in self._kept:
            self._send(name, payload)
        self._kept.clear()
        self._connected.set()
        reading = asyncio.create_task(self._read_data(reader), name="executor data")
        reading.add_done_callback(self._on_reader_done)
        return [asyncio.create_task(self._end_behind(pairs["control"]), name="executor control"), reading]

    def _on_reader_done(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._on_wrong(error)

    def _on_wrong(self, error: BaseException) -> None:
        """An executor that speaks nonsense is ended; a defect of ours ends the daemon, with this executor first."""
        if isinstance(error, PathwaysError | DecodeError):
            _LOG.error("executor speaks nonsense", extra=fields(number=self.number, cause=str(error)))
        else:
            self._defect = error
        self.kill()

    async def _end_behind(self, control: ReportPair) -> None:
        """Without its control pair it can do nothing; usually it has ended anyway."""
        await control.over.wait()
        await asyncio.sleep(_LAST_WORDS_S)
        self.kill()

    async def _read_data(self, reader: asyncio.StreamReader) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(4))
                header = workers_pb2.ExecutorDataHeader.FromString(await reader.readexactly(length))
                data = await reader.readexactly(header.size_bytes) if header.size_bytes else b""
                if header.buffer_id:
                    await self._owner.on_spilled(self.number, header.buffer_id, data)
                else:
                    self._owner.on_fetched(self.number, header, data)


def _itself(pair: ReportPair) -> ReportPair:
    """Of a connection that is there already."""
    return pair
