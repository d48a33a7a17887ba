"""What hosts report: events made from the frames of workers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from pathways_common.model.agreement import FieldDigest
from pathways_common.model.array import ExecutableFacts
from pathways_common.model.failure import Failure
from pathways_common.model.ids import Epoch, FetchId, GlobalId, HostName, IslandName, Sequence, SessionNumber, TransferId, WaitId
from pathways_common.model.image import KeptImage

from .leak_records import HeldObjects

_NONE = Sequence(0)
_NOTHING = GlobalId(0)


@dataclass(frozen=True, slots=True)
class HostJoined:
    """`incarnation` is given by the shell from a counter that never goes back.

    `coordinates`: one per device, in the island's `topology`; `device_kind`: what to call them. Empty where not declared.
    """

    host: HostName
    island: IslandName
    incarnation: int
    device_count: int
    data_address: str
    pid: int
    device_memory_bytes: int
    topology: tuple[int, ...] = ()
    coordinates: tuple[tuple[int, ...], ...] = ()
    device_kind: str = ""


@dataclass(frozen=True, slots=True)
class HostLost:
    """The stream of this incarnation ended."""

    host: HostName
    incarnation: int
    reason: str


@dataclass(frozen=True, slots=True)
class EpochLeft:
    """The executor of `epoch` has ended, behind what it was to keep."""

    host: HostName
    epoch: Epoch


@dataclass(frozen=True, slots=True)
class CoordinatorStarted:
    """`address` is empty when it could not be started."""

    host: HostName
    epoch: Epoch
    address: str
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class EpochEntered:
    host: HostName
    epoch: Epoch
    platform: str
    platform_version: str
    device_kind: str
    memory_kinds: tuple[str, ...]
    compiler: str = ""


@dataclass(frozen=True, slots=True)
class EpochRefused:
    host: HostName
    epoch: Epoch
    failure: Failure


@dataclass(frozen=True, slots=True)
class ExecutorLost:
    """The daemon of `host` lives; its executor of `epoch` does not."""

    host: HostName
    epoch: Epoch
    exit: str
    stderr_tail: str
    launched_through: Sequence = _NONE
    finished_through: Sequence = _NONE
    time_ns: int = field(default=0, compare=False)  # Unix time, for people
    entered_through: Sequence = _NONE  # the last launch that was begun, also if it did not come back
    loading: GlobalId = _NOTHING  # the executable that it was loading besides, 0 = none


@dataclass(frozen=True, slots=True)
class ExecutableLoaded:
    host: HostName
    epoch: Epoch
    executable_id: GlobalId
    facts: ExecutableFacts | None
    failure: Failure | None
    reused: bool = False
    kept: KeptImage | None = None


@dataclass(frozen=True, slots=True)
class NodeFailed:
    host: HostName
    execution_id: GlobalId
    sequence: Sequence
    failure: Failure


@dataclass(frozen=True, slots=True)
class PrepareRefused:
    host: HostName
    execution_id: GlobalId
    failure: Failure


@dataclass(frozen=True, slots=True)
class TransferLanded:
    """Bytes of an upload or a pull are in the executor of `host`. `failure` is set if they will never be."""

    host: HostName
    transfer_id: TransferId
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ShardFetched:
    host: HostName
    fetch_id: FetchId
    data: bytes
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class BecameReady:
    host: HostName
    wait_id: WaitId
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ArraySpilled:
    """`size_bytes` are those of this host. With a failure the executor has the shards still. `spill_number`: of the command."""

    host: HostName
    buffer_id: GlobalId
    spill_number: int
    size_bytes: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ArrayRestored:
    host: HostName
    buffer_id: GlobalId
    spill_number: int
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class ExecutableInspected:
    """`inspection` is a serialized Inspection, untouched."""

    host: HostName
    inspect_id: int
    inspection: bytes
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class CallbackCalled:
    """`operands` is a serialized CallbackArrays. `call_id` is unique on its host only."""

    host: HostName
    call_id: int
    session: SessionNumber
    callback_id: int
    operands: bytes
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class OrderBroken:
    """A host refused a launch because the order contradicts what it launched."""

    host: HostName
    epoch: Epoch
    sequence: Sequence
    text: str


@dataclass(frozen=True, slots=True)
class SequenceMissed:
    """A host asks for a grant that it never got."""

    host: HostName
    epoch: Epoch
    sequence: Sequence


@dataclass(frozen=True, slots=True)
class HoldingsReported:
    """What the daemon or the executor of a host holds; `more`: the same process goes on. `epoch` is the executor's, 0 = none."""

    host: HostName
    number: int
    daemon: bool
    epoch: Epoch
    launched_through: Sequence
    objects: tuple[HeldObjects, ...]
    more: bool = False
    left_out: int = 0


class GangTime(NamedTuple):
    """When one host began and ended its part of a gang, in nanoseconds of the host's wall clock."""

    sequence: int
    started_ns: int
    ended_ns: int


@dataclass(frozen=True, slots=True)
class HostProgressed:
    """Cumulative: the executor of `epoch` finished every gang up to this sequence.

    `busy_ns` is how long one device of the host has computed since the epoch began, up to there; `times` are of the gangs among
    them that were granted as timed and not told before.
    """

    host: HostName
    epoch: Epoch
    finished_through: Sequence
    launched_through: Sequence = _NONE
    busy_ns: int = 0
    times: tuple[GangTime, ...] = ()


@dataclass(frozen=True, slots=True)
class HostPulsed:
    """Answers a Probe: how far the executor of `epoch` is, as its daemon sees it. `number` is the probe's.

    `entered_through`: the last gang whose launch was begun, `entered_ago_ns` before; `silent_ns`: how long the executor has shown
    no life; `idle`: it waits for commands; `excused`: it waits for bytes of other hosts. What it loads meanwhile excuses nothing.
    `cpu_ns`: what it has used of CPUs so far, 0 = not known.
    """

    host: HostName
    number: int
    epoch: Epoch
    entered_through: Sequence
    entered_ago_ns: int
    finished_through: Sequence
    silent_ns: int
    idle: bool
    excused: bool
    cpu_ns: int = 0


@dataclass(frozen=True, slots=True)
class PlanLoaded:
    """How a host understood a plan; `failure`: not at all."""

    host: HostName
    epoch: Epoch
    plan_id: int
    fields: tuple[FieldDigest, ...]
    failure: Failure | None = None
