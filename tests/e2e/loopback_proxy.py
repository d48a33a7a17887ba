"""A proxy on another loopback address, on the same ports: it drops, stalls or slows down what goes through it, or is far away."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.cluster import wait_until

_LINGER_NOT = struct.pack("ii", 1, 0)  # to close is to reset
_CHUNK_BYTES = 1 << 16
# Pieces of one direction that are on their way.
_UNDER_WAY_MAX = 4096


class LoopbackProxy:
    """Passes connections to `host`:PORT on to 127.0.0.1:PORT. Made by `proxied`; methods may be called from any thread."""

    def __init__(self, host: str, ports: Sequence[int]) -> None:
        self.host = host
        self.connections = 0
        self.passed_bytes = 0
        self._ports = tuple(ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self._delay_s = self._way_s = 0.0
        self._refuses = False

    def start(self) -> None:
        self._thread.start()
        self._do(self._listen())

    def stop(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def open(self) -> int:
        """How many connections pass in both directions now."""
        return len(self._passing)

    def drop(self, refuse: bool = False) -> int:
        """Resets every connection; how many there were. `refuse`: also those that come, until `mend`."""
        return self._do(self._drop(refuse))

    def stall(self) -> None:
        """No byte passes any more, and nobody hears of an end, until `mend`."""
        self._call(self._flows.clear)

    def slow(self, delay_s: float) -> None:
        """Every piece of data takes so much longer, until `mend`."""
        self._delay_s = delay_s

    def away(self, way_s: float) -> None:
        """Whatever is sent from now on arrives so much later, as over a long way, until `mend`."""
        self._way_s = way_s

    def mend(self) -> None:
        """Everything passes at once again, behind what is on its way; what was stalled goes on."""
        self._delay_s, self._way_s, self._refuses = 0.0, 0.0, False
        self._call(self._flows.set)

    def _call(self, action: Callable[[], object]) -> None:
        async def run() -> None:
            action()

        self._do(run())

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _listen(self) -> None:
        self._servers = [await asyncio.start_server(self._on_connection, self.host, port) for port in self._ports]

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        await self._drop(refuse=True)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _drop(self, refuse: bool) -> int:
        self._refuses = refuse
        writers, self._writers = self._writers, set()
        self._passing.clear()
        for writer in writers:
            _reset(writer)
        return len(writers) // 2

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            _reset(writer)
            return
        port = writer.get_extra_info("sockname")[1]
        onward_reader, onward = await asyncio.open_connection("127.0.0.1", port)
        if self._refuses:  # since then
            _reset(writer)
            _reset(onward)
            return
        self.connections += 1
        self._writers |= {writer, onward}
        self._passing.add(writer)
        for source, sink, other in ((reader, onward, writer), (onward_reader, writer, onward)):
            task = self._loop.create_task(self._pass(source, sink, other))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            task.add_done_callback(lambda _, writer=writer: self._passing.discard(writer))  # type: ignore[misc]

    async def _pass(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, other: asyncio.StreamWriter) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY_MAX)
        delivering = self._loop.create_task(self._deliver(under_way, sink, other))
        try:
            data = b"more"
            while data:
                data = await source.read(_CHUNK_BYTES)
                await self._flows.wait()
                if data and self._delay_s:
                    await asyncio.sleep(self._delay_s)
                await under_way.put((self._loop.time() + self._way_s, data))
            await delivering
        except OSError:
            await self._give_up(sink, other)
        finally:
            delivering.cancel()

    async def _deliver(
        self, under_way: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter, other: asyncio.StreamWriter
    ) -> None:
        """An empty piece is the end."""
        data = b"more"
        try:
            while data:
                due_s, data = await under_way.get()
                if due_s > self._loop.time():
                    await asyncio.sleep(due_s - self._loop.time())
                if data:
                    sink.write(data)
                    self.passed_bytes += len(data)
                    await sink.drain()
                else:
                    sink.write_eof()
        except OSError:
            await self._give_up(sink, other)

    async def _give_up(self, *ends: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        for writer in ends:
            self._writers.discard(writer)
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    carrier = writer.get_extra_info("socket")
    if carrier is not None and carrier.fileno() >= 0:
        carrier.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    writer.transport.abort()


@contextmanager
def proxied(host: str, *ports: int) -> Iterator[LoopbackProxy]:
    """A running proxy, for example on 127.0.0.2."""
    proxy = LoopbackProxy(host, ports)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()


def dropped(proxy: LoopbackProxy, count: int = 1) -> None:
    """Breaks the connections once there are so many: since the last break they may still be on their way."""
    wait_until(lambda: proxy.open >= count, f"{count} connections through the proxy")
    assert proxy.drop() >= count
