"""A slower link than this machine has, for benchmarks: what a host pulls from others arrives as if through a narrow, long one.

The link carries one transfer after the other at so many bytes a second; each then takes the delay on top. Switched on by
PATHWAYS_LINK_BYTES_PER_S and PATHWAYS_LINK_DELAY_NS in the daemon's environment; without them nothing is wrapped.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

BYTES_PER_S = "PATHWAYS_LINK_BYTES_PER_S"
DELAY_NS = "PATHWAYS_LINK_DELAY_NS"

Pull = Callable[[str, str, int, int], Awaitable[list[bytes]]]


class EmulatedLink:
    """When what is asked for now would have arrived."""

    def __init__(self, bytes_per_s: int, delay_ns: int) -> None:
        self._bytes_per_s = bytes_per_s  # 0: no limit
        self._delay_ns = delay_ns
        self._free_ns = 0

    def arrives_ns(self, now_ns: int, size_bytes: int) -> int:
        """Takes the link for that many bytes; the time at which the last of them is there."""
        begins_ns = max(now_ns, self._free_ns)
        self._free_ns = begins_ns + (size_bytes * 10**9 // self._bytes_per_s if self._bytes_per_s else 0)
        return self._free_ns + self._delay_ns


def through_link(pull: Pull, environment: Mapping[str, str]) -> Pull:
    """`pull` as it is, or through the link that the environment describes."""
    bytes_per_s, delay_ns = (int(environment.get(name) or 0) for name in (BYTES_PER_S, DELAY_NS))
    if not bytes_per_s and not delay_ns:
        return pull
    link = EmulatedLink(bytes_per_s, delay_ns)

    async def pull_slowly(address: str, ticket: str, size_bytes: int, timeout_ns: int) -> list[bytes]:
        arrives_ns = link.arrives_ns(time.monotonic_ns(), size_bytes)
        chunks = await pull(address, ticket, size_bytes, timeout_ns)
        # Not sooner than that; the real transfer may have taken longer.
        await asyncio.sleep(max(0, arrives_ns - time.monotonic_ns()) / 1e9)
        return chunks

    return pull_slowly
