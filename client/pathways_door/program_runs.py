"""Calls of traced programs: feeds park arguments, the run that follows takes them by its launch id and sends one RunProgram.

Parked arguments are held, so the client may let go of them at once. Whatever is wrong with a call is kept under its results;
its feeds end with it. A feed whose run never comes is dropped after a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from pathways_common.model.bounds import FEED_TIMEOUT_NS, FEEDS_MAX
from pathways_common.model.failure import Failure, Reason
from pathways_common.process.logs import fields
from pathways_proto.v1 import sessions_pb2

from pathways_door.handles import DELETED, ArrayTable, Form, Value
from pathways_door.plugin_texts import Group
from pathways_door.upstream import Upstream

_LOG = logging.getLogger(__name__)
_Spawn = Callable[[str, Coroutine[Any, Any, None]], object]


class RunnableProgram:
    """A program that the controller has taken: its id upstream, how its arguments come, and the forms of its results."""

    __slots__ = ("argument_count", "donated", "fed", "forms", "groups", "name", "program_id", "size_bytes")

    def __init__(
        self, program_id: int, name: str, groups: tuple[Group, ...], donated: tuple[int, ...], forms: tuple[Form, ...]
    ) -> None:
        self.program_id = program_id
        self.name = name
        self.groups = groups
        self.donated = donated
        self.forms = forms
        self.fed = tuple(group.shard_count for group in groups[1:])
        self.argument_count = sum(len(group.arguments) for group in groups)
        self.size_bytes = tuple(form.shard_bytes * len(form.placement.devices) for form in forms)


class Feed:
    """The arguments of one group of one call, held; or why there are none."""

    __slots__ = ("failure", "parked_ns", "values")

    def __init__(self, values: list[Value], failure: Failure | None, parked_ns: int) -> None:
        self.values = values
        self.failure = failure
        self.parked_ns = parked_ns


class Feeds:
    """Feeds of one session whose run has not come yet, oldest first, by launch id and shard count."""

    def __init__(self, arrays: ArrayTable, spawn: _Spawn) -> None:
        self._arrays = arrays
        self._spawn = spawn
        self._parked: dict[tuple[int, int], Feed] = {}
        self._sweeping = False

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, launch_id: int, shard_count: int, handles: Sequence[int]) -> None:
        """Holds these arrays for the run with this launch id."""
        key = launch_id, shard_count
        earlier = self._parked.get(key)
        if earlier is not None:
            # Which of the two is meant cannot be said, so the run gets neither.
            self._arrays.let_go(earlier.values)
            earlier.values = []
            sentence = f"two calls sent {shard_count}-shard arguments with launch id {launch_id}; give every call its own"
            earlier.failure = Failure(Reason.INVALID_ARGUMENT, sentence)
            return
        arrays = self._arrays
        values: list[Value] = []
        failure = None
        for handle in handles:
            record = arrays.get(handle)
            failure = record.problem()
            if failure is not None:
                arrays.let_go(values)
                values = []
                break
            values.append(arrays.hold(record))
        self._parked[key] = Feed(values, failure, _now_ns())
        if len(self._parked) > FEEDS_MAX:
            self._drop(next(iter(self._parked)))
        if not self._sweeping:
            self._sweeping = True
            self._spawn("parked-feeds", self._sweep())

    def take(self, launch_id: int, shard_counts: Sequence[int]) -> list[Feed | None]:
        """The feeds of a run; the caller lets go of their values."""
        return [self._parked.pop((launch_id, shard_count), None) for shard_count in shard_counts]

    def _drop(self, key: tuple[int, int]) -> None:
        self._arrays.let_go(self._parked.pop(key).values)

    async def _sweep(self) -> None:
        try:
            while self._parked:
                rest_ns = next(iter(self._parked.values())).parked_ns + FEED_TIMEOUT_NS - _now_ns()
                # In steps of a tenth of the time limit at least, so that feeds that come and go cost nothing.
                await asyncio.sleep(max(rest_ns, FEED_TIMEOUT_NS // 10) / 1e9)
                self._drop_older(_now_ns() - FEED_TIMEOUT_NS)
        finally:
            self._sweeping = False

    def _drop_older(self, limit_ns: int) -> None:
        late = []
        for key, feed in self._parked.items():
            if feed.parked_ns > limit_ns:
                break
            late.append(key)
        for key in late:
            self._drop(key)
        if late:
            _LOG.info("feeds without a run dropped", extra=fields(count=len(late), first_launch_id=late[0][0]))


class Runs:
    """Sends the runs of one session."""

    def __init__(self, arrays: ArrayTable, upstream: Upstream, feeds: Feeds) -> None:
        self._arrays = arrays
        self._upstream = upstream
        self._feeds = feeds

    def run(self, program: RunnableProgram, launch_id: int, own: Sequence[int], handles: Sequence[int]) -> None:
        """Sends one run with the arrays `own` for the first group, and registers its results under `handles`."""
        feeds = self._feeds.take(launch_id, program.fed) if program.fed else ()
        arguments: list[Value | None] = [None] * program.argument_count
        try:
            failure = self._own(program.groups[0], own, arguments) or self._fed(program, launch_id, feeds, arguments)
            if failure is None:
                self._send(program, launch_id, arguments, handles)
                return
        finally:
            for feed in feeds:
                if feed is not None:
                    self._arrays.let_go(feed.values)
        self.poison(program, handles, failure)

    def poison(self, program: RunnableProgram, handles: Sequence[int], failure: Failure) -> None:
        """Keeps a failure under every result of a call."""
        for handle, form in zip(handles, program.forms, strict=True):
            self._arrays.poison(handle, failure, form)

    def drop_feeds(self, program: RunnableProgram, launch_id: int) -> None:
        """Ends the feeds of a call that cannot be sent."""
        for feed in self._feeds.take(launch_id, program.fed):
            if feed is not None:
                self._arrays.let_go(feed.values)

    def _own(self, group: Group, handles: Sequence[int], arguments: list[Value | None]) -> Failure | None:
        if len(handles) != len(group.arguments):
            return _miscounted(group, len(handles))
        arrays = self._arrays
        for position, handle in zip(group.arguments, handles, strict=True):
            record = arrays.get(handle)
            failure = record.problem()
            if failure is not None:
                return failure
            arrays.view_of(record)
            arguments[position] = record.ranges[0][0]
        return None

    def _fed(
        self, program: RunnableProgram, launch_id: int, feeds: Sequence[Feed | None], arguments: list[Value | None]
    ) -> Failure | None:
        for group, feed in zip(program.groups[1:], feeds, strict=True):
            if feed is None:
                return _missing(program, group, launch_id)
            if feed.failure is not None:
                return feed.failure
            if len(feed.values) != len(group.arguments):
                return _miscounted(group, len(feed.values))
            for position, value in zip(group.arguments, feed.values, strict=True):
                if value.deleted:
                    return DELETED
                arguments[position] = value
        return None

    def _send(self, program: RunnableProgram, launch_id: int, arguments: Sequence[Value | None], handles: Sequence[int]) -> None:
        run_id = self._upstream.new_ids(1 + len(program.forms))
        run = sessions_pb2.RunProgram(
            run_id=run_id,
            program_id=program.program_id,
            arguments=[value.value_id for value in arguments if value is not None],
            first_result_id=run_id + 1,
            donated=program.donated,
            launch_id=launch_id,
        )
        self._upstream.push(sessions_pb2.ClientOperation(run_program=run))
        donated = [arguments[position] for position in program.donated]
        self._arrays.donated(value for value in donated if value is not None)
        add = self._arrays.add
        for index, (handle, form) in enumerate(zip(handles, program.forms, strict=True)):
            shard_count = len(form.placement.devices)
            value = Value(run_id + 1 + index, shard_count, program.size_bytes[index])
            add(handle, form, ((value, 0, shard_count),))


def _now_ns() -> int:
    return int(asyncio.get_running_loop().time() * 1e9)


def _missing(program: RunnableProgram, group: Group, launch_id: int) -> Failure:
    sentence = (
        f"program {program.name} was called with launch id {launch_id} and without its {group.shard_count}-shard arguments; "
        f"execute `pathways-feed {group.shard_count}` with the same launch id right before it"
    )
    return Failure(Reason.INVALID_ARGUMENT, sentence)


def _miscounted(group: Group, count: int) -> Failure:
    sentence = f"{count} arguments of {group.shard_count} shards came for a program that takes {len(group.arguments)} of them"
    return Failure(Reason.INVALID_ARGUMENT, sentence)
