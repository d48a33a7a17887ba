"""Host callbacks on their way: from an executor to the client that owns the function, and the answer back.

An executor waits in the middle of a program, so every call is answered: by the client, by its deadline, or at once with
a failure if the client is gone. Call ids of hosts are unique on their host only; the core gives each call its own.
"""

from __future__ import annotations

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import CallId

from .effects import CallbackAbort, CallbackCancelled, CallbackReply, CallbackRequest
from .events import CallbackCalled, CallbackReturned
from .records import Call, Host, Island, Session
from .state import State


def on_callback_called(state: State, event: CallbackCalled) -> None:
    host = state.hosts.get(event.host)
    if host is None:
        state.ignore(event, "unknown host")
        return
    session = state.sessions.get(event.session)
    failure = None
    if session is None or session.number in state.pending:
        failure = state.failure(Reason.CANCELLED, f"the client of session {event.session} is gone")
    elif session.calls >= state.config.calls_max:
        message = f"{session.calls} callbacks of session {event.session} are unanswered, the most allowed"
        failure = state.failure(Reason.RESOURCE_EXHAUSTED, message, calls=session.calls)
    if failure is not None or session is None:
        state.tell(host, CallbackReply(event.call_id, b"", failure), urgent=True)
        return
    allowed_ns = min(event.timeout_ns, state.config.callback_ns) if event.timeout_ns > 0 else state.config.callback_ns
    call = Call(CallId(state.number()), session, host, event.call_id, state.now_ns + allowed_ns)
    state.calls[call.id] = call
    session.calls += 1
    state.reply(session, CallbackRequest(call.id, event.callback_id, event.operands, allowed_ns))


def on_callback_returned(state: State, event: CallbackReturned, session: Session) -> None:
    call = state.calls.get(event.call_id)
    if call is None or call.session is not session:
        state.ignore(event, "no such call")
        return
    _answer(state, call, event.results, event.failure)


def _answer(state: State, call: Call, results: bytes, failure: Failure | None) -> None:
    _forget(state, call)
    if state.hosts.get(call.host.name) is call.host:
        state.tell(call.host, CallbackReply(call.host_call_id, results, failure), urgent=True)


def _forget(state: State, call: Call) -> None:
    del state.calls[call.id]
    call.session.calls -= 1


def on_epoch_ended(state: State, island: Island) -> None:
    """Nobody waits for these answers any more."""
    for call in [call for call in state.calls.values() if call.host.island is island]:
        _forget(state, call)
        state.reply(call.session, CallbackCancelled(call.id))


def on_session_closed(state: State, session: Session) -> None:
    """Calls of a client that is gone return at once, now and later. Executors that make none need not keep it in mind."""
    told: dict[Host, None] = {}
    for call in [call for call in state.calls.values() if call.session is session]:
        told[call.host] = None
        _forget(state, call)
    for executable in session.executables.values():
        if executable.callback_ids:
            told.update(dict.fromkeys(executable.members))
    for host in told:
        if state.hosts.get(host.name) is host:
            state.tell(host, CallbackAbort(session.number), urgent=True)


def expire(state: State) -> None:
    for call in [call for call in state.calls.values() if call.deadline_ns <= state.now_ns]:
        message = "the callback did not return before its deadline; it may wait for a result of the program that calls it"
        failure = state.failure(Reason.TIMED_OUT, message, host=call.host.name)
        state.reply(call.session, CallbackCancelled(call.id))
        _answer(state, call, b"", failure)
