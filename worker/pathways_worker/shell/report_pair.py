"""One of an executor's socket pairs for reports and commands: a report is heard in the read that brings it.

Frames are a 4-byte little-endian length and a message. No task stands between the socket and who hears the reports: on a machine
that was idle, waking one costs more than what it does.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import cast

from pathways_common.rpc.framed import FrameCutter

_LENGTH = struct.Struct("<I")
# An executor may send whatever a length can say.
_BYTES_MAX = (1 << 32) - 1


class ReportPair(asyncio.Protocol):
    """`hear` takes each report, `wrong` what the first of them raised, behind which nothing more is heard."""

    def __init__(self, hear: Callable[[bytes], None], wrong: Callable[[Exception], None]) -> None:
        self._hear = hear
        self._wrong = wrong
        self._cutter = FrameCutter(_BYTES_MAX)
        self._transport: asyncio.WriteTransport | None = None
        self._deaf = False
        # Set when the executor has closed its end.
        self.over = asyncio.Event()

    def send(self, payload: bytes) -> None:
        """Sends a message; what a dead process misses, nobody misses."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(_LENGTH.pack(len(payload)) + payload)

    def close(self) -> None:
        """Nothing more is heard or sent."""
        self._deaf = True
        if self._transport is not None:
            self._transport.close()

    # ---- what asyncio calls -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The pair is there."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        try:
            whole = self._cutter.whole(data)
            for report in self._cutter.cut(data) if whole is None else (whole,):
                if self._deaf:
                    return
                self._hear(report)
        except Exception as error:
            self._deaf = True
            self._wrong(error)

    def connection_lost(self, _error: Exception | None) -> None:
        """The executor has closed its end, or we ours."""
        self._transport = None
        self.over.set()
