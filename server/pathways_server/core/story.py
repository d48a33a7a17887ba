"""What happened to one thing, in words and in order of time, from the notes of history.py.

A tenant is told of its own sessions and their work, and of hosts and islands, which everybody sees; but not of the last words of
executors, which may be anybody's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId, local_id, session_of

from . import obstacles, why
from .history import EventNote, WorkNote
from .state import State
from .tenant_records import TenantName
from .transitions import ExecutionState

KINDS = ("SESSION", "RUN", "PROGRAM", "SLICE", "HOST", "ISLAND", "FAILURE")
LINES_MAX = 400
# Of a session, the work that is told in full; the rest is counted.
_WORK_MAX = 20
_MILLISECOND_NS = 1_000_000
_FOLLOWERS_MAX = 20
_HIDDEN = frozenset(("stderr_tail",))
# What happens to hosts is told to everybody.
_OF_HOSTS = (Reason.SLICE_LOST, Reason.BUFFER_LOST)
# Fields that name what a line is about, before its words.
_SUBJECTS = ("host", "island", "session")


class Told(NamedTuple):
    at_ns: int
    subject: str
    text: str


def title(kind: str, number: int, name: str) -> str:
    """What was asked about, for people."""
    if kind in ("HOST", "ISLAND", "FAILURE"):
        return f"{kind.lower()} {name}"
    return f"session {number}" if kind == "SESSION" else f"{kind.lower()} {obstacles.name_of(number)}"


def tell(state: State, now_ns: int, kind: str, number: int, name: str, tenant: TenantName | None) -> list[Told]:
    """The whole story as far as it is remembered; empty if there is none, or none for this tenant."""
    match kind:
        case "SESSION":
            lines = [*_events(state, tenant, (("session", str(number)),)), *_work_of_session(state, number, tenant)]
        case "RUN":
            lines = _run(state, now_ns, number, tenant)
        case "PROGRAM":
            lines = [*_events(state, tenant, (("program", str(number)),)), *_work_of_program(state, number, tenant)]
        case "SLICE":
            fields = (("session", str(session_of(GlobalId(number)))), ("slice", str(local_id(GlobalId(number)))))
            lines = list(_events(state, tenant, fields))
        case "HOST":
            lines = [*_events(state, tenant, (("host", name),)), *_failures_on(state, name, tenant)]
        case "ISLAND":
            lines = list(_events(state, tenant, (("island", name),)))
        case "FAILURE":
            lines = _failure(state, name, tenant)
        case _:
            lines = []
    return sorted(lines, key=lambda line: line.at_ns)[-LINES_MAX:]


def recent(state: State, count: int, administrator: bool) -> list[Told]:
    """The last lines about hosts and islands."""
    found = [note for note in state.history.events() if _about(note) in ("host", "island") and not _of_a_session(note)]
    return [_told(note, administrator) for note in found[-count:]]


# ---- events -----------------------------------------------------------------------------------------------------------


def _events(state: State, tenant: TenantName | None, wanted: tuple[tuple[str, str], ...]) -> Iterator[Told]:
    for note in state.history.events():
        fields = dict(note.fields)
        if all(value in (fields.get(name), *_among(fields, name)) for name, value in wanted) and _visible(state, fields, tenant):
            yield _told(note, tenant is None)


def _among(fields: dict[str, str], name: str) -> list[str]:
    """Lists of names in one field."""
    return fields.get(f"{name}s", "").split(",")


def _visible(state: State, fields: dict[str, str], tenant: TenantName | None) -> bool:
    session = fields.get("session", "")
    if tenant is None or not session:
        return True
    return session.isdecimal() and state.history.tenant_of(int(session)) == tenant


def _about(note: EventNote) -> str:
    return next((name for name in _SUBJECTS if any(key == name for key, _ in note.fields)), "")


def _of_a_session(note: EventNote) -> bool:
    return any(key == "session" for key, _ in note.fields)


def _told(note: EventNote, administrator: bool) -> Told:
    about = _about(note)
    fields = [(name, value) for name, value in note.fields if value and (administrator or name not in _HIDDEN)]
    subject = next((f"{name} {value}" for name, value in fields if name == about), "")
    if note.phrase.endswith(" is"):
        state_name = next(value for name, value in fields if name == "state")
        rest = [(name, value) for name, value in fields if name not in ("state", about)]
        return Told(note.at_ns, subject, f"{_moved(note.phrase, rest)} is now {state_name}{_facts(rest)}")
    return Told(note.at_ns, subject, f"{note.phrase}{_facts([field for field in fields if field[0] != about])}")


def _moved(phrase: str, fields: list[tuple[str, str]]) -> str:
    """Of "program is" with its number: "program 3.5"."""
    what = phrase.removesuffix(" is")
    number = next((value for name, value in fields if name == what), "")
    fields[:] = [field for field in fields if field[0] != what]
    if what == "program" and number.isdecimal():
        number = obstacles.name_of(int(number))
    return f"{what} {number}".strip() if number else "it"


def _facts(fields: list[tuple[str, str]]) -> str:
    return " (" + ", ".join(f"{name} {value}" for name, value in fields) + ")" if fields else ""


# ---- work -------------------------------------------------------------------------------------------------------------


def _own(state: State, tenant: TenantName | None) -> Iterator[WorkNote]:
    return (note for note in state.history.work() if tenant in (None, note.tenant))


def _run(state: State, now_ns: int, number: int, tenant: TenantName | None) -> list[Told]:
    notes = [note for note in _own(state, tenant) if note.id == number]
    lines = list(_sentences(notes))
    answer = why.of_work(state, now_ns, GlobalId(number), tenant)
    if answer.known:
        lines.append(Told(now_ns, f"run {obstacles.name_of(number)}", f"now: {'; '.join(answer.sentences)}"))
    return lines


def _sentences(notes: list[WorkNote]) -> Iterator[Told]:
    """Of one piece of work."""
    if not notes:
        return
    first = notes[0]
    subject = f"run {obstacles.name_of(first.id)}"
    if first.requested_ns:
        yield Told(first.requested_ns, subject, f"asked for by tenant {first.tenant}: {_program(first)}")
    granted_ns = 0
    for note in notes:
        yield Told(note.at_ns, subject, _sentence(note, granted_ns))
        if note.what is ExecutionState.GRANTED:
            granted_ns = note.at_ns


def _sentence(note: WorkNote, granted_ns: int) -> str:
    if isinstance(note.what, Failure):
        return _cause(note.what)
    if isinstance(note.what, str):
        return f"waits for {note.what}"
    match note.what:
        case ExecutionState.GRANTED:
            gang = f" as gang {note.sequence} of epoch {note.epoch}" if note.sequence else ""
            return f"granted on island {note.where}{gang}, {_after(note.at_ns - note.requested_ns)}"
        case ExecutionState.FINISHED:
            after = f", {_span(note.at_ns - granted_ns)} after its grant" if granted_ns else ""
            return f"finished on all its hosts{after}" if note.where else f"all of it is over{after}"
        case ExecutionState.FAILED:
            return "failed; what it would have made is poisoned"
        case _:
            return note.what.name.lower()


def _program(note: WorkNote) -> str:
    return f"program {obstacles.name_of(note.program)}" if isinstance(note.program, int) else f"program {note.program}"


def _cause(failure: Failure) -> str:
    host = f" host={failure.host}" if failure.host else ""
    return f"failed: {failure.message} [reason={failure.reason.value}{host} id={failure.id}]"


def _after(length_ns: int) -> str:
    return f"{_span(length_ns)} after it was asked for" if length_ns >= _MILLISECOND_NS // 10 else "at once"


def _span(length_ns: int) -> str:
    if length_ns >= 1000 * _MILLISECOND_NS:
        return f"{length_ns / 1e9:.1f} s"
    return f"{length_ns / _MILLISECOND_NS:.1f} ms"


def _work_of_session(state: State, number: int, tenant: TenantName | None) -> list[Told]:
    return _summary([note for note in _own(state, tenant) if session_of(GlobalId(note.id)) == number], f"session {number}")


def _work_of_program(state: State, number: int, tenant: TenantName | None) -> list[Told]:
    notes = [note for note in _own(state, tenant) if note.program == number]
    return _summary(notes, f"program {obstacles.name_of(number)}")


def _summary(notes: list[WorkNote], subject: str) -> list[Told]:
    """One line for each of the last pieces of work, and for all that failed; how much else there was."""
    by_id: dict[int, list[WorkNote]] = {}
    for note in notes:
        by_id.setdefault(note.id, []).append(note)
    shown = list(by_id)[-_WORK_MAX:]
    failed = [number for number, own in by_id.items() if any(isinstance(note.what, Failure) for note in own)]
    lines = [_brief(by_id[number]) for number in dict.fromkeys((*failed, *shown))]
    left_out = len(by_id) - len(lines)
    if left_out:
        lines.append(Told(notes[0].at_ns, subject, f"{left_out} pieces of work that did not fail, before the last {len(shown)}"))
    return lines


def _brief(notes: list[WorkNote]) -> Told:
    """The whole of one piece of work in a line, at the time of its last note."""
    parts, granted_ns = [_program(notes[0])], 0
    for note in notes:
        if note.what is ExecutionState.GRANTED:
            parts.append(f"granted {_after(note.at_ns - note.requested_ns)}")
            granted_ns = note.at_ns
        elif note.what is ExecutionState.FINISHED:
            parts.append(f"finished {_span(note.at_ns - granted_ns)} later" if granted_ns else "finished")
        elif note.what is not ExecutionState.FAILED:
            parts.append(_sentence(note, granted_ns))
    return Told(notes[-1].at_ns, f"run {obstacles.name_of(notes[0].id)}", "; ".join(parts))


# ---- failures ---------------------------------------------------------------------------------------------------------


def _failure(state: State, identifier: str, tenant: TenantName | None) -> list[Told]:
    """Its cause as the first that met it was told, where that was, and who else failed for it."""
    notes = [note for note in _own(state, tenant) if isinstance(note.what, Failure) and note.what.id == identifier]
    known = state.history.cause(identifier)
    if known is None or (tenant is not None and not notes and known[1].reason not in _OF_HOSTS):
        return []
    at_ns, cause = known
    subject = f"failure {identifier}"
    metadata = {name: value for name, value in cause.metadata.items() if value and (tenant is None or name not in _HIDDEN)}
    lines = [Told(at_ns, subject, _cause(cause))]
    if metadata:
        lines.append(Told(at_ns, subject, "where: " + ", ".join(f"{name}={value}" for name, value in metadata.items())))
    hit = list(dict.fromkeys((note.at_ns, note.id) for note in notes))
    for hit_ns, number in hit[:_FOLLOWERS_MAX]:
        lines.append(Told(hit_ns, f"run {obstacles.name_of(number)}", "failed for this cause"))
    if len(hit) > _FOLLOWERS_MAX:
        lines.append(Told(hit[-1][0], subject, f"and {len(hit) - _FOLLOWERS_MAX} more failed for it"))
    return lines


def _failures_on(state: State, host: str, tenant: TenantName | None) -> Iterable[Told]:
    """Each failure that happened first on this host, once."""
    seen: dict[str, None] = {}
    for note in _own(state, tenant):
        failure = note.what
        if isinstance(failure, Failure) and failure.host == host and failure.id not in seen:
            seen[failure.id] = None
            yield Told(note.at_ns, f"run {obstacles.name_of(note.id)}", _cause(failure))
