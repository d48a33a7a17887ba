"""Which hosts owe an answer beside their gangs, and what, in words for people: loads, plans, reads, bytes, inspections, spills.

Whether one is slow cannot be told from that: a compilation, the bytes of a client and a value that is not computed may take any
time. It is only why a host is asked whether its executor lives.
"""

from __future__ import annotations

from collections.abc import Iterator

from pathways_common.model.ids import local_id

from .read_records import Copy, Wait
from .records import Buffer, Executable, Host, Reader, Transfer
from .state import State
from .transitions import BufferState, ExecutableState


def owed(state: State) -> dict[Host, str]:
    """By host, the first of what it owes."""
    found: dict[Host, str] = {}
    for host, words in _all(state):
        found.setdefault(host, words)
    return found


def _all(state: State) -> Iterator[tuple[Host, str]]:
    for island in state.islands.values():
        for executable in island.executables.values():
            if executable.state is ExecutableState.LOADING:
                yield from ((host, f"did not load {_name(executable)}") for host in _loading(executable))
    for plan in state.agreements.values():
        for host in plan.bound.due.values() if plan.bound is not None else ():
            yield host, f"did not say how it understood program {plan.name}"
    for reader in state.readers.values():
        if reader.sent:
            yield from _read_from(state, reader)
    for transfer in state.transfers.values():
        yield transfer.host, f"did not take {_bytes(transfer)}"
    for inspect in state.inspects.values():
        if inspect.host is not None:
            yield inspect.host, f"was not inspected for {_name(inspect.executable)}"
    for moving in state.moving.values():
        verb = "spill" if moving.buffer.state is BufferState.SPILLING else "restore"
        yield from ((host, f"did not {verb} {_array(moving.buffer)}") for host in moving.due.values())


def _loading(executable: Executable) -> list[Host]:
    due, untold = executable.answers_due, executable.untold
    return [host for host in executable.members if host.name in due and host.name not in untold]


def _read_from(state: State, reader: Reader) -> Iterator[tuple[Host, str]]:
    match reader:
        case Wait():
            hosts = [state.hosts[name] for name in reader.hosts_due if name in state.hosts]
            yield from ((host, f"did not say that {_array(reader.buffers[0])} is ready") for host in hosts)
        case Copy():
            for buffer in reader.buffers:
                hosts = list(buffer.placement.hosts) if buffer.placement is not None else []
                yield from ((host, f"did not give {_array(buffer)}, which is copied") for host in hosts)
        case _:
            buffer = reader.buffers[0]
            placement = buffer.placement
            assert placement is not None, "what is read from a host has a place"
            what = f"shard {reader.shard} of {_array(buffer)}"
            yield placement.shards[reader.shard].host, f"did not give {what}"


def _name(executable: Executable) -> str:
    facts = executable.facts
    return f"program {facts.name if facts is not None and facts.name else local_id(executable.id)}"


def _array(buffer: Buffer) -> str:
    return f"array {local_id(buffer.id)}"


def _bytes(transfer: Transfer) -> str:
    what = "an upload" if transfer.upload is not None else "a copy" if transfer.copy is not None else "a result"
    return f"the bytes of {what}, {_array(transfer.buffer)}"
