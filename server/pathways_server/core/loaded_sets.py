"""What an executor has loaded is bounded: when a load would be one too many, those go that were not used for longest.

None that is granted, that something in line or a program that is kept will use, or that is Python, is unloaded: with too many of
these the bound is passed. Who wants an unloaded one has it loaded again, from its image, before anything is granted; nobody else
notices.
"""

from __future__ import annotations

from .effects import Unload
from .records import NO_EPOCH, Executable, Execution, Host, Island
from .run_records import Run
from .state import State
from .transitions import ExecutableState


def enter(state: State, executable: Executable) -> None:
    """Its members are about to be told to load it; makes room for it."""
    limit = state.config.loaded_executables_max
    executable.used_ns = state.now_ns
    full: dict[str, Host] = {}
    for host in executable.members:
        host.executables_loaded += 1
        if host.executables_loaded > limit:
            full[host.name] = host
    if full:
        _make_room(state, executable.placement.island, full, limit)


def leave(executable: Executable) -> None:
    """Its members are told to unload it."""
    for host in executable.members:
        host.executables_loaded -= 1


def on_epoch_ended(island: Island) -> None:
    """Its executors are gone with all they had loaded."""
    for host in island.hosts.values():
        host.executables_loaded = 0


def _make_room(state: State, island: Island, full: dict[str, Host], limit: int) -> None:
    """An eighth more than is needed, so that looking for them does not cost every load a walk over all."""
    granted = _granted(island)
    idle = [
        executable
        for executable in island.executables.values()
        if executable.state is ExecutableState.LOADED
        and not (executable.queued or executable.waiters)
        and executable.id not in granted
    ]
    idle.sort(key=lambda executable: executable.used_ns)
    for executable in idle:
        if not full:
            return
        if _may_remember(executable) or not any(host.name in full for host in executable.members):
            continue
        state.move(executable, ExecutableState.IDLE)
        executable.epoch = NO_EPOCH
        leave(executable)
        for host in executable.members:
            state.tell(host, Unload((executable.id,)))
            host.executables_unloaded += 1
            if host.executables_loaded <= limit - limit // 8:
                full.pop(host.name, None)


def _may_remember(executable: Executable) -> bool:
    """Colocated Python has no code on devices, and a function may keep what it was not to forget."""
    return executable.facts is not None and executable.facts.holds_state


def _granted(island: Island) -> dict[int, None]:
    """Ids of what is granted and not over uses."""
    found: dict[int, None] = {}
    runs: list[Run] = list(island.runs.values())
    for gang in island.inflight:
        if isinstance(gang, Execution):
            found[gang.executable.id] = None
        else:
            runs.append(gang.run)
    for run in runs:
        program = run.definition.program
        found.update((computation.executable_id, None) for computation in program.computations)
        found.update((group.computation.executable_id, None) for group in program.fused)
    return found
