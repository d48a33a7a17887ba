"""Every bound and deadline of the core, each with the reason for its value.

The shell fills `CoreConfig` once from file, environment and flags; tests shrink the numbers. Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pathways_common.model.bounds import GRACE_NS, POOL_DEVICES_MAX, POOL_SLICES, READ_NS, SESSION_WAIT_NS
from pathways_common.model.colocated import CALL_TIMEOUT_NS

from .share_records import Policy

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class CoreConfig:
    """`hosts_per_island` applies to islands that `island_hosts` does not name; 0 = whoever is there.

    `island_shapes` declares how the devices of an island lie, row-major in their order, where its hosts do not; others are lines.
    """

    hosts_per_island: int = 0
    island_hosts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    island_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=lambda: MappingProxyType({}))

    # Virtual slices that a session may hold at once, and devices that its pool may have.
    pool_slices: int = POOL_SLICES
    pool_devices_max: int = POOL_DEVICES_MAX
    # Requests for slices of one session that may wait; each is looked at again whenever a slice ends.
    slices_waiting_max: int = 64
    # Once the oldest of a session has waited so long for devices of others, what it would take is kept for it as long again; then
    # in every other span, each twice as long as the one before. Longer than most small jobs last, so that they are not held up by
    # what comes to its turn anyway; longer jobs end in a longer span.
    slice_turn_ns: int = 10 * SECOND_NS
    # A request that names no deadline of its own waits this long.
    slice_wait_ns: int = 3600 * SECOND_NS

    # A session without a connection lives so long: a restarted switch, a laptop lid, a busy machine. Its values are memory that
    # others wait for meanwhile.
    lease_ns: int = 30 * SECOND_NS
    # A host without a connection is waited for so long; its island's other hosts wait with it where they meet.
    grace_ns: int = GRACE_NS
    # Ticks come every 100 ms; of a longer pause than this, in which nobody could be heard, no more counts.
    listening_gap_ns: int = SECOND_NS // 2

    # A client that connects while the cluster starts waits this long; `pathways up` aims at 15 s.
    session_wait_ns: int = SESSION_WAIT_NS
    # Starting a process group takes seconds on a loaded machine; a minute means that something is stuck.
    epoch_step_ns: int = 60 * SECOND_NS
    # A failed try to form is repeated after this, doubled each time, up to the ceiling; an island that was ACTIVE for as long as
    # that is formed again at once.
    epoch_backoff_ns: int = SECOND_NS // 4
    epoch_backoff_max_ns: int = 15 * SECOND_NS
    # Work for an island that re-forms waits this long before it fails with what the island lacks.
    island_wait_ns: int = 60 * SECOND_NS
    # Large programs compile for minutes.
    load_ns: int = 900 * SECOND_NS
    # A host works out its share of a plan in milliseconds, behind what it does already, which may be moving a lot of memory.
    agreement_ns: int = 900 * SECOND_NS
    read_ns: int = READ_NS
    # Work beyond a limit of its tenant waits as long as a request for a slice.
    quota_wait_ns: int = 3600 * SECOND_NS
    # Silence after which granted space is taken back; the deadline grows with the size at the rate below.
    upload_ns: int = 60 * SECOND_NS
    # Hosts give up calls of colocated Python by themselves; a host that does not say so in time is late.
    python_ns: int = CALL_TIMEOUT_NS + 60 * SECOND_NS
    # Without tokens anybody could run anything on the hosts, whatever these think of it.
    python_allowed: bool = True
    upload_bytes_per_second_min: int = 4 << 20
    # How long a host keeps the bytes of a pull ready for its reader.
    pull_ns: int = 60 * SECOND_NS
    # A large read whose end is not reported is taken to be over this long after its value was computed.
    pull_linger_ns: int = 10 * SECOND_NS
    # A member of a gang that does not enter it for so long, though nothing of its own keeps it, is stuck; so is an executor that
    # does not answer. Slower than any scheduler or collector, faster than people lose patience. 0 = nobody is.
    stuck_ns: int = 10 * SECOND_NS
    # Of an executor that answers, but is busy with one command that is no launch: it may be moving a lot of memory.
    stuck_busy_factor: int = 3
    # A gang that all have begun is only long. It is ended when it takes so many times as long as it took before, and longer than
    # this: some programs take longer the more they are given, and with it goes what else is on the island. 0 = never.
    long_ns: int = 600 * SECOND_NS
    long_factor: int = 10
    # One in which some members compute and all others only wait, as in an endless loop: the deadline at least.
    loop_factor: int = 100
    # One whose session has ended: nobody waits for it.
    orphan_ns: int = 60 * SECOND_NS
    # When an executor is gone, what others run on the other hosts of the island has so long to end.
    ending_ns: int = SECOND_NS
    # Follow-on errors wait this long for the first cause.
    cause_wait_ns: int = SECOND_NS // 5
    inspect_ns: int = 60 * SECOND_NS
    callback_ns: int = 30 * SECOND_NS

    # Above this a shard travels under a ticket, straight between the door and the host.
    inline_bytes_max: int = 65536
    # How islands choose whose work goes next: by name, else the default.
    island_policies: Mapping[str, Policy] = field(default_factory=lambda: MappingProxyType({}))
    default_policy: Policy = Policy.PROPORTIONAL_SHARE
    # Granted and unfinished gangs per island: enough for 10,000 small gangs a second at 25 ms of report delay.
    window_gangs: int = 256
    # While sessions compete, the next grant is made when less than this is unfinished, in estimated time. It covers what a device
    # does until a report has come here and a grant gone back: 1 to 2 ms on a busy machine, and a report may be 1 ms old.
    window_ns: int = 3_000_000
    # Of gangs over several hosts then no more than this, one that runs and one behind it: how long their members will wait for
    # each other nobody can say, now and then ten times as long as usual. If the one that runs takes less than half a window, as
    # many as the second figure says: it is beside these that a wait is long. Not while all have work in line, as below.
    window_joint: int = 2
    window_joint_short: int = 1
    # However short a gang is, controller and hosts need about so much to launch it, which is what those behind it wait for.
    launch_ns: int = 300_000
    # With others there a grant of a run ends after so much estimated time (or one gang), and a rest of half as much goes along:
    # worth a message, and short to wait for.
    quantum_ns: int = 2_000_000
    # The same in gangs, for gangs so short that their number costs more than their time.
    quantum_gangs: int = 64
    # What a gang that was never measured is taken for: a whole quantum, the wider one of below, so that nobody gets two of them
    # before one is known.
    guess_ns: int = 6_000_000
    # After so long in which everybody who competes had work in line, they are taken to have it without end. A client that reads
    # each result before it asks for the next comes and goes more often, and one that runs ahead by less than a window runs dry.
    settled_ns: int = SECOND_NS // 2
    # Then more is granted ahead, and more at once: where many processes share few cores each of them may have to wait some
    # milliseconds for one, and every grant costs all of them. Who comes then waits for both of these, once. Not under `priority`.
    settled_window_ns: int = 8_000_000
    settled_quantum_ns: int = 6_000_000
    # A fused group that takes longer goes whole up to here, as a gang of its length would: in its nodes it takes longer still.
    settled_group_ns: int = 16_000_000
    # Whoever had work so short a time ago still competes: a client that reads each result before it asks for the next.
    company_ns: int = SECOND_NS
    # Under `priority` a tenant in line that was not served for so long is served next, whatever its class, the longest waiting
    # first. So a tenant waits this long, and for one grant of each tenant that has waited longer. It costs higher classes a
    # quantum a second for each such tenant, 0.2 %; people and deadlines (seconds to minutes) do not notice the wait.
    ageing_ns: int = SECOND_NS
    # A tenant's own executors that no session of it needs end after this: longer than the pause between two scripts.
    cell_unused_ns: int = 30 * SECOND_NS
    # Hosts that were told to start them and have not joined are told again after this.
    cell_ask_ns: int = 5 * SECOND_NS
    # Programs whose durations are known, by content.
    estimates_max: int = 16_384
    # Runs whose trace can be asked for, and how long their hosts get to answer.
    traced_max: int = 32
    # Pieces of one walk of these; hosts remember as many runs twice over.
    traced_pieces_max: int = 128
    trace_ns: int = 2 * SECOND_NS
    # Launches that all hosts together tell of a session, 5 MB. A host tells 8,192 at most, which take 50 ms beside its launches;
    # of one session a single question is open at a time.
    trace_rows_max: int = 65_536
    # A question for leaks waits its turn behind the work that executors have, as moving memory. Leaks that are told.
    leaks_ns: int = 10 * SECOND_NS
    leaks_max: int = 10_000
    # A session ahead of its island is read on to this bound; the releases that free memory are behind.
    queue_max: int = 200_000
    buffers_max: int = 2_000_000
    executables_max: int = 20_000
    # Executables that a session dropped while hosts load them: their programs wait there, a gigabyte each at most, and the
    # session does not hold them any more. Our own client waits for each answer first.
    dropped_loads_max: int = 256
    # What is remembered for stories, 200 bytes each: at 1,000 gangs a second 8 s of work, and of what happens rarely days.
    work_notes_max: int = 16_384
    event_notes_max: int = 8_192
    # Whether idle arrays may leave the devices when work waits for memory.
    spill: bool = True
    # From here on nobody takes memory that the oldest work waits for: longer than the gangs of most programs.
    memory_turn_ns: int = SECOND_NS // 5
    # Nothing moved for so long and work waits for memory: the youngest of it fails. A client reads and releases within it.
    memory_stuck_ns: int = 2 * SECOND_NS
    # How long survivors of an epoch get to put away what outlives it, before the next one begins: at memory speed 2 s are some
    # gigabytes, and everybody on the island waits.
    rescue_ns: int = 2 * SECOND_NS
    # A host without room for a spilled array is asked for the same one again after this.
    spill_again_ns: int = 10 * SECOND_NS
    # Looking for idle arrays takes a walk over all of them: not sooner than this after one that found too little.
    spill_look_ns: int = SECOND_NS // 20
    # Images whose keepers are known; as many as a host keeps.
    images_max: int = 4_096
    # What an executor has loaded; some 190 KB and three maps of 65,530 each for small programs, megabytes for large ones.
    loaded_executables_max: int = 4_096
    # Where one member of a gang may compile for all. An executable of these runs on other ranks than that which compiled it.
    compile_once_platforms: tuple[str, ...] = ("cpu",)
    # An image has a few megabytes; a host that waits longer for one compiles.
    image_pull_ns: int = 10 * SECOND_NS
    # A session's work that is asked to come to its end before its devices are moved: then it stays where it is.
    migration_ns: int = 60 * SECOND_NS
    # What could not be moved off a host that is drained is tried again after this.
    drain_again_ns: int = 10 * SECOND_NS
    # What its client may ask for meanwhile; a client runs ahead by less.
    held_back_max: int = 65_536
    definitions_max: int = 4_096
    # Registered programs, every version counted: the bytes behind them stay in memory and in the journal until unregistered.
    registered_max: int = 1_024
    # Of these three one session gets a third, and of sessions one tenant half, so that others find room: `occupancy`. `calls_max`
    # also bounds the callbacks of a session.
    readers_max: int = 200_000
    calls_max: int = 4_096
    transfers_max: int = 100_000
    sessions_max: int = 4_096
    fences_max: int = 4_096
    # Inline bytes kept for an island that re-forms.
    held_bytes_max: int = 256 << 20
    # Epochs that ended while a program was loading before the program is refused.
    loads_lost_max: int = 3
    # Executors that a program may end before it is not run any more: one may be bad luck.
    deaths_max: int = 2
    # Programs that ended any, the last ones.
    deadly_programs_max: int = 1_024
    # Error detail in trailing metadata must stay under 4 KiB.
    stderr_tail_max: int = 1_500

    def policy_of(self, island: str) -> Policy:
        """How an island chooses, until somebody says otherwise."""
        return self.island_policies.get(island, self.default_policy)

    def hosts_of(self, island: str) -> int:
        """How many hosts an island waits for; 0 = whoever is there."""
        return self.island_hosts.get(island, self.hosts_per_island)
