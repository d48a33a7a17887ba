"""What the core remembers, one record per thing. Records hold data; the rules are in the modules that change them.

A record refers to another one by reference; ids are for the tables and for what is sent. Nothing here grows with
shards x shards, and a chain of executions never keeps its history: arguments are dropped when an execution ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakValueDictionary

from pathways_common.model.array import ArraySpec, ExecutableFacts
from pathways_common.model.cells import cell_name, plain_name
from pathways_common.model.failure import Failure
from pathways_common.model.graph import Program
from pathways_common.model.ids import Epoch, GlobalId, HostName, IslandName, Sequence, TransferId

from .effects import SendToHost
from .events import Piece
from .occupancy import Occupancy
from .read_records import Copy, Fetch, Wait
from .rescue_records import Rescue
from .run_records import MemberTime, Run, Span
from .session_records import Absence as Absence
from .session_records import Call as Call
from .session_records import Fence as Fence
from .session_records import PoolGroup as PoolGroup
from .session_records import Session as Session
from .session_records import Slice as Slice
from .session_records import VirtualDevice as VirtualDevice
from .share_records import Estimate, Ground, Line, SessionShare
from .stuck_records import Watch
from .tenant_records import Tenant, TenantName
from .transitions import BufferState, ExecutableState, ExecutionState, HostState, IslandState
from .walk_records import Look, Walk

if TYPE_CHECKING:
    from .composite_plan import CompositePlan
    from .ending_records import Ending
    from .memory_records import Account, IslandMemory
    from .plan import Plan

NO_SEQUENCE = Sequence(0)
NO_EPOCH = Epoch(0)

# ---- hosts and islands ----------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Host:
    """One joined host, from HostJoined to HostLost.

    `unfinished` is what was granted to it, oldest first, each with the last sequence of it that is this host's own.
    """

    name: HostName
    island: Island
    incarnation: int
    device_count: int
    data_address: str
    pid: int
    device_memory_bytes: int
    topology: tuple[int, ...] = ()
    coordinates: tuple[tuple[int, ...], ...] = ()
    device_kind: str = ""
    state: HostState = HostState.JOINED
    rank: int = -1
    last_sequence: Sequence = NO_SEQUENCE
    finished_through: Sequence = NO_SEQUENCE
    launched_through: Sequence = NO_SEQUENCE
    unfinished: deque[tuple[int, Gang]] = field(default_factory=deque)
    gangs_granted: int = 0
    busy_ns: int = 0  # as it last told, of this epoch
    late_ns: int = 0  # device time that others waited because this host was the last to begin
    missed: dict[Sequence, int] = field(default_factory=dict)  # how often it asked for each gang that it has not finished
    compiler: str = ""  # images go between hosts with the same one
    executables_compiled: int = 0
    executables_reused: int = 0
    executables_loaded: int = 0  # in this epoch, or told to be
    executables_unloaded: int = 0  # to make room for others
    loads: dict[GlobalId, Executable] = field(default_factory=dict)  # it has not answered, in this epoch, also if nobody wants it
    absence: Absence | None = None  # None: it is connected
    account: Account | None = None  # None: nothing limits the memory of its devices
    watch: Watch | None = None  # None: it has nothing to do
    finished: tuple[int, Gang] | None = None  # the last of `unfinished` that it has finished, in this epoch
    moved_ns: int = 0  # when it last told that it had finished anything

    @property
    def machine(self) -> str:
        """Its name outside cells: who has the same one has the same devices."""
        return plain_name(self.name)


@dataclass(slots=True, eq=False)
class Island:
    """`members` are the hosts of the current epoch by rank; `hosts` all that joined. `tenant` is set of a cell: whose it is."""

    name: IslandName
    ground: Ground
    tenant: TenantName | None = None
    unused_since_ns: int = 0  # of a cell that its tenant does not need; 0 while it does
    asked_ns: int = 0  # of a cell: when hosts were last told to open it
    closing: bool = False  # of a cell: its hosts were told to leave
    hosts: dict[HostName, Host] = field(default_factory=dict)
    state: IslandState = IslandState.EMPTY
    epoch: Epoch = NO_EPOCH
    members: tuple[Host, ...] = ()
    devices_per_host: int = 0
    platform: str = ""
    platform_version: str = ""
    device_kind: str = ""
    memory_kinds: tuple[str, ...] = ()
    topology: tuple[int, ...] = ()  # as its hosts declare it
    places: tuple[int, ...] = ()  # the position at each place of it, of the last epoch
    entered: int = 0
    deadline_ns: int = 0
    retry_at_ns: int = 0
    attempts: int = 0
    active_since_ns: int = 0
    last_failure: str = ""
    ending: Ending | None = None  # while it is ENDING
    size_bound: int = 0  # hosts that its sessions were shown; 0 while no session uses it
    seated: tuple[HostName, ...] = ()  # whose devices are behind its positions: the members of its last ACTIVE epoch
    rescue: Rescue | None = None  # the last epoch has ended, and hosts take what outlives it into their stores
    missing: dict[HostName, str] = field(default_factory=dict)  # former members that are gone, and why
    sequence: Sequence = NO_SEQUENCE
    inflight: deque[Gang] = field(default_factory=deque)  # granted, in order, retired in order
    inflight_gangs: int = 0  # gangs in them, and those that a run has room for while it waits for its turn elsewhere
    inflight_joint: int = 0  # executions in them that are joint
    fallible: deque[Gang] = field(default_factory=deque)  # those of them that may fail on one member alone
    runs: dict[int, Run] = field(default_factory=dict)  # granted in part or whole and not over, by number
    paced: dict[int, Run] = field(default_factory=dict)  # those that wait until a launch here was reported
    doubted: deque[Fetch | Copy | Look] = field(default_factory=deque)  # reads that wait for the end of such
    inflight_ns: int = 0  # how long the gangs in flight are estimated to take, less what hosts have told to be done
    moved_ns: int = 0  # when the one at the front got there, or was last heard of
    due_ns: int = 0  # when the window is looked at without a report; in the past: not asked for
    measures: bool = False  # its hosts tell how long they computed
    skew_ns: int = 0  # device time spent in waiting for the last member of a gang to begin; booked to nobody
    lanes: dict[int, Lane] = field(default_factory=dict)  # by their key
    held: deque[HeldArray | Copy] = field(default_factory=deque)  # placements that wait for ACTIVE
    keeping: Occupancy = field(default_factory=Occupancy)  # inline bytes of arrays that wait: here, or for memory or a quota
    placements: WeakValueDictionary[tuple[tuple[int, ...], tuple[int, ...]], Placement] = field(
        default_factory=WeakValueDictionary
    )
    executables: dict[GlobalId, Executable] = field(default_factory=dict)
    memory: IslandMemory | None = None  # None: no host of it has a budget

    @property
    def line(self) -> Line:
        """Of all that compete for its devices, those of its cells too."""
        return self.ground.line

    def host_on(self, machine: str) -> Host | None:
        """Its host there, as it is called in a cell or outside."""
        return self.hosts.get(HostName(cell_name(machine, self.tenant) if self.tenant is not None else machine))


class ShardPlace(NamedTuple):
    """Where one shard lives: `local_index` counts the shards of the same array on that host."""

    host: Host
    local_index: int
    local_device: int


class Placement:
    """An ordered device list of one island, interned: equal lists are the same object. Bound to hosts once per epoch.

    `owners` are the numbers of the virtual slices that the devices belong to, 0 for primary ones; empty if all are primary.
    """

    __slots__ = ("__weakref__", "epoch", "hosts", "island", "owners", "positions", "shards")

    def __init__(self, island: Island, positions: tuple[int, ...], owners: tuple[int, ...] = ()) -> None:
        self.island = island
        self.positions = positions
        self.owners = owners
        self.epoch = NO_EPOCH
        self.hosts: tuple[Host, ...] = ()
        self.shards: tuple[ShardPlace, ...] = ()


# ---- values ---------------------------------------------------------------------------------------------------------


class Buffer:
    """One logical buffer, whatever its shard count.

    `handles` counts the views that the session holds on it (its own id is one), `uses` what still has to be sent to a
    host and needs it, `pending` transfers and copies that have to land first, `sequence` the gang that makes it, `epoch`
    the epoch whose hosts hold it (0: none). `ended` is set once it was deleted or donated: new uses fail with it.
    `charged` is what it takes of the budget of each of its devices on its own account, `kept` where it lies while it is spilled.
    """

    __slots__ = (
        "aliases", "booked_bytes", "charged", "ended", "epoch", "failure", "handles", "held", "id", "kept", "maker", "origins",
        "pending", "placement", "readers", "refused_ns", "sequence", "session", "shard_bytes", "spec", "state", "transfers",
        "used_ns", "uses", "waiters",
    )  # fmt: skip

    def __init__(
        self, identifier: GlobalId, session: Session, placement: Placement | None, shard_bytes: int, state: BufferState
    ) -> None:
        self.id = identifier
        self.session = session
        self.placement = placement
        self.shard_bytes = shard_bytes
        self.state = state
        self.failure: Failure | None = None
        self.ended: Failure | None = None
        self.handles = 1
        self.uses = 0
        self.pending = 0
        self.sequence: int = 0
        self.epoch: int = 0
        self.readers: dict[int, Reader] | None = None
        self.waiters: list[Waiter] | None = None
        self.transfers: dict[TransferId, Transfer] | None = None
        self.maker: Copy | None = None
        self.held = 0  # walks that took it as an argument: nobody may take it as a donation
        self.aliases: dict[GlobalId, Buffer] | None = None
        self.origins: tuple[Buffer, ...] = ()
        self.charged = 0
        self.used_ns = 0  # when work that takes it was last granted, or bytes of it last read; kept where there are budgets
        self.refused_ns = 0  # when a host last had no room to spill it
        self.kept: tuple[ShardPlace, ...] = ()
        self.booked_bytes = 0  # counted as held by its tenant
        self.spec: ArraySpec | None = None  # what a shard of it is; its devices are not to be relied on


class Part(NamedTuple):
    buffer: Buffer
    start: int
    length: int


class View:
    """An ordered list of shard ranges. `whole` is set if it is one buffer from end to end, which hosts know by its own id.
    `copies` are shards on other islands that hold what its only shard holds.

    `uses` counts queued executions that name it, `epoch` is the epoch whose hosts hold it (0: none).
    """

    __slots__ = ("copies", "epoch", "id", "parts", "placement", "released", "uses", "whole")

    def __init__(self, identifier: GlobalId, placement: Placement | None, parts: tuple[Part, ...], whole: Buffer | None) -> None:
        self.id = identifier
        self.placement = placement
        self.parts = parts
        self.whole = whole
        self.copies: tuple[Part, ...] = ()
        self.epoch: int = 0
        self.uses = 0
        self.released = False


Handle = Buffer | View


@dataclass(slots=True, eq=False)
class Transfer:
    """Bytes that will land on a host: of an upload, or pulled from another host by a copy."""

    id: TransferId
    buffer: Buffer
    host: Host
    upload: Upload | None
    copy: Copy | None
    deadline_ns: int
    since_ns: int


@dataclass(slots=True, eq=False)
class Upload:
    """One `upload_id` of a door: one transfer per host and shard that it feeds."""

    session: Session
    upload_id: int
    buffer: Buffer
    remaining: int


@dataclass(slots=True, eq=False)
class HeldArray:
    """An array that was made while its island was not ACTIVE. `asked`: as far as the session's operations had come then."""

    buffer: Buffer
    spec: ArraySpec
    pieces: tuple[Piece, ...]
    inline_bytes: int
    deadline_ns: int
    asked: int


# ---- reads ----------------------------------------------------------------------------------------------------------

Reader = Fetch | Wait | Copy | Look


# ---- programs and executions ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Executable:
    """`members` own its devices; `answers_due`: those whose answer to Load is out; `untold`: those not told to load yet."""

    id: GlobalId
    session: Session
    program: str
    placement: Placement
    callback_ids: tuple[int, ...]
    estimate: Estimate
    deadline_ns: int
    state: ExecutableState = ExecutableState.IDLE
    facts: ExecutableFacts | None = None
    failure: Failure | None = None
    announced: bool = False
    released: bool = False
    queued: int = 0
    loads_lost: int = 0
    epoch: Epoch = NO_EPOCH
    members: tuple[Host, ...] = ()
    answers_due: dict[HostName, None] = field(default_factory=dict)
    untold: dict[HostName, Host] = field(default_factory=dict)
    answered: ExecutableFacts | None = None
    answered_by: str = ""
    waiters: list[Loading] = field(default_factory=list)
    donated: tuple[int, ...] = ()
    donation: Failure | None = None
    ended: Failure | None = None  # its slice was released: new executions fail with it
    fallible: bool = False
    used_ns: int = 0  # when it was last granted, or loaded


class Execution:
    """One run of an executable. `remaining` counts members that have not finished; `sent` is for a host that asks again."""

    __slots__ = (
        "argument_ids", "arguments", "booked_ns", "charged_ns", "done_ns", "duration_ns", "executable", "first_result_id", "id",
        "lane", "launch_id", "non_donatable", "order", "plain", "remaining", "requested_ns", "results", "sent", "sequence",
        "state", "stream", "timed", "times",
    )  # fmt: skip

    def __init__(
        self,
        identifier: GlobalId,
        executable: Executable,
        argument_ids: tuple[GlobalId, ...],
        arguments: list[Handle],
        plain: bool,
        first_result_id: GlobalId,
        non_donatable: tuple[int, ...],
        launch_id: int,
        lane: Lane,
        requested_ns: int,
        stream: int = 0,
    ) -> None:
        self.id = identifier
        self.stream = stream
        self.executable = executable
        self.argument_ids = argument_ids
        self.arguments = arguments
        self.plain = plain  # every argument is a whole buffer under its own id
        self.first_result_id = first_result_id
        self.non_donatable = non_donatable
        self.launch_id = launch_id
        self.lane = lane
        self.requested_ns = requested_ns
        self.results: list[Buffer] = []
        self.state = ExecutionState.QUEUED
        self.sequence: int = 0
        self.remaining = 0
        self.order = 0
        self.sent: list[SendToHost] = []
        # Set by the grant, as in a span.
        self.duration_ns = 0
        self.done_ns = 0
        self.charged_ns = 0
        self.booked_ns = 0
        self.timed = False
        self.times: dict[int, list[MemberTime]] | None = None

    @property
    def share(self) -> SessionShare:
        """To whom it is charged."""
        return self.lane.share

    @property
    def joint(self) -> bool:
        """Whether it has members that may wait for one another; colocated Python has none such."""
        executable = self.executable
        return len(executable.members) > 1 and not (executable.facts is not None and executable.facts.python)

    @property
    def last(self) -> int:
        """An execution is one gang; a span of a run has several."""
        return self.sequence


@dataclass(slots=True, eq=False)
class Definition:
    """A program of a session. `queued` counts runs not wholly granted; its executables stay as long as it does.

    `name` and `version` are set if it was opened by name.
    """

    id: GlobalId
    session: Session
    program: Program
    plan: Plan | None = None
    composite: CompositePlan | None = None  # in place of a plan, if nodes of it wait for values
    name: str = ""
    version: int = 0
    queued: int = 0
    released: bool = False
    failure: Failure | None = None
    ended: Failure | None = None  # a slice that it uses was released: no new runs
    stale: bool = False  # something of it lies elsewhere since it was lowered
    # Those of all its computations, and those of its fused groups; each counts it in `queued`.
    executables: tuple[Executable, ...] = ()
    fusing: tuple[Executable, ...] = ()


@dataclass(slots=True, eq=False)
class Lane:
    """The first-in first-out queue of one session, or of one walk of it, on one island."""

    session: Session
    island: Island
    share: SessionShare
    queue: deque[Work] = field(default_factory=deque)
    blocked: bool = False  # waits for something and is not in line
    blocked_on: str = ""
    walk: int = 0  # number of the walk that has it to itself

    @property
    def key(self) -> int:
        """Its place in the island's table."""
        return -self.walk if self.walk else self.session.number


@dataclass(slots=True, eq=False)
class Inspect:
    number: int
    session: Session
    inspect_id: int
    executable: Executable
    kind: int
    deadline_ns: int
    host: Host | None = None


Waiter = Execution | Run | Fetch | Wait | Copy | Look | Walk
Loading = Execution | Run | Inspect | Definition
Work = Execution | Run
Gang = Execution | Span

Woken = Execution | Run | Definition | Island | Fetch | Wait | Copy | Look | Walk | Inspect | Slice | Tenant
