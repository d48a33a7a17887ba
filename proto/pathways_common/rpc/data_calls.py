"""Calls that carry the bytes of one shard under a ticket: one that breaks is made again, its ticket is good until it was used."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
import grpc.aio

from pathways_common.model.bounds import COME_BACK_PAUSE_MAX_NS, COME_BACK_PAUSE_NS, DATA_TRIES_NS
from pathways_common.model.failure import PathwaysError
from pathways_common.process.logs import fields

_LOG = logging.getLogger(__name__)
# In trailing metadata: the failure of the array, in the words of its host.
FAILURE_KEY = "pathways-failure-bin"
_BREAKS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED)
# Tries after a break that are told that the ticket is in use, or was used.
_TOLD_MAX = 3
Result = TypeVar("Result")


class Broken(PathwaysError):
    """The connection ended, and nobody said why: another try may help."""


class Spent(Broken):
    """A call broke when its host had sent everything: the ticket is good no more."""


def breaks(error: grpc.aio.AioRpcError) -> bool:
    """Whether a call ended with its connection, and not by a word of the other end or because nobody is there any more."""
    told = any(key == FAILURE_KEY for key, _ in error.trailing_metadata() or ())
    return error.code() in _BREAKS and not told and "Connection refused" not in (error.details() or "")


async def repeated(what: str, call: Callable[[float, bool], Awaitable[Result]], timeout_ns: int) -> Result:
    """What `call` gives, which is told how many seconds are left and if it is made again after a break, for a while each time.

    Raises what the first break was if no further try gets as far.
    """
    clock = asyncio.get_running_loop().time
    until_s, pause_s = clock() + timeout_ns / 1e9, COME_BACK_PAUSE_NS / 1e9
    tries_until_s = until_s
    first: PathwaysError | None = None
    told = 0
    while True:
        began_s = clock()
        try:
            return await call(until_s - began_s, first is not None)
        except Broken as error:
            if first is None or clock() - began_s > COME_BACK_PAUSE_MAX_NS / 1e9:  # it was there: tries begin anew
                tries_until_s = min(until_s, clock() + DATA_TRIES_NS / 1e9)
            first = first or error
            if clock() + pause_s >= tries_until_s:
                raise first from None
            _LOG.info("transfer broke; trying again", extra=fields(what=what, cause=error.failure.message))
        except PathwaysError:
            # After a break the other end may not know yet that the call before is gone.
            told += 1
            if first is not None and told > _TOLD_MAX:
                raise Spent(first.failure) from None
            if first is None:
                raise
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, COME_BACK_PAUSE_MAX_NS / 1e9)
