"""What a gRPC stream of Python carries between two processes of this machine: the floor of everything that is sent over one.

A JSON command per line, {"what": "up" | "down", "size": BYTES, "count": N, ...}, an answer with the seconds of each turn.
`server`: the other end.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio
import uvloop
from pathways_common.model.bounds import CHUNK_BYTES
from pathways_common.rpc.channels import open_channel, server_options


def _bytes(data: bytes) -> bytes:
    return data


async def _up(chunks: AsyncIterator[bytes], _context: Any) -> bytes:
    count = 0
    async for chunk in chunks:
        count += len(chunk)
    return str(count).encode()


async def _down(request: bytes, _context: Any) -> AsyncIterator[bytes]:
    chunk = bytes(CHUNK_BYTES)
    for _ in range(int(request) // CHUNK_BYTES):
        yield chunk


async def serve() -> None:
    server = grpc.aio.server(options=server_options())
    methods = {"Up": grpc.stream_unary_rpc_method_handler(_up), "Down": grpc.unary_stream_rpc_method_handler(_down)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("floor", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(0)


async def measure(port: str) -> None:
    channel = open_channel(f"127.0.0.1:{port}")
    up, down = channel.stream_unary("/floor/Up"), channel.unary_stream("/floor/Down")
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        data, size, times_s, right = memoryview(bytearray(command["size"])), command["size"], [], 0

        async def chunks(data: memoryview = data) -> AsyncIterator[bytes]:
            for first in range(0, len(data), CHUNK_BYTES):
                yield bytes(data[first : first + CHUNK_BYTES])

        for _ in range(command["count"]):
            began_s = time.perf_counter()
            if command["what"] == "up":
                right += int(await up(chunks())) == size
            else:
                at = 0
                async for chunk in down(str(size).encode()):
                    data[at : at + len(chunk)] = chunk
                    at += len(chunk)
                right += at == size
            times_s.append(time.perf_counter() - began_s)
        print(json.dumps({"times_s": times_s, "seconds": sum(times_s), "value": right}), flush=True)
    await channel.close()


def main() -> None:
    if sys.argv[1:] == ["server"]:
        uvloop.run(serve())
        return
    command = [sys.executable, __file__, "server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        print(json.dumps({"port": port}), flush=True)
        uvloop.run(measure(port))
        server.stdin.close()


if __name__ == "__main__":
    main()
