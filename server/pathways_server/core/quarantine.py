"""Programs that end executors: what ran when one died is remembered by content, and not run any more after the second time.

A death is that of the first gang which the member was given and had not finished: it ran, or was being launched, which is when
small programs run on CPU devices. If it was loading a program and no launch had been begun that is not finished, it is that
program's, unless it came through a load before: executors also place, spill and free beside it, and nobody is blamed then. Where
both went on, either may have done it: blamed is the one that never came through before, in any session of this life; if that does
not tell them apart, nobody is. Signals that code causes count (SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGFPE);
SIGKILL counts only if the host's memory ran out; whatever else ends an executor comes from outside. An administrator allows a
program again.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import GlobalId

from . import fusion, spans
from .audience import Audience, may_see
from .effects import KeepDeath
from .events import ExecutorLost
from .plan import Launch
from .records import Executable, Execution, Host
from .run_records import Span
from .share_records import Estimate
from .state import State
from .tenant_events import Death, DeathsRestored, ProgramAllowed
from .tenant_records import TenantName

_NAMES = {"signal 4": "SIGILL", "signal 6": "SIGABRT", "signal 7": "SIGBUS", "signal 8": "SIGFPE", "signal 11": "SIGSEGV"}
# What a worker says of an executor that the kernel killed for want of memory.
OUT_OF_MEMORY = "signal 9 (out of memory)"
_SHOWN = 12


def cause_of(exit_text: str) -> str:
    """The signal in words if a program can have caused it; else empty."""
    return "SIGKILL for want of memory" if exit_text == OUT_OF_MEMORY else _NAMES.get(exit_text, "")


def on_executor_lost(state: State, host: Host, event: ExecutorLost) -> None:
    """Called while the gangs of the epoch are still known."""
    signal = cause_of(event.exit)
    if not signal:
        return
    found = _blamed(state, host, event)
    if found is None:
        return
    executable, words = found
    tenant = executable.session.tenant.name
    death = Death(executable.program, words, tenant, host.name, signal, event.time_ns)
    _note(state, death)
    state.effects.append(KeepDeath(death))
    count = len(state.deaths[executable.program])
    state.log("a program ended an executor", program=short(executable.program), host=host.name, signal=signal, times=count)


def _blamed(state: State, host: Host, event: ExecutorLost) -> tuple[Executable, str] | None:
    """Whose death it is, and what that is called."""
    loading, running = _loading(host, event.loading), _running(host, event)
    if loading is None:
        return running
    has_loaded = _content(loading[0]).loaded
    begun = max(event.entered_through, event.launched_through) > max(host.finished_through, event.finished_through)
    if running is None or not begun:
        # Executors also place, spill and free beside a load, which is not the likelier cause if its program came through before.
        return None if has_loaded else loading
    loaded, ran = loading[0], running[0]
    has_run = _content(ran).ended
    if has_loaded != has_run:
        return running if has_loaded else loading
    if loaded.program == ran.program:
        return loading
    state.log("two programs may have ended an executor", programs=f"{short(loaded.program)},{short(ran.program)}", host=host.name)
    return None


def _content(executable: Executable) -> Estimate:
    """What is known of its content, by whatever session."""
    return executable.estimate.content or executable.estimate


def _loading(host: Host, identifier: GlobalId) -> tuple[Executable, str] | None:
    """What it was loading, also if nobody wants that any more, and whose it is."""
    executable = host.loads.get(identifier)
    return None if executable is None else (executable, _of(executable))


def _of(executable: Executable) -> str:
    client = executable.session.client
    return f"of {client}" if client else ""


def _running(host: Host, event: ExecutorLost) -> tuple[Executable, str] | None:
    """The first that was given to it and not finished, and what it is called."""
    finished = max(host.finished_through, event.finished_through)
    for last, gang in host.unfinished:
        if last <= finished:
            continue
        if isinstance(gang, Execution):
            return gang.executable, _of(gang.executable)
        return _node(host, gang, finished)
    return None


def _node(host: Host, span: Span, finished: int) -> tuple[Executable, str] | None:
    plan = span.run.plan
    for step, sequence in spans.own_launches(span, host):
        if sequence <= finished:
            continue
        group = fusion.group_at(span, step)
        launch = group.launch if group is not None else plan.steps[step]
        assert isinstance(launch, Launch)
        return launch.executable, f"node {plan.nodes[launch.node].name} of {plan.name}"
    return None


def _note(state: State, death: Death) -> None:
    state.deaths.setdefault(death.program, []).append(death)
    if len(state.deaths) > state.config.deadly_programs_max:
        del state.deaths[next(iter(state.deaths))]


def on_deaths_restored(state: State, event: DeathsRestored) -> None:
    """What earlier lives of the controller saw."""
    for death in event.deaths:
        _note(state, death)


def on_program_allowed(state: State, event: ProgramAllowed) -> None:
    """Its deaths are forgotten."""
    if state.deaths.pop(event.program, None) is not None:
        state.log("program allowed", program=short(event.program))


def short(program: str) -> str:
    """As people are shown a content."""
    return program[:_SHOWN]


def is_held(state: State, program: str) -> bool:
    """Whether a content is not run any more."""
    return len(state.deaths.get(program, ())) >= state.config.deaths_max


def refusal(state: State, executables: Iterable[Executable]) -> Failure | None:
    """Why these cannot be compiled or run; None if they can."""
    if not state.deaths:
        return None
    held = next((executable.program for executable in executables if is_held(state, executable.program)), None)
    if held is None:
        return None
    tenant = next(executable.session.tenant.name for executable in executables if executable.program == held)
    return failure_of(state, held, tenant)


def failure_of(state: State, program: str, audience: Audience) -> Failure:
    """Names the program, its deaths, and what allows it again; the program as the audience called it when it ran the same."""
    deaths = state.deaths[program]
    name = next((death.name for death in reversed(deaths) if death.name and may_see(audience, TenantName(death.tenant))), "")
    named = f"program {short(program)}" + (f" ({name})" if name else "")
    shown = "; ".join(f"{_when(death.time_ns)} on host {death.host} by {death.signal}" for death in deaths[-4:])
    message = (
        f"{named} ended {len(deaths)} executors ({shown}) and is not run any more; mend it, or have an administrator allow it:"
        f" pathways tenants allow {short(program)}"
    )
    return state.failure(Reason.PROGRAM_REFUSED, message, program=short(program), deaths=len(deaths))


def _when(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
