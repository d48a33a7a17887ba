"""Bulk bytes move under single-use tickets, and everything that was promised ends: by bytes, by a failure or by its deadline.

A ticket belongs to an upload (`ExpectUpload`) or to a fetch (`FetchShard` with a ticket). Calls may come before the command that
explains their ticket; they wait for it. A call whose connection broke leaves its ticket to another. A second use and a withdrawn
upload are read to the end and dropped, because failing an upload's own call harms the client more. A transfer of a run fails to
the executor, any other to the controller. The shell holds the bytes; here are only their names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import FetchId, TransferId

from .plans import RUN_NUMBERS
from .transfer_messages import Accept as Accept
from .transfer_messages import CallBroke as CallBroke
from .transfer_messages import CallEnded as CallEnded
from .transfer_messages import Deliver as Deliver
from .transfer_messages import DeliverFailure as DeliverFailure
from .transfer_messages import DeliverPulled as DeliverPulled
from .transfer_messages import Drop as Drop
from .transfer_messages import Effect as Effect
from .transfer_messages import Event as Event
from .transfer_messages import ExecutorChanged as ExecutorChanged
from .transfer_messages import FetchAnswered as FetchAnswered
from .transfer_messages import FetchExpected as FetchExpected
from .transfer_messages import Forget as Forget
from .transfer_messages import HostLeft as HostLeft
from .transfer_messages import PullBegan as PullBegan
from .transfer_messages import PushBegan as PushBegan
from .transfer_messages import PushEnded as PushEnded
from .transfer_messages import Refuse as Refuse
from .transfer_messages import ReportFailed as ReportFailed
from .transfer_messages import RunEnded as RunEnded
from .transfer_messages import Serve as Serve
from .transfer_messages import SessionEnded as SessionEnded
from .transfer_messages import ShardPulled as ShardPulled
from .transfer_messages import ShardPullWanted as ShardPullWanted
from .transfer_messages import StartPull as StartPull
from .transfer_messages import StopPull as StopPull
from .transfer_messages import TimePassed as TimePassed
from .transfer_messages import TransfersCancelled as TransfersCancelled
from .transfer_messages import UploadExpected as UploadExpected

# Tickets remembered after their use; a repetition comes within the life of a call.
SPENT_MAX = 65536
# Calls that wait for the command that explains their ticket: reads of all leaves of a large tree may, on a slow link.
EARLY_MAX = 65536
# What was sent is on its way, or lost with its connection, which its other end hears of and comes again.
LINGER_NS = 2 * 10**9
# The command may be behind much else in the controller's link, on a slow network; callers give up by themselves sooner or later.
EARLY_WAIT_NS = 600 * 10**9


@dataclass(slots=True)
class _Upload:
    transfer_id: TransferId
    ticket: str
    size_bytes: int
    deadline_ns: int
    call: int = 0


@dataclass(slots=True)
class _Fetch:
    fetch_id: FetchId
    ticket: str
    timeout_ns: int
    session: int = 0
    call: int = 0
    answered: bool = False
    # Its bytes are on their way to `call`; all of them were sent.
    served: bool = False
    lingers: bool = False
    failure: Failure | None = None
    # Counts once the bytes are there.
    deadline_ns: int = 0


@dataclass(slots=True)
class _Early:
    ticket: str
    pull: bool
    deadline_ns: int


class Transfers:
    """All transfers of one daemon. Every table is emptied by deadlines, so none outgrows what the controller asked for."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._uploads: dict[TransferId, _Upload] = {}
        self._fetches: dict[FetchId, _Fetch] = {}
        self._tickets: dict[str, _Upload | _Fetch] = {}
        self._calls: dict[int, _Upload | _Fetch] = {}
        self._early: dict[int, _Early] = {}
        # The early calls of a ticket, in the order in which they came.
        self._early_calls: dict[str, list[int]] = {}
        self._pulls: dict[TransferId, int] = {}
        # Used or withdrawn, and then the failure that whoever comes late gets.
        self._spent: dict[str, Failure] = {}

    @property
    def open_count(self) -> int:
        """Uploads, fetches, pulls and early calls that have not ended."""
        return len(self._uploads) + len(self.tickets()) + len(self._pulls) + len(self._early)

    def transfer_ids(self) -> list[TransferId]:
        """Uploads and pulls that have not ended."""
        return [*self._uploads, *self._pulls]

    def tickets(self) -> list[tuple[FetchId, int]]:
        """Fetches that somebody may pull, each with its session."""
        return [(fetch.fetch_id, fetch.session) for fetch in self._fetches.values() if not fetch.lingers]

    def step(self, now_ns: int, event: Event) -> list[Effect]:
        """What to do about one event."""
        match event:
            case UploadExpected(transfer_id, ticket, size_bytes, timeout_ns):
                upload = _Upload(transfer_id, ticket, size_bytes, now_ns + timeout_ns)
                self._uploads[transfer_id] = upload
                return self._explain(now_ns, upload)
            case FetchExpected(fetch_id, ticket, timeout_ns, session):
                fetch = _Fetch(fetch_id, ticket, timeout_ns, session)
                self._fetches[fetch_id] = fetch
                return self._explain(now_ns, fetch)
            case PushBegan(call, ticket) | PullBegan(call, ticket):
                return self._on_call(
                    now_ns, call, ticket, isinstance(event, PullBegan), isinstance(event, PullBegan) and event.again
                )
            case PushEnded():
                return self._on_push_ended(event)
            case FetchAnswered(fetch_id, failure):
                return self._on_fetch_answered(now_ns, fetch_id, failure)
            case CallEnded(call, lingers):
                return self._on_call_ended(now_ns, call, lingers)
            case CallBroke(call):
                return self._on_call_broke(call)
            case ShardPullWanted(transfer_id, timeout_ns):
                self._pulls[transfer_id] = now_ns + timeout_ns
                return [StartPull(transfer_id)]
            case ShardPulled(transfer_id, failure):
                if self._pulls.pop(transfer_id, None) is None:
                    return []
                return [DeliverPulled(transfer_id) if failure is None else _failed(transfer_id, failure)]
            case TransfersCancelled(transfer_ids):
                return [effect for transfer_id in transfer_ids for effect in self._withdraw(transfer_id)]
            case RunEnded():
                return self._on_run_ended(event)
            case SessionEnded(session):
                fetches = [fetch for fetch in self._fetches.values() if fetch.session == session]
                return [effect for fetch in fetches for effect in self._end_fetch(fetch, _SESSION_OVER)]
            case ExecutorChanged(failure):
                return self._on_executor_changed(failure)
            case HostLeft(failure):
                return [*self._on_executor_changed(failure), *self._end_early(list(self._early), failure)]
            case TimePassed():
                return self._on_time_passed(now_ns)
            case _:
                assert_never(event)

    def _explain(self, now_ns: int, entry: _Upload | _Fetch) -> list[Effect]:
        """The ticket is known now; a call that came early goes on."""
        self._spent.pop(entry.ticket, None)
        self._tickets[entry.ticket] = entry
        calls = self._early_calls.get(entry.ticket)
        if not calls:
            return []
        call = calls[0]
        return self._on_call(now_ns, call, entry.ticket, self._forget_early(call).pull)

    def _on_call(self, now_ns: int, call: int, ticket: str, pull: bool, again: bool = False) -> list[Effect]:
        entry = self._tickets.get(ticket)
        used = isinstance(entry, _Fetch) and entry.lingers and not again
        if entry is not None and not used and not entry.call and isinstance(entry, _Fetch) == pull:
            entry.call = call
            self._calls[call] = entry
            if isinstance(entry, _Upload):
                return [Accept(call, entry.size_bytes)]
            return self._serve(entry) if entry.answered else []
        if entry is None and ticket not in self._spent and len(self._early) < EARLY_MAX:
            self._early[call] = _Early(ticket, pull, now_ns + EARLY_WAIT_NS)
            self._early_calls.setdefault(ticket, []).append(call)
            return []
        if not pull:
            return [Drop(call)]
        if entry is not None:
            return [Refuse(call, _TICKET_USED)]
        return [Refuse(call, self._spent.get(ticket, _TICKET_UNKNOWN))]

    def _on_push_ended(self, event: PushEnded) -> list[Effect]:
        upload = self._calls.get(event.call)
        if not isinstance(upload, _Upload):
            return []
        self._forget_upload(upload)
        values = {"size_bytes": str(upload.size_bytes), "received_bytes": str(event.received_bytes)}
        if event.received_bytes == upload.size_bytes:
            return [Deliver(event.call, upload.transfer_id)]
        if event.received_bytes > upload.size_bytes:
            sentence = f"an upload of {upload.size_bytes} bytes had more bytes than that; send one array under one ticket"
            return [ReportFailed(upload.transfer_id, Failure(Reason.INVALID_ARGUMENT, sentence, metadata=values))]
        sentence = f"an upload broke off after {event.received_bytes} of {upload.size_bytes} bytes; put the array again"
        return [ReportFailed(upload.transfer_id, Failure(Reason.UNAVAILABLE, sentence, metadata=values, retryable=True))]

    def _on_fetch_answered(self, now_ns: int, fetch_id: FetchId, failure: Failure | None) -> list[Effect]:
        fetch = self._fetches.get(fetch_id)
        if fetch is None or fetch.answered:
            return [] if failure is not None else [Forget(fetch_id)]
        fetch.answered = True
        fetch.failure = failure
        fetch.deadline_ns = now_ns + fetch.timeout_ns
        return self._serve(fetch) if fetch.call else []

    def _serve(self, fetch: _Fetch) -> list[Effect]:
        call = fetch.call
        if fetch.failure is None:
            fetch.served = True
            return [Serve(call, fetch.fetch_id)]
        self._forget_fetch(fetch)
        return [Refuse(call, fetch.failure)]

    def _on_call_ended(self, now_ns: int, call: int, lingers: bool) -> list[Effect]:
        if call in self._early:
            self._forget_early(call)
        entry = self._calls.get(call)
        if isinstance(entry, _Upload):
            return self._on_push_ended(PushEnded(call, 0))
        if isinstance(entry, _Fetch):
            if entry.served and lingers:
                del self._calls[call]
                entry.call, entry.served, entry.lingers = 0, False, True
                entry.deadline_ns = now_ns + LINGER_NS
                return []
            # Bytes that come later find no fetch and are forgotten.
            self._forget_fetch(entry)
            return [Forget(entry.fetch_id)] if entry.served else []
        return []

    def _on_call_broke(self, call: int) -> list[Effect]:
        if call in self._early:
            self._forget_early(call)
        entry = self._calls.pop(call, None)
        if entry is None:
            return []
        entry.call = 0
        if isinstance(entry, _Upload):
            return [Drop(call)]
        entry.served = False
        return []

    def _withdraw(self, transfer_id: TransferId) -> list[Effect]:
        if self._pulls.pop(transfer_id, None) is not None:
            return [StopPull(transfer_id)]
        upload = self._uploads.get(transfer_id)
        if upload is None:
            return []
        self._forget_upload(upload)
        return [Drop(upload.call)] if upload.call else []

    def _on_run_ended(self, event: RunEnded) -> list[Effect]:
        effects: list[Effect] = []
        for transfer_id in event.transfer_ids:
            effects += [*self._withdraw(transfer_id), DeliverFailure(transfer_id, event.failure)]
        for fetch_id in event.fetch_ids:
            fetch = self._fetches.get(fetch_id)
            if fetch is not None:
                effects += self._end_fetch(fetch, event.failure)
        return effects

    def _on_executor_changed(self, failure: Failure) -> list[Effect]:
        effects: list[Effect] = []
        for transfer_id in [*self._pulls, *self._uploads]:
            effects += self._withdraw(transfer_id)
        for fetch in list(self._fetches.values()):
            effects += self._end_fetch(fetch, failure)
        return effects

    def _end_fetch(self, fetch: _Fetch, failure: Failure) -> list[Effect]:
        self._forget_fetch(fetch, failure)
        if fetch.call and not fetch.served:
            return [Refuse(fetch.call, failure)]
        return [Forget(fetch.fetch_id)] if fetch.answered and fetch.failure is None else []

    def _on_time_passed(self, now_ns: int) -> list[Effect]:
        effects: list[Effect] = []
        for upload in [upload for upload in self._uploads.values() if upload.deadline_ns <= now_ns]:
            effects += self._withdraw(upload.transfer_id)
            effects.append(ReportFailed(upload.transfer_id, self._late("an upload")))
        for transfer_id in [transfer_id for transfer_id, deadline_ns in self._pulls.items() if deadline_ns <= now_ns]:
            effects += self._withdraw(transfer_id)
            effects.append(_failed(transfer_id, self._late("a copy")))
        for fetch in [fetch for fetch in self._fetches.values() if _is_late(fetch, now_ns)]:
            effects += self._end_fetch(fetch, _TICKET_USED)
        late = [call for call, early in self._early.items() if early.deadline_ns <= now_ns]
        return effects + self._end_early(late, _TICKET_UNKNOWN)

    def _late(self, what: str) -> Failure:
        # In the controller's words: whose clock comes first is chance.
        sentence = f"the bytes of {what} did not reach host {self._host} in time; make the array again"
        return Failure(Reason.TIMED_OUT, sentence, host=self._host, retryable=True)

    def _end_early(self, calls: list[int], failure: Failure) -> list[Effect]:
        return [Refuse(call, failure) if self._forget_early(call).pull else Drop(call) for call in calls]

    def _forget_upload(self, upload: _Upload) -> None:
        del self._uploads[upload.transfer_id]
        self._spend(upload)

    def _forget_fetch(self, fetch: _Fetch, failure: Failure | None = None) -> None:
        del self._fetches[fetch.fetch_id]
        self._spend(fetch, failure)

    def _forget_early(self, call: int) -> _Early:
        early = self._early.pop(call)
        calls = self._early_calls[early.ticket]
        calls.remove(call)
        if not calls:
            del self._early_calls[early.ticket]
        return early

    def _spend(self, entry: _Upload | _Fetch, failure: Failure | None = None) -> None:
        self._calls.pop(entry.call, None)
        if self._tickets.get(entry.ticket) is entry:
            del self._tickets[entry.ticket]
        if len(self._spent) >= SPENT_MAX:
            # Half at once: taking single keys from the front of a dict costs more with each.
            for ticket in list(self._spent)[: SPENT_MAX // 2]:
                del self._spent[ticket]
        self._spent[entry.ticket] = _TICKET_USED if failure is None else failure


def _is_late(fetch: _Fetch, now_ns: int) -> bool:
    """Whether nobody came for its bytes; a call that takes them has a limit of its own."""
    return fetch.answered and not fetch.served and fetch.deadline_ns <= now_ns


def _failed(transfer_id: TransferId, failure: Failure) -> Effect:
    return (DeliverFailure if transfer_id >= RUN_NUMBERS else ReportFailed)(transfer_id, failure)


_TICKET_USED = Failure(Reason.INVALID_ARGUMENT, "this ticket was used or withdrawn; every read needs a ticket of its own")
_TICKET_UNKNOWN = Failure(
    Reason.INVALID_ARGUMENT, "no transfer with this ticket is known on this host; ask the controller for one"
)
_SESSION_OVER = Failure(Reason.CANCELLED, "the session that this was read for is over; connect again")
