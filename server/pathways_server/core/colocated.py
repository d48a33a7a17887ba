"""Colocated Python: a user's function on the hosts of its devices. Its results are PENDING until every host has told of them.

Nobody knows how long such a function takes, so a gang of it has ended for its hosts as soon as they have begun it. What needs a
result waits here and not on the devices, and other sessions go on. A result waits for one transfer per host, which a host ends by
telling that its shards have landed, or why they never will.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, TransferId

from . import transfers
from .effects import NO_TRANSFER
from .records import Buffer, Execution
from .state import State
from .transitions import BufferState

Landings = Mapping[HostName, tuple[TransferId, ...]]
NONE: Landings = MappingProxyType({})


def results_state(execution: Execution) -> BufferState:
    """The state of results before their execution is granted."""
    facts = execution.executable.facts
    return BufferState.PENDING if facts is not None and facts.python else BufferState.EXPECTED


def hold(results: list[Buffer]) -> None:
    """New PENDING results wait for their grant."""
    for result in results:
        result.pending = 1


def begin(state: State, execution: Execution) -> Landings:
    """At the grant: for each host the transfers by which it tells of the results, in their order."""
    session = execution.lane.session
    landings: dict[HostName, tuple[TransferId, ...]] = {}
    for host in execution.executable.members:
        told = []
        for result in execution.results:
            wanted = result.state is BufferState.PENDING
            allowed_ns = state.config.python_ns
            told.append(transfers.expect(state, result, host, 0, None, None, allowed_ns).id if wanted else NO_TRANSFER)
        landings[host.name] = tuple(told)
        # Its sidecar ends with the session.
        session.serving[host.name] = host
    for result in execution.results:
        if result.state is BufferState.PENDING:
            result.epoch = execution.lane.island.epoch
            transfers.arrived(state, result)
    return landings


def refusal(state: State, names: list[str]) -> Failure | None:
    """Nodes of a program are launched, and what is launched ends by itself."""
    if not names:
        return None
    message = f"colocated Python ({names[0]}) cannot be a node of a program; call it between two programs"
    return state.failure(Reason.UNSUPPORTED, message)
