"""What happens to transfers of bytes, and what `transfers` wants done about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pathways_common.model.failure import Failure
from pathways_common.model.ids import FetchId, TransferId


@dataclass(frozen=True, slots=True)
class UploadExpected:
    transfer_id: TransferId
    ticket: str
    size_bytes: int
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class PushBegan:
    """`call` numbers the calls of this daemon's life, pushes and pulls alike."""

    call: int
    ticket: str


@dataclass(frozen=True, slots=True)
class PushEnded:
    """An accepted push is over: it ended, broke, or sent too much. What cannot be told apart from here is told by the count."""

    call: int
    received_bytes: int


@dataclass(frozen=True, slots=True)
class FetchExpected:
    """The executor will answer this fetch; then the pull may be waited for `timeout_ns`. `session` 0: of the cluster itself."""

    fetch_id: FetchId
    ticket: str
    timeout_ns: int
    session: int = 0


@dataclass(frozen=True, slots=True)
class FetchAnswered:
    """The shell holds the bytes of this fetch, or there is a failure instead."""

    fetch_id: FetchId
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class PullBegan:
    """`again`: a call with this ticket broke before, so that what was sent may not have come."""

    call: int
    ticket: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call was answered. `lingers`: its bytes are few enough to be kept for a moment, in case that they do not arrive."""

    call: int
    lingers: bool = False


@dataclass(frozen=True, slots=True)
class CallBroke:
    """The other end of a call is gone before its end. It may come again with the same ticket."""

    call: int


@dataclass(frozen=True, slots=True)
class ShardPullWanted:
    """Bytes are to be pulled from another worker; the shell knows where."""

    transfer_id: TransferId
    timeout_ns: int


@dataclass(frozen=True, slots=True)
class ShardPulled:
    transfer_id: TransferId
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class TransfersCancelled:
    transfer_ids: tuple[TransferId, ...]


@dataclass(frozen=True, slots=True)
class SessionEnded:
    """Nobody will pull what was fetched for this session."""

    session: int


@dataclass(frozen=True, slots=True)
class RunEnded:
    """These pulls, and these fetches of others, belong to a run that ended; whoever waits for them gets `failure`.

    The pulls are those whose end the executor has not heard of, begun or not.
    """

    transfer_ids: tuple[TransferId, ...]
    fetch_ids: tuple[FetchId, ...]
    failure: Failure


@dataclass(frozen=True, slots=True)
class ExecutorChanged:
    """What was promised to or by the executor before is void; whoever waits for it gets `failure`."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class HostLeft:
    """The controller is done with this incarnation of the host: what it did not say by now, of a ticket too, it never will."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class TimePassed:
    pass


Event: TypeAlias = (
    UploadExpected
    | PushBegan
    | PushEnded
    | FetchExpected
    | FetchAnswered
    | PullBegan
    | CallEnded
    | CallBroke
    | ShardPullWanted
    | ShardPulled
    | TransfersCancelled
    | RunEnded
    | SessionEnded
    | ExecutorChanged
    | HostLeft
    | TimePassed
)


@dataclass(frozen=True, slots=True)
class Accept:
    """Take the bytes of this push, `size_bytes` and not one more."""

    call: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Read this push to its end and forget the bytes, also those taken so far."""

    call: int


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand the bytes of an accepted push to the executor."""

    call: int
    transfer_id: TransferId


@dataclass(frozen=True, slots=True)
class Serve:
    """Send the bytes of the fetch to the caller."""

    call: int
    fetch_id: FetchId


@dataclass(frozen=True, slots=True)
class Refuse:
    """End this pull with a failure."""

    call: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Forget:
    """Nobody wants the bytes of this fetch."""

    fetch_id: FetchId


@dataclass(frozen=True, slots=True)
class StartPull:
    transfer_id: TransferId


@dataclass(frozen=True, slots=True)
class StopPull:
    transfer_id: TransferId


@dataclass(frozen=True, slots=True)
class DeliverPulled:
    """Hand the bytes that were pulled to the executor."""

    transfer_id: TransferId


@dataclass(frozen=True, slots=True)
class ReportFailed:
    """Tell the controller that these bytes will not land."""

    transfer_id: TransferId
    failure: Failure


@dataclass(frozen=True, slots=True)
class DeliverFailure:
    """Tell the executor that these bytes of a run will not come."""

    transfer_id: TransferId
    failure: Failure


Effect: TypeAlias = (
    Accept | Drop | Deliver | Serve | Refuse | Forget | StartPull | StopPull | DeliverPulled | ReportFailed | DeliverFailure
)
