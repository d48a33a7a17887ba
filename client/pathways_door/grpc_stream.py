"""A conversation over grpc.aio, which gives its messages one by one and to one reader."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc.aio
from pathways_common.rpc.conversation import Conversation


class GrpcStream:
    """A conversation over a servicer context or a call of grpc.aio, which have the same names."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self._woken = asyncio.Event()

    def answered(self, awaited: bool = True) -> None:
        """See Stream; gRPC sends each message by itself."""
        self._woken.set()

    async def converse(self, talk: Conversation) -> None:
        """See Stream."""
        writer = asyncio.get_running_loop().create_task(self._write(talk), name="stream-writer")
        try:
            while (raw := await self._call.read()) is not grpc.aio.EOF:
                talk.handle(raw)
                if talk.crowded:
                    await talk.room()
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def _write(self, talk: Conversation) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            while said := talk.take():
                for message in said:
                    await self._call.write(message)
