"""The link of benchmarks: transfers one after the other at its bandwidth, each later by its delay."""

from __future__ import annotations

import asyncio
import time

from pathways_worker.rpc.emulated_link import EmulatedLink, through_link

MILLISECOND_NS = 10**6


def test_delay_is_added_to_each_transfer_and_bandwidth_is_shared() -> None:
    link = EmulatedLink(bytes_per_s=10**6, delay_ns=5 * MILLISECOND_NS)
    assert link.arrives_ns(0, 1000) == 6 * MILLISECOND_NS
    assert link.arrives_ns(0, 1000) == 7 * MILLISECOND_NS  # behind the first
    assert link.arrives_ns(10 * MILLISECOND_NS, 2000) == 17 * MILLISECOND_NS  # the link was free again


def test_link_without_a_bandwidth_only_delays() -> None:
    link = EmulatedLink(bytes_per_s=0, delay_ns=3)
    assert [link.arrives_ns(100, 10**9), link.arrives_ns(100, 10**9)] == [103, 103]


async def pull(address: str, ticket: str, size_bytes: int, timeout_ns: int) -> list[bytes]:
    return [bytes(size_bytes)]


def test_nothing_is_wrapped_unless_a_link_is_asked_for() -> None:
    assert through_link(pull, {}) is pull
    assert through_link(pull, {"PATHWAYS_LINK_DELAY_NS": "0"}) is pull


def test_bytes_pass_through_the_link_no_sooner_than_it_says() -> None:
    slowly = through_link(pull, {"PATHWAYS_LINK_BYTES_PER_S": "1000000", "PATHWAYS_LINK_DELAY_NS": "2000000"})
    began_ns = time.monotonic_ns()
    assert asyncio.run(slowly("here", "ticket", 3000, 10**9)) == [bytes(3000)]  # type: ignore[arg-type]
    assert time.monotonic_ns() - began_ns >= 5 * MILLISECOND_NS
