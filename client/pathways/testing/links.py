"""Links through a loopback proxy, to be slow, to hang, to break, or to deliver out of order.

A link stands between one dialler (a host, or the client) and the controller. It has an address of its own in 127/8 and listens
there on the controller's ports, so that a dialler which is told another port of the same machine stays on the link.
"""

from __future__ import annotations

import asyncio
import random
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

_CHUNK_BYTES = 1 << 16
_LENGTH = struct.Struct("<I")
_TRIES = 50
# A frame that waits for the next one to change places with goes alone after this, so that nothing hangs.
_SWAP_WAIT_S = 1.0
_START_S = 10.0
# Chunks that are under way on a slow link.
_UNDER_WAY_MAX = 4096


class Links:
    """All links of one cluster, served by a thread of their own until `close`."""

    def __init__(self) -> None:
        self._running = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._running.run_forever, name="pathways links", daemon=True)
        self._thread.start()
        self._links: list[Link] = []

    def open(self, target: str, ports: list[int], framed_port: int) -> Link:
        """A link to a machine's ports; on `framed_port` frames are told apart, so that they can be swapped."""
        link = Link(target, framed_port, self._call)
        self._call(link.listen(ports))
        self._links.append(link)
        return link

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._running).result(_START_S)

    def close(self) -> None:
        """Ends all links."""
        for link in self._links:
            with suppress(OSError, TimeoutError):
                self._call(link.end())
        self._running.call_soon_threadsafe(self._running.stop)
        self._thread.join(_START_S)


class Link:
    """One link. Its methods are for other threads; what they set holds for connections that are there and those that come."""

    def __init__(self, target: str, framed_port: int, call: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self.host = ""
        self.swapped = 0
        self._target = target
        self._framed_port = framed_port
        self._call = call
        self._servers: list[asyncio.Server] = []
        self._transports: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._delay_s = 0.0
        self._open = asyncio.Event()
        self._open.set()
        self._dropping = False
        self._swaps = 0

    async def listen(self, ports: list[int]) -> None:
        """Takes a free address of this machine; raises OSError if none is to be had."""
        for _ in range(_TRIES):
            host = f"127.{random.randint(16, 254)}.{random.randint(0, 254)}.{random.randint(2, 254)}"
            try:
                for port in ports:
                    self._servers.append(await asyncio.start_server(self._accept(port), host, port))
            except OSError:
                await self._close_servers()
                continue
            self.host = host
            return
        raise OSError("no address in 127/8 is free for a link")

    # ---- faults -----------------------------------------------------------------------------------------------------

    def set_delay(self, seconds: float) -> None:
        """Bytes take so long in each direction, from now on."""
        self._call(self._do(lambda: setattr(self, "_delay_s", seconds)))

    def hold(self, held: bool) -> None:
        """Nothing gets through, and no connection ends, until it is let go."""
        self._call(self._do(self._open.clear if held else self._open.set))

    def drop(self, dropping: bool) -> None:
        """Breaks all connections, and new ones, until it is ended."""
        self._call(self._drop(dropping))

    def swap(self, count: int) -> None:
        """So many times a frame to the dialler changes places with the next one."""
        self._call(self._do(lambda: setattr(self, "_swaps", self._swaps + count)))

    async def _do(self, what: Callable[[], object]) -> None:
        what()

    async def _drop(self, dropping: bool) -> None:
        self._dropping = dropping
        for writer in list(self._transports):
            writer.transport.abort()

    async def end(self) -> None:
        """Closes everything."""
        await self._close_servers()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _close_servers(self) -> None:
        for server in self._servers:
            server.close()
        self._servers.clear()

    # ---- connections ------------------------------------------------------------------------------------------------

    def _accept(self, port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]:
        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(self._serve(port, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        return accepted

    async def _serve(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._dropping:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(self._target, port)
        except OSError:
            writer.transport.abort()
            return
        ends = (writer, far_writer)
        self._transports.update(ends)
        down = self._frames if port == self._framed_port else self._chunks
        pumps = [
            asyncio.ensure_future(self._pump(reader, far_writer, self._chunks)),
            asyncio.ensure_future(self._pump(far_reader, writer, down)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self._transports.difference_update(ends)
            for end in ends:
                if self._dropping:
                    end.transport.abort()
                else:
                    end.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, take: Any) -> None:
        """One direction: every piece leaves as long after it came as the link is slow, in order."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDER_WAY_MAX)
        clock = asyncio.get_running_loop().time

        async def deliver() -> None:
            while True:
                came_s, data = await under_way.get()
                while (left_s := came_s + self._delay_s - clock()) > 0:
                    await asyncio.sleep(min(left_s, 0.05))
                await self._open.wait()
                writer.write(data)
                await writer.drain()
                under_way.task_done()

        working: set[asyncio.Future[None]] = {asyncio.ensure_future(deliver())}
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await take(reader, lambda data: under_way.put((clock(), data)))
                working.add(asyncio.ensure_future(under_way.join()))
                await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in working:
                task.cancel()

    async def _chunks(self, reader: asyncio.StreamReader, put: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await put(data)

    async def _frames(self, reader: asyncio.StreamReader, put: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        """The same frame by frame; an empty one is a sign of life and changes places with nothing."""
        held: deque[bytes] = deque()
        reading: asyncio.Task[bytes] | None = None
        try:
            while True:
                reading = reading or asyncio.ensure_future(self._frame(reader))
                done, _ = await asyncio.wait({reading}, timeout=_SWAP_WAIT_S if held else None)
                if not done:
                    await put(held.popleft())  # nothing came to change places with
                    self._swaps += 1
                    continue
                data, reading = reading.result(), None
                if held and len(data) > _LENGTH.size:
                    await put(data)
                    await put(held.popleft())
                    self.swapped += 1
                elif self._swaps and len(data) > _LENGTH.size:
                    self._swaps -= 1
                    held.append(data)
                else:
                    await put(data)
        finally:
            if reading is not None:
                reading.cancel()

    async def _frame(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readexactly(_LENGTH.size)
        return head + await reader.readexactly(_LENGTH.unpack(head)[0])
