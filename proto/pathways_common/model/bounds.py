"""Every bound of the system in one place, each with the reason for its value. Units are in the names."""

from __future__ import annotations

# ---- frames ---------------------------------------------------------------------------------------------------------

# Two frames in flight hide one round trip; a third only makes batches smaller.
WINDOW_FRAMES = 2
# How long a release, or an acknowledgement that the other end does not need yet, may wait for a frame to ride in. Programs that
# read each result before the next call send one within this.
RIDE_DELAY_NS = 2_000_000
# Keeps one frame's decoding under about 10 ms, so that other sessions are served between frames.
FRAME_ITEMS_MAX = 4096
# Operations a peer may put into one frame; more than our own senders ever do, so only a broken or hostile one meets it.
FRAME_OPERATIONS_MAX = 65536
# Events of hosts between two looks at the network: about 20 ms of steps at most.
EVENTS_PER_TURN = 1024
# What sessions have sent is read for this long before the network is looked at again: who asks for little is heard within it.
TURN_NS = 500_000
# Events of a session that are decoded, or stepped, before another session's turn comes: less than the above for ordinary ones.
SLICE_EVENTS = 16
# A session with so much in line that waits for nothing but its turn keeps its devices busy for a while; more of it stays on its
# own side, where its door stops reading.
AHEAD_OPERATIONS_MAX = 2048
# Above that one slice is read per so long, 8,000 operations a second: releases, cancels and reads behind a backlog come through.
AHEAD_PACE_NS = 2_000_000
# Frames of a session that wait to be read; above it nothing more is taken from its connection. A door sends two ahead.
READ_FRAMES_MAX = 64
# Items that may wait for a peer that does not acknowledge; then its stream is ended instead of the memory running out.
BACKLOG_ITEMS_MAX = 1 << 20

# ---- bytes ----------------------------------------------------------------------------------------------------------

# Below it a ticket's round trip costs more than the copy through the controller.
INLINE_BYTES_MAX = 65536
# A chunk of a bulk stream: large enough that gRPC's per-message cost is under 10 %, small enough to interleave.
CHUNK_BYTES = 1 << 20
# Programs (StableHLO with constants) above this are refused; frames hold them whole.
PROGRAM_BYTES_MAX = 1 << 30
# Metadata of a failure; 12 KB in trailing metadata kills a call.
FAILURE_METADATA_BYTES_MAX = 4096
# The message of a failure: a user's traceback fits, a flood does not.
FAILURE_MESSAGE_BYTES_MAX = 65536
# What the process that reads a program may take, beside what it begins with and some times the program: far more than any needs.
READER_MEMORY_BYTES = 1 << 30
# It is replaced behind a program of so many bytes, which gives the memory back at once; to fork takes milliseconds.
READER_PROGRAM_BYTES = 16 << 20
# A serialized sharding; tile assignments list devices one by one at worst.
SHARDING_BYTES_MAX = 1 << 20
# Words for people (client, host names, reasons).
WORDS_BYTES_MAX = 1024

# The first two frames of a link to a worker, preface and hello: names and addresses. Nobody is known yet, so little is taken.
LINK_HELLO_BYTES_MAX = 16384
# Any later frame: a program and its options fit, twice.
LINK_FRAME_BYTES_MAX = 2 * PROGRAM_BYTES_MAX
# Written and not yet taken by the network. Above it frames stay in their link, where they merge.
LINK_BUFFER_BYTES = 1 << 20

# ---- counts ---------------------------------------------------------------------------------------------------------

# Entries of one list inside an operation (arguments, devices, ranges, ids): pytrees of 100,000 leaves still fit.
LIST_ITEMS_MAX = 1 << 20
# Dimensions of an array; XLA's own limit is below it.
DIMENSIONS_MAX = 64
# Bytes of an array, dimensions of size 0 left out: above any cluster's memory, and far from where sums of 64 bits overflow.
ARRAY_BYTES_MAX = 1 << 56
# Sessions at once; every one costs a door and a view of the devices.
SESSIONS_MAX = 1024
# Numbers are reserved in blocks, so that the journal is written once per block and not once per session.
COUNTER_BLOCK = 64
# Streams that may wait to be accepted; gRPC's default of 1,000 cancels a burst above it.
PENDING_REQUESTS_MAX = 10000

# Virtual slices that a session may hold at once: a program of 32 stages needs no more, and JAX lists all their devices.
POOL_SLICES = 32
# Devices in a session's pool; 20,000 cost a client 0.2 s at connect.
POOL_DEVICES_MAX = 4096

# Nodes in all graphs of a program: 64 stages times 64 microbatches, forward and backward, fit twice. A program is taken in in one
# step, and nobody else is served meanwhile.
PROGRAM_NODES_MAX = 1 << 14
# Computations of a program; each is an executable that its hosts compile and hold in memory.
PROGRAM_COMPUTATIONS_MAX = 4096
# Graphs of a program: the program itself, and bodies of its branches and loops.
PROGRAM_GRAPHS_MAX = 1024
# Graph and specs of a program. Specs name every device: 64 stages with 100 arrays each over 2,048 devices take 40 MB.
PROGRAM_GRAPH_BYTES_MAX = 256 << 20
# Inputs of all nodes of a program, and apart from them specs wherever they are named: a node may have 32 of each at the bound of
# nodes. A message of 8 MB can name millions, and nobody else is served while they are read.
PROGRAM_MENTIONS_MAX = 1 << 19
# Characters of a registered name; it stands in tables and sentences.
PROGRAM_NAME_MAX = 200

# Programs of a session that one process reads before another takes its place: what a hostile one left broken in it does not stay,
# and to fork so rarely costs nothing.
READER_PROGRAMS_MAX = 256

# Plans, and runs granted in part, whose gangs are counted for /metrics; a few per session at a time.
RUNS_COUNTED_MAX = 4096

# ---- time -----------------------------------------------------------------------------------------------------------

# A connection that says nothing for so long is given up, and another takes its place. Calls of gRPC, which nothing resumes, are
# given the timeout on top: a busy machine may answer a ping late.
KEEPALIVE_NS = 10 * 10**9
KEEPALIVE_TIMEOUT_NS = 20 * 10**9
# A host whose connection broke is lost only after this: a link that was dropped is back within a second, one that carried nothing
# within two tries to dial.
GRACE_NS = 5 * 10**9
# Tries to come back: the first comes at once after a break, those of many ends are spread out, and pauses stay short for people.
COME_BACK_PAUSE_NS = 50 * 10**6
COME_BACK_PAUSE_MAX_NS = 1 * 10**9
# Bytes that broke off between two hosts, or a client and a host, are sent again for so long: after the grace the host is lost.
DATA_TRIES_NS = GRACE_NS
# An end that takes connections and does not answer is stopped or very busy, and is waited for so long in all.
UNANSWERED_NS = 120 * 10**9
# A controller that is gone is waited for so long: whoever watches it starts it again within a minute.
ORPHAN_NS = 120 * 10**9
# What the core was told since its last snapshot is kept in a file, which is begun anew when it holds so many bytes more than
# that, and so many times more. A megabyte is some ten thousand events, which are read in half a second.
LOG_BYTES_MIN = 4 << 20
LOG_PER_SNAPSHOT = 4
# The first frame of a stream must come within this; it needs no work on the other side.
HELLO_TIMEOUT_NS = 20 * 10**9
# Connecting to a link port takes a round trip or two. One behind a firewall that swallows packets is given up after two that were
# lost, well within the wait for a welcome, and gRPC is used.
LINK_DIAL_NS = 5 * 10**9
# A session waits this long for an island that is forming: executors start in seconds, a whole machine in tens of seconds.
SESSION_WAIT_NS = 30 * 10**9
# A door's hello is answered within the wait for an island and some time for the answer.
WELCOME_TIMEOUT_NS = SESSION_WAIT_NS + 10 * 10**9
# A read waits for the computation behind it, which may be a long one.
READ_NS = 3600 * 10**9
# Deadlines in the core are looked at this often.
TICK_NS = 100 * 10**6
# A client's callback that does not answer by then gets zeros and an error.
CALLBACK_TIMEOUT_NS = 30 * 10**9
# Streams get this long to take their last frame when the controller stops.
STOP_GRACE_NS = 2 * 10**9

# To read a program, not to compile it, in time of a core. One at its bound takes seconds; nobody else's is read meanwhile.
READ_PROGRAM_NS = 20 * 10**9

# A tool's question for a trace; the core gives the hosts 2 s to answer.
TRACE_TIMEOUT_NS = 5 * 10**9
# A tool's question for leaks; the core gives the hosts 10 s, since the question waits behind their work.
LEAKS_TIMEOUT_NS = 15 * 10**9
# A client that suspends or resumes a slice, which waits for its work and for the bytes of its arrays.
SLICE_CHANGE_NS = 600 * 10**9
# A tool that moves a slice; the core gives the work before it 60 s, and then copies.
MIGRATION_TIMEOUT_NS = 90 * 10**9

# What a host is given to describe itself, and what it gives its executor of that: whoever is asked at night wants an answer soon.
DIAGNOSIS_NS = 2 * 10**9
DIAGNOSIS_EXECUTOR_NS = 10**9

# ---- door -----------------------------------------------------------------------------------------------------------

# What a stock client may send ahead of the door's reads, about 400 requests. gRPC would widen it by itself, to 30,000 requests
# that the client holds in memory (80 MB).
DOOR_STREAM_WINDOW_BYTES = 65536
# Operations a client may have sent that the controller has not acknowledged; above it the door stops reading. Two frames' worth.
DOOR_OPERATIONS_MAX = 8192
# Releases gather until the end of a frame unless they hold more than this: memory is then given back at once.
RELEASE_BYTES_MAX = 1 << 20
# A small upload still on its way from the client is waited for this long before its frame leaves; then it takes a ticket.
SETTLE_NS = 5 * 10**6
# A bulk stream of one shard to a host; at 50 MB/s it carries 30 GB.
BULK_TIMEOUT_NS = 600 * 10**9
# A fence is one small message behind the client's earlier work, which the door reads on as the controller takes it.
FENCE_TIMEOUT_NS = 60 * 10**9
# Fences passed that nobody asked about yet; each is asked about at most once, by the call that sent it.
FENCES_MAX = 4096
# A slice is answered at once, or within its own time limit; this is for the way there and back on a busy machine.
SLICE_ANSWER_NS = 30 * 10**9
# Arguments of a run come right before it in the client's stream; those that are older belong to a call that was given up.
FEED_TIMEOUT_NS = 60 * 10**9
# Feeds whose run has not come yet: some per thread of the client. Above it the oldest goes.
FEEDS_MAX = 4096
