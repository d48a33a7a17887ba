"""What sessions ask for: events made from the messages of doors and plain clients."""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Failure
from pathways_common.model.graph import FusedGroup, Program
from pathways_common.model.ids import CallId, GlobalId, SessionNumber

from .tenant_records import DEFAULT_TENANT, TenantName


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A client said hello. `islands`: () = one, the least loaded; ("*",) = all; else names."""

    session: SessionNumber
    islands: tuple[str, ...]
    client: str
    tenant: TenantName = DEFAULT_TENANT


@dataclass(frozen=True, slots=True)
class SessionClosed:
    """The stream ended, with or without a goodbye: everything the session owns goes."""

    session: SessionNumber
    reason: str


@dataclass(frozen=True, slots=True)
class CompileRequested:
    """`program` names bytes that the shell keeps (program and options, content-addressed)."""

    session: SessionNumber
    executable_id: GlobalId
    program: str
    devices: tuple[int, ...]
    callback_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExecuteRequested:
    session: SessionNumber
    execution_id: GlobalId
    executable_id: GlobalId
    arguments: tuple[GlobalId, ...]
    first_result_id: GlobalId
    non_donatable: tuple[int, ...]
    launch_id: int
    # The client's thread, for colocated Python.
    stream: int = 0


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes of one distinct shard: `inline`, or pending under the door's `upload_id`."""

    shards: tuple[int, ...]
    size_bytes: int
    inline: bytes | None
    upload_id: int


@dataclass(frozen=True, slots=True)
class ArrayMade:
    session: SessionNumber
    buffer_id: GlobalId
    spec: ArraySpec
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class ErrorArrayMade:
    session: SessionNumber
    buffer_id: GlobalId
    failure: Failure


@dataclass(frozen=True, slots=True)
class ViewMade:
    """`ranges` are (view or buffer, start shard, shard count). `copies` hold the same as the one shard of a view."""

    session: SessionNumber
    view_id: GlobalId
    ranges: tuple[tuple[GlobalId, int, int], ...]
    copies: tuple[tuple[GlobalId, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CopyRequested:
    session: SessionNumber
    result_ids: tuple[GlobalId, ...]
    views: tuple[GlobalId, ...]
    specs: tuple[ArraySpec, ...]


@dataclass(frozen=True, slots=True)
class ReshardRequested:
    """`sources` say how the arrays lie, `destinations` how they shall lie. `donate`: the sources end when they were read."""

    session: SessionNumber
    result_ids: tuple[GlobalId, ...]
    views: tuple[GlobalId, ...]
    sources: tuple[ArraySpec, ...]
    destinations: tuple[ArraySpec, ...]
    donate: bool


@dataclass(frozen=True, slots=True)
class ViewsDeleted:
    session: SessionNumber
    views: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class Released:
    session: SessionNumber
    views: tuple[GlobalId, ...]
    executables: tuple[GlobalId, ...]
    programs: tuple[GlobalId, ...] = ()


@dataclass(frozen=True, slots=True)
class WaitRequested:
    """`wait_id` is the door's own number."""

    session: SessionNumber
    wait_id: int
    views: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class FetchRequested:
    session: SessionNumber
    fetch_id: int
    view_id: GlobalId
    shard: int
    size_bytes: int
    held: bool = False


@dataclass(frozen=True, slots=True)
class InspectRequested:
    """`kind` is the number of workers.proto's InspectKind."""

    session: SessionNumber
    inspect_id: int
    executable_id: GlobalId
    kind: int


@dataclass(frozen=True, slots=True)
class CallbackReturned:
    """`results` is a serialized CallbackArrays, untouched."""

    session: SessionNumber
    call_id: CallId
    results: bytes
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class DefinitionRequested:
    """A program made of executables of the session."""

    session: SessionNumber
    program_id: GlobalId
    program: Program


@dataclass(frozen=True, slots=True)
class FusionRequested:
    """Executables of the session that may run in place of several nodes of a program."""

    session: SessionNumber
    program_id: GlobalId
    groups: tuple[FusedGroup, ...]


@dataclass(frozen=True, slots=True)
class RunRequested:
    """`donated`: positions of arguments that end with the run."""

    session: SessionNumber
    run_id: GlobalId
    program_id: GlobalId
    arguments: tuple[GlobalId, ...]
    first_result_id: GlobalId
    donated: tuple[int, ...]
    launch_id: int


@dataclass(frozen=True, slots=True)
class RegistrationRequested:
    session: SessionNumber
    program_id: GlobalId
    name: str
    replace: bool


@dataclass(frozen=True, slots=True)
class OpeningRequested:
    """`version` 0 = the latest; `devices` () = the first ones of the session."""

    session: SessionNumber
    program_id: GlobalId
    name: str
    version: int
    devices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class UnregistrationRequested:
    """`version` 0 = all of them."""

    session: SessionNumber
    request_id: int
    name: str
    version: int


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """What makes these values and is not granted ends with CANCELLED."""

    session: SessionNumber
    views: tuple[GlobalId, ...]


@dataclass(frozen=True, slots=True)
class FenceRequested:
    session: SessionNumber
    fence_id: int


@dataclass(frozen=True, slots=True)
class SliceRequested:
    """`slice_id` is the door's own number; so are those of `with_slices` and `apart_from_slices`."""

    session: SessionNumber
    slice_id: int
    device_count: int
    mesh_shape: tuple[int, ...] = ()
    kind: str = ""
    island: str = ""
    exclusive: bool = False
    with_slices: tuple[int, ...] = ()
    apart_from_slices: tuple[int, ...] = ()
    wait: bool = False
    timeout_ns: int = 0


@dataclass(frozen=True, slots=True)
class SliceReleased:
    session: SessionNumber
    slice_id: int


@dataclass(frozen=True, slots=True)
class SuspendRequested:
    session: SessionNumber
    slice_id: int


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    session: SessionNumber
    slice_id: int
