"""Leaks: what hosts hold and nobody owns. Every host is asked at once, daemon and executor, and answers in its turn.

The answers are compared with what the core took the host to hold at the moment of the question. What the controller itself keeps
without an open session is looked at in the same moment.
"""

from __future__ import annotations

from pathways_common.model.ids import GlobalId, SessionNumber, session_of

from . import holdings
from .events import HoldingsReported, LeaksRequested
from .leak_records import Census, HeldKind, Leak, LeaksFound, ReportHoldings
from .state import State

CONTROLLER = "controller"


def on_leaks_requested(state: State, event: LeaksRequested) -> None:
    belief = holdings.believe(state)
    census = Census(event.request_id, belief.last_number, belief, state.now_ns + state.config.leaks_ns)
    census.leaks += _own(state)
    for name, known in belief.hosts.items():
        for daemon in (True, False) if known.epoch else (True,):
            census.due[name, daemon] = None
            census.told[name, daemon] = []
        state.tell(known.host, ReportHoldings(census.number))
    state.censuses[census.number] = census
    if not census.due:
        _answer(state, census)


def on_holdings_reported(state: State, event: HoldingsReported) -> None:
    census = state.censuses.get(event.number)
    key = event.host, event.daemon
    if census is None or key not in census.due:
        state.ignore(event, "nobody asks for this")
        return
    known = census.belief.hosts[event.host]
    if event.epoch != known.epoch:
        _lose(state, census, event)
        return
    census.told[key] += event.objects
    census.left_out += event.left_out
    if event.more:
        return
    objects = census.told.pop(key)
    del census.due[key]
    census.objects += sum(len(each.ids) for each in objects)
    census.leaks += holdings.differences(census.belief, known, event.daemon, objects, event.launched_through)
    if not census.due:
        _answer(state, census)


def _lose(state: State, census: Census, event: HoldingsReported) -> None:
    """Another executor than the one that was asked about, or none: what it holds says nothing about the question."""
    census.lost[event.host] = None
    for daemon in (True, False):
        census.due.pop((event.host, daemon), None)
    if not census.due:
        _answer(state, census)


def _answer(state: State, census: Census) -> None:
    del state.censuses[census.number]
    kept = state.config.leaks_max
    late = tuple(dict.fromkeys(host for host, _ in census.due))
    hosts = tuple(host for host in census.belief.hosts if host not in late and host not in census.lost)
    leaks = tuple(census.leaks[:kept])
    left_out = census.left_out + len(census.leaks) - len(leaks)
    found = LeaksFound(census.request_id, leaks, hosts, late, tuple(census.lost), census.objects, left_out)
    state.effects.append(found)


def expire(state: State) -> None:
    """Answers with what has come: at the deadline, and as soon as whoever is out will never answer."""
    for census in list(state.censuses.values()):
        for name, daemon in list(census.due):
            known = census.belief.hosts[name]
            gone = state.hosts.get(name) is not known.host
            if gone or (not daemon and (known.host not in known.host.island.members or known.host.island.epoch != known.epoch)):
                census.due.pop((name, daemon))
                census.lost[name] = None
        if not census.due or census.deadline_ns <= state.now_ns:
            _answer(state, census)


def _own(state: State) -> list[Leak]:
    """What the controller keeps for sessions that are over."""
    found: dict[int, tuple[str, SessionNumber, int]] = {}
    for reader in state.readers.values():
        found[reader.number] = (type(reader).__name__.upper(), reader.session.number, 0)
    for transfer in state.transfers.values():
        found[transfer.id] = ("TRANSFER", transfer.buffer.session.number, 0)
    for call in state.calls.values():
        found[call.id] = ("CALL", call.session.number, 0)
    for inspect in state.inspects.values():
        found[inspect.number] = ("INSPECTION", inspect.session.number, 0)
    for record in state.slices.values():
        found[record.number] = ("SLICE", record.session.number, 0)
    for island in state.islands.values():
        for executable in island.executables.values():
            found[executable.id] = (HeldKind.EXECUTABLE.name, session_of(GlobalId(executable.id)), 0)
    return [
        Leak(CONTROLLER, kind, identifier, size_bytes, session, False, "")
        for identifier, (kind, session, size_bytes) in found.items()
        if session not in state.sessions
    ]
