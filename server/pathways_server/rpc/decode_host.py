"""Events of a worker to events of the core. A table by the name of the event; breaches of form end that worker's stream.

Memory figures and log lines are for people and stay in the shell: they have no entry here.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pathways_common.model.agreement import FieldDigest
from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_common.model.bounds import FRAME_OPERATIONS_MAX, WORDS_BYTES_MAX
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import Epoch, FetchId, GlobalId, HostName, Sequence, SessionNumber, TransferId, WaitId
from pathways_common.model.image import KeptImage
from pathways_common.model.topology import TOPOLOGY_WORDS, is_topology
from pathways_common.rpc.channels import parse_frame
from pathways_common.rpc.convert import spec_from_proto
from pathways_proto.v1 import spilling_pb2, types_pb2, workers_pb2

from pathways_server.core import events
from pathways_server.core.leak_records import HeldKind, HeldObjects
from pathways_server.rpc.form import (
    bad,
    checked_length,
    checked_natural,
    checked_naturals,
    checked_optional_failure,
    checked_words,
)

# The fixed64 fields 1 to 4, 7 and 8 of a WorkerFrame, each behind its key.
_PROGRESS = struct.Struct("<BQBQBQBQBQBQ")
_PROGRESS_KEYS = (0x09, 0x11, 0x19, 0x21, 0x39, 0x41)
# A GangTime in a WorkerFrame: its key and length, then its three numbers, each behind its key.
_TIME = struct.Struct("<BBBQBQBQ")
_TIME_KEYS = (0x4A, _TIME.size - 2, 0x09, 0x11, 0x19)
# Named fields of one description.
_FIELDS_MAX = 64


class Progress(NamedTuple):
    """What a WorkerFrame says of its executor."""

    acknowledged: int
    finished_through: int
    launched_through: int
    busy_ns: int
    times: tuple[events.GangTime, ...] = ()


def progress_of(data: bytes) -> Progress | None:
    """What a frame says that tells of progress alone, as our workers write it.

    Nearly all frames are such; None: it is none of them or written in another order, use `worker_frame`.
    """
    size = len(data)
    if size < _PROGRESS.size or (size - _PROGRESS.size) % _TIME.size:
        return None
    k1, sequence, k2, acknowledged, k3, _, k4, finished, k5, launched, k6, busy_ns = _PROGRESS.unpack_from(data)
    if sequence or (k1, k2, k3, k4, k5, k6) != _PROGRESS_KEYS:
        return None
    if size == _PROGRESS.size:
        return Progress(acknowledged, finished, launched, busy_ns)
    times = []
    for key, length, k1, number, k2, started_ns, k3, ended_ns in _TIME.iter_unpack(memoryview(data)[_PROGRESS.size :]):
        if (key, length, k1, k2, k3) != _TIME_KEYS:
            return None
        times.append(events.GangTime(number, started_ns, ended_ns))
    return Progress(acknowledged, finished, launched, busy_ns, tuple(times))


def progress_in(frame: workers_pb2.WorkerFrame) -> Progress:
    """What any frame says of it."""
    times = tuple(events.GangTime(row.sequence, row.started_ns, row.ended_ns) for row in frame.times)
    return Progress(frame.acknowledged, frame.finished_through, frame.launched_through, frame.busy_ns, times)


def worker_frame(data: bytes) -> workers_pb2.WorkerFrame:
    """The frame behind the bytes; raises PathwaysError if they are none or hold too many events."""
    frame = parse_frame(workers_pb2.WorkerFrame, data)
    if len(frame.events) > FRAME_OPERATIONS_MAX:
        raise bad(f"a frame has more than {FRAME_OPERATIONS_MAX} events", len(frame.events))
    checked_length(frame.times, "times")
    return frame


def coordinates(hello: workers_pb2.WorkerHello) -> tuple[tuple[int, ...], ...]:
    """Where the devices of a host are, one coordinate each; raises PathwaysError if the numbers make none."""
    sizes = len(hello.topology)
    if sizes and not is_topology(tuple(hello.topology)):
        raise bad(f"hello.topology must be {TOPOLOGY_WORDS}", list(hello.topology)[:4])
    checked_length(hello.coordinates, "hello.coordinates")
    if len(hello.coordinates) != sizes * hello.device_count:
        raise bad("hello.coordinates must have as many numbers for each device as hello.topology has", len(hello.coordinates))
    numbers = iter(hello.coordinates)
    return tuple(zip(*[numbers] * sizes, strict=True))


def host_event(host: HostName, name: str, message: Any) -> events.Event:
    """The event of one HostEvent whose one-of `name` is set; raises PathwaysError if it is malformed."""
    return _TABLE[name](host, message)


def facts_of(info: types_pb2.ExecutableInfo) -> ExecutableFacts:
    """What the core needs of an ExecutableInfo; the message itself travels on untouched."""
    outputs: list[ArraySpec] = []
    for output in info.outputs:
        checked_naturals(output.shard_shape, "loaded.info.outputs.shard_shape")
        outputs.append(spec_from_proto(output))
    shard_bytes = [output.shard_bytes for output in outputs]
    if not shard_bytes:
        shard_bytes.append(0)  # a program without outputs has one result without bytes, which tells how it ended
    memory = info.memory
    peak = memory.argument_bytes + memory.output_bytes + memory.temporary_bytes - memory.alias_bytes
    return ExecutableFacts(
        digest=info.digest,
        output_count=len(shard_bytes),
        output_shard_bytes=tuple(shard_bytes),
        donated=frozenset(info.donated_parameters),
        fallible=info.fallible,
        peak_bytes=max(0, peak),
        payload=info.SerializeToString(),
        # Zero is also what a worker sends that does not know.
        parameter_count=info.parameter_count if info.parameter_count or info.parameter_shardings_known else -1,
        temporary_bytes=max(0, memory.temporary_bytes),
        alias_bytes=max(0, memory.alias_bytes),
        name=info.name[:WORDS_BYTES_MAX],
        fields=_fields(info.fields, "loaded.info.fields"),
        outputs=tuple(outputs),
        python=info.python,
        stateless=info.stateless,
    )


def _shard_fetched(host: HostName, message: workers_pb2.ShardFetched) -> events.Event:
    return events.ShardFetched(host, FetchId(message.fetch_id), message.data, None)


def _fetch_failed(host: HostName, message: workers_pb2.FetchFailedOnHost) -> events.Event:
    return events.ShardFetched(host, FetchId(message.fetch_id), b"", _required_failure(host, message))


def _became_ready(host: HostName, message: workers_pb2.BecameReady) -> events.Event:
    return events.BecameReady(host, WaitId(message.wait_id), checked_optional_failure(message, "became_ready.failure"))


def _node_failed(host: HostName, message: workers_pb2.NodeFailed) -> events.Event:
    failure = _required_failure(host, message)
    return events.NodeFailed(host, GlobalId(message.execution_id), Sequence(message.sequence), failure)


def _landed(host: HostName, message: workers_pb2.Landed) -> events.Event:
    return events.TransferLanded(host, TransferId(message.transfer_id), None)


def _transfer_failed(host: HostName, message: workers_pb2.TransferFailed) -> events.Event:
    return events.TransferLanded(host, TransferId(message.transfer_id), _required_failure(host, message))


def _loaded(host: HostName, message: workers_pb2.Loaded) -> events.Event:
    failure = checked_optional_failure(message, "loaded.failure")
    if failure is None and not message.HasField("info"):
        raise bad("loaded has neither info nor failure", message.executable_id)
    facts = None if failure is not None else facts_of(message.info)
    kept = KeptImage(message.kept.size_bytes, message.kept.digest) if message.HasField("kept") else None
    return events.ExecutableLoaded(
        host, Epoch(message.epoch), GlobalId(message.executable_id), facts, failure, message.reused, kept
    )


def _inspected(host: HostName, message: workers_pb2.InspectedExecutable) -> events.Event:
    failure = checked_optional_failure(message, "inspected.failure")
    return events.ExecutableInspected(host, message.inspect_id, message.inspection.SerializeToString(), failure)


def _callback_call(host: HostName, message: workers_pb2.CallbackCall) -> events.Event:
    return events.CallbackCalled(
        host,
        message.call_id,
        SessionNumber(message.session_number),
        message.callback_id,
        message.operands.SerializeToString(),
        checked_natural(message.timeout_ns, "callback_call.timeout_ns"),
    )


def _coordinator_ready(host: HostName, message: workers_pb2.CoordinatorReady) -> events.Event:
    failure = checked_optional_failure(message, "coordinator_ready.failure")
    address = "" if failure is not None else checked_words(message.address, "coordinator_ready.address")
    return events.CoordinatorStarted(host, Epoch(message.epoch), address, failure)


def _epoch_ready(host: HostName, message: workers_pb2.EpochReady) -> events.Event:
    return events.EpochEntered(
        host,
        Epoch(message.epoch),
        message.platform,
        message.platform_version,
        message.device_kind,
        tuple(message.memory_kinds),
        message.compiler,
    )


def _epoch_failed(host: HostName, message: workers_pb2.EpochFailed) -> events.Event:
    return events.EpochRefused(host, Epoch(message.epoch), _required_failure(host, message))


def _epoch_left(host: HostName, message: workers_pb2.EpochLeft) -> events.Event:
    return events.EpochLeft(host, Epoch(message.epoch))


def _executor_died(host: HostName, message: workers_pb2.ExecutorDied) -> events.Event:
    return events.ExecutorLost(
        host,
        Epoch(message.epoch),
        message.exit,
        message.stderr_tail,
        Sequence(message.launched_through),
        Sequence(message.finished_through),
        time.time_ns(),
        Sequence(message.entered_through),
        GlobalId(message.loading),
    )


def _pulse(host: HostName, message: workers_pb2.Pulse) -> events.Event:
    return events.HostPulsed(
        host,
        message.number,
        Epoch(message.epoch),
        Sequence(message.entered_through),
        checked_natural(message.entered_ago_ns, "pulse.entered_ago_ns"),
        Sequence(message.finished_through),
        checked_natural(message.silent_ns, "pulse.silent_ns"),
        message.idle,
        message.waits_for != workers_pb2.EXECUTOR_WAIT_UNSPECIFIED,
        checked_natural(message.cpu_ns, "pulse.cpu_ns"),
    )


def _missing(host: HostName, message: workers_pb2.Missing) -> events.Event:
    return events.SequenceMissed(host, Epoch(message.epoch), Sequence(message.sequence))


def _contradiction(host: HostName, message: workers_pb2.Contradiction) -> events.Event:
    return events.OrderBroken(host, Epoch(message.epoch), Sequence(message.sequence), message.text)


def _prepare_refused(host: HostName, message: workers_pb2.PrepareRefused) -> events.Event:
    return events.PrepareRefused(host, GlobalId(message.execution_id), _required_failure(host, message))


def _trace_collected(host: HostName, message: workers_pb2.TraceCollected) -> events.Event:
    checked_length(message.rows, "trace_collected.rows")
    return events.TraceCollected(host, message.trace_id, message.SerializeToString())


def _array_spilled(host: HostName, message: spilling_pb2.ArraySpilled) -> events.Event:
    failure = checked_optional_failure(message, "array_spilled.failure")
    return events.ArraySpilled(host, GlobalId(message.buffer_id), message.spill_number, message.size_bytes, failure)


def _array_restored(host: HostName, message: spilling_pb2.ArrayRestored) -> events.Event:
    failure = checked_optional_failure(message, "array_restored.failure")
    return events.ArrayRestored(host, GlobalId(message.buffer_id), message.spill_number, failure)


def _plan_loaded(host: HostName, message: Any) -> events.Event:
    failure = checked_optional_failure(message, "plan_loaded.failure")
    return events.PlanLoaded(host, Epoch(message.epoch), message.plan_id, _fields(message.fields, "plan_loaded.fields"), failure)


def _fields(fields: Any, where: str) -> tuple[FieldDigest, ...]:
    if len(fields) > _FIELDS_MAX:
        raise bad(f"{where} has more than {_FIELDS_MAX} entries", len(fields))
    return tuple(FieldDigest(checked_words(field.name, where), field.digest) for field in fields)


def _holdings(host: HostName, message: workers_pb2.Holdings) -> events.Event:
    objects = []
    for held in message.objects:
        try:
            kind = HeldKind(held.kind)
        except ValueError:
            kind = HeldKind.LOCAL  # of a kind that nobody knows: it has no owner
        checked_length(held.ids, "holdings.objects.ids")
        for parallel in (held.size_bytes, held.sessions):
            if len(parallel) not in (0, len(held.ids)):
                raise bad("holdings.objects must have one size and session per id, or none", len(parallel))
        objects.append(HeldObjects(kind, tuple(held.ids), tuple(held.size_bytes), tuple(held.sessions)))
    launched = Sequence(message.launched_through)
    return events.HoldingsReported(
        host, message.request_id, message.daemon, Epoch(message.epoch), launched, tuple(objects), message.more, message.left_out
    )


def _required_failure(host: HostName, message: Any) -> Failure:
    failure = checked_optional_failure(message, "failure")
    return failure or Failure(Reason.INTERNAL, f"host {host} reported a failure without saying which", host=host)


_TABLE: dict[str, Callable[[HostName, Any], events.Event]] = {
    "shard_fetched": _shard_fetched,
    "fetch_failed": _fetch_failed,
    "became_ready": _became_ready,
    "node_failed": _node_failed,
    "landed": _landed,
    "transfer_failed": _transfer_failed,
    "loaded": _loaded,
    "inspected": _inspected,
    "callback_call": _callback_call,
    "coordinator_ready": _coordinator_ready,
    "epoch_ready": _epoch_ready,
    "epoch_failed": _epoch_failed,
    "epoch_left": _epoch_left,
    "executor_died": _executor_died,
    "missing": _missing,
    "pulse": _pulse,
    "contradiction": _contradiction,
    "prepare_refused": _prepare_refused,
    "trace_collected": _trace_collected,
    "array_spilled": _array_spilled,
    "array_restored": _array_restored,
    "plan_loaded": _plan_loaded,
    "holdings": _holdings,
}
