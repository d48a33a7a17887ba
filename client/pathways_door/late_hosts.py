"""A wait that ends because a host was late names every host that is late, and no other.

Hosts that were asked together are late together, and a wait ends with the first of which that is told. So each of its values is
asked about once more, alone: hosts that are as late have said so in a moment, those that may still answer in time say nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from pathways_common.model.colocated import LATE
from pathways_common.model.failure import Failure, Reason
from pathways_proto.v1 import sessions_pb2

from pathways_door.context import Context
from pathways_door.handles import Value

# Between the first and the last host that says so: they began together, and deadlines are promised to a second.
GRACE_S = 0.5
# A wait for more values than this names those of the first so many.
_ASKED_MAX = 256


def is_late(failure: Failure) -> bool:
    """Whether a host did not do in time what others may have been asked as well."""
    return failure.reason is Reason.TIMED_OUT and LATE in failure.metadata and bool(failure.host)


def name_late_hosts(context: Context, values: Sequence[Value], first: Failure, done: Callable[[Failure], None]) -> None:
    """Calls `done` once with `first` and the names of all hosts that are as late. The values must be held until then."""
    late = {first.host: None}
    asked = [value.value_id for value in values[:_ASKED_MAX]]
    left, upstream = len(asked), context.upstream
    over = False

    def end() -> None:
        nonlocal over
        if not over:
            over = True
            done(_joined(first, list(late)))

    def told(_answer: Any, failure: Failure | None) -> None:
        nonlocal left
        left -= 1
        if failure is not None and is_late(failure):
            late[failure.host] = None
        if not left:
            end()

    async def end_after_grace() -> None:
        await asyncio.sleep(GRACE_S)
        end()

    context.spawn("late hosts", end_after_grace())
    for value_id in asked:
        number = upstream.pending.number("ready")
        wait = sessions_pb2.Wait(wait_id=number, views=[value_id])
        upstream.ask("ready", number, sessions_pb2.ClientOperation(wait=wait), told)


def _joined(first: Failure, hosts: Sequence[str]) -> Failure:
    others = sorted(host for host in hosts if host != first.host)
    if not others:
        return first
    more = f"; late in the same way: host{'s' if len(others) > 1 else ''} {', '.join(others)}"
    metadata = MappingProxyType({**first.metadata, "hosts": ",".join(sorted(hosts))})
    return replace(first, message=first.message + more, metadata=metadata)
