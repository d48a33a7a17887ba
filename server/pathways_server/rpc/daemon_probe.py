"""Whether a daemon whose connection broke is gone: then nothing listens where it served data, and its machine says so at once.

A link that was dropped, a machine that is gone and a daemon that is stopped look alike from here: none of them refuses.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

_TIMEOUT_S = 1.0


async def refuses(address: str) -> bool:
    """Whether a connection to `HOST:PORT` is refused. False if it is taken, or if nothing says anything."""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):  # a TimeoutError is one
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return False
