"""Calls that carry the bytes of one shard under a ticket: one that breaks is made again, its ticket is good until it was used.

Who takes a call says so at once (`HEARD`). A call that ends without that has only waited for a connection, however long: after a
few seconds of such tries the transfer is given up in a sentence, and not at the deadline of what is computed behind it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
import grpc.aio

from pathways_common.model.bounds import COME_BACK_PAUSE_MAX_NS, COME_BACK_PAUSE_NS, DATA_TRIES_NS
from pathways_common.model.failure import Failure, PathwaysError, Reason
from pathways_common.process.logs import fields

_LOG = logging.getLogger(__name__)
# In trailing metadata: the failure of the array, in the words of its host.
FAILURE_KEY = "pathways-failure-bin"
# In initial metadata, before anything is waited for: the other end has the call.
HEARD = (("pathways-heard", "1"),)
_BREAKS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED)
# Tries after a break that are told that the ticket is in use, or was used.
_TOLD_MAX = 3
Result = TypeVar("Result")


class Broken(PathwaysError):
    """The connection ended, and nobody said why: another try may help. `heard`: the other end had taken the call before."""

    def __init__(self, failure: Failure, heard: bool = True) -> None:
        super().__init__(failure)
        self.heard = heard


class Spent(Broken):
    """A call broke when its host had sent everything: the ticket is good no more."""


def breaks(error: grpc.aio.AioRpcError) -> bool:
    """Whether a call ended with its connection, and not by a word of the other end or because nobody is there any more."""
    told = any(key == FAILURE_KEY for key, _ in error.trailing_metadata() or ())
    return error.code() in _BREAKS and not told and "Connection refused" not in (error.details() or "")


def ended(error: grpc.aio.AioRpcError, failure: Failure) -> PathwaysError:
    """What a call that ended with `error` raises."""
    return Broken(failure, bool(error.initial_metadata())) if breaks(error) else PathwaysError(failure)


async def repeated(what: str, call: Callable[[float, bool], Awaitable[Result]], timeout_ns: int, host: str = "") -> Result:
    """What `call` gives, which is told how many seconds are left and if it is made again after a break, for a while each time.

    Raises what the first break was if no further try gets as far; says what is given up if connections carry nothing.
    """
    clock = asyncio.get_running_loop().time
    until_s, pause_s = clock() + timeout_ns / 1e9, COME_BACK_PAUSE_NS / 1e9
    tries_until_s = until_s
    silent_since_s, silent = clock(), False
    first: PathwaysError | None = None
    told = 0
    while True:
        began_s = clock()
        try:
            return await call(until_s - began_s, first is not None)
        except Broken as error:
            long = clock() - began_s > COME_BACK_PAUSE_MAX_NS / 1e9
            silent = not error.heard and (silent or long)  # while a channel has no connection, its calls end at once
            if error.heard:
                silent_since_s = clock()
            if first is None or (error.heard and long):  # it was there for a while: tries begin anew
                tries_until_s = min(until_s, clock() + DATA_TRIES_NS / 1e9)
            first = first or error
            if clock() + pause_s >= tries_until_s:
                if silent:
                    raise PathwaysError(_silence(what, host, clock() - silent_since_s)) from None
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


def _silence(what: str, host: str, seconds: float) -> Failure:
    sentence = (
        f"{what} was given up: no connection to it has carried anything for {seconds:.0f} s; look at the network, try again"
    )
    return Failure(Reason.TIMED_OUT, sentence, host=host, metadata={"what": what, "seconds": f"{seconds:.0f}"}, retryable=True)
