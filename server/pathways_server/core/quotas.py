"""Limits of a tenant, and what it has in use: programs granted and not over, bytes of its arrays, sessions, devices.

Work beyond a limit waits in the tenant's line, in order and visibly, or fails at once, as the tenant has it (`Declared.waits`);
what is larger than a whole limit fails at once in any case. Who holds a place in the line and comes to wait for something else
leaves it, so that nobody waits behind work that could not go anyway. A limit below what is in use takes nothing away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.sizes import size_text

from .read_records import Copy
from .records import Buffer, Execution, HeldArray, Session
from .run_records import Run
from .state import State
from .tenant_records import Tenant, Waiting

if TYPE_CHECKING:
    from .tenant_records import Line

Work = Execution | Run


# ---- what is in use ---------------------------------------------------------------------------------------------------


def bytes_of(buffer: Buffer) -> int:
    """Over all devices."""
    return buffer.shard_bytes * len(buffer.placement.positions) if buffer.placement is not None else 0


def missing_bytes(buffer: Buffer) -> int:
    """What is not booked of it yet: an array that has room in the quota and waits for a device has none missing."""
    return bytes_of(buffer) - buffer.booked_bytes


def book(buffer: Buffer) -> None:
    """Its bytes are held from here on. A second name for the bytes of others holds none."""
    if not buffer.booked_bytes and not buffer.origins:
        buffer.booked_bytes = size = bytes_of(buffer)
        buffer.session.tenant.held_bytes += size


def unbook(state: State, buffer: Buffer) -> None:
    """They are not held any more."""
    if buffer.booked_bytes:
        tenant = buffer.session.tenant
        tenant.held_bytes -= buffer.booked_bytes
        buffer.booked_bytes = 0
        if tenant.memory_line:
            look_again(state, tenant)


def integrate(state: State) -> None:
    """Adds what is held since the last look; called at every tick."""
    passed_ns = state.now_ns - state.integrated_ns
    state.integrated_ns = state.now_ns
    for tenant in state.tenants.values():
        tenant.byte_ns += tenant.held_bytes * passed_ns


def ended(state: State, tenant: Tenant) -> None:
    """All that was granted of a program is over."""
    tenant.running -= 1
    if tenant.program_line:
        look_again(state, tenant)


def devices_of(tenant: Tenant) -> int:
    """Devices of its open sessions and their slices; what several sessions share is counted by each."""
    return sum(
        session.primary_count + sum(len(held.positions) for held in session.slices.values())
        for session in tenant.sessions.values()
    )


# ---- work -------------------------------------------------------------------------------------------------------------


def refusal(state: State, session: Session) -> Failure | None:
    """Why a tenant that has it so may ask for no further program now."""
    tenant = session.tenant
    limit = tenant.declared.programs_max
    if not limit or tenant.declared.waits or tenant.running + tenant.queued < limit:
        return None
    count = tenant.running + tenant.queued
    message = (
        f"tenant {tenant.name} has {count} programs in flight and its administrator allows {limit} (max_programs);"
        f" wait for results first, or let work wait for room: pathways tenants set {tenant.name} --over wait"
    )
    return state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True, tenant=tenant.name, programs=count, limit=limit)


def obstacle(state: State, work: Work, tenant: Tenant) -> str | Failure:
    """What of the tenant's limits, if it has any, holds up work that could go otherwise; empty if nothing. It is in line then."""
    declared = tenant.declared
    limit = declared.programs_max
    if limit and not _has_turn(tenant.program_line, work, limit - tenant.running):
        text = f"room in the quota of tenant {tenant.name}: {limit} programs at once (max_programs, set by its administrator)"
        _leave_line(state, tenant.memory_line, work, tenant)
        _enter(state, tenant.program_line, work, text, 0)
        return text
    held_up = memory_obstacle(state, work, needed_bytes(work), tenant) if declared.memory_bytes_max else ""
    if held_up:
        _leave_line(state, tenant.program_line, work, tenant)
    return held_up


def lets_through(work: Work, tenant: Tenant) -> bool:
    """Whether nothing of the tenant's limits concerns work that is not in line."""
    declared = tenant.declared
    if declared.programs_max and tenant.running + len(tenant.program_line) >= declared.programs_max:
        return False
    limit = declared.memory_bytes_max
    if not limit:
        return True
    needed = needed_bytes(work)
    return needed <= 0 or (not tenant.memory_line and tenant.held_bytes + needed <= limit)


def memory_obstacle(state: State, work: Work | Copy | HeldArray, needed: int, tenant: Tenant) -> str | Failure:
    """The same for memory alone: arrays that are uploaded or copied ask too."""
    limit = tenant.declared.memory_bytes_max
    if not limit or needed <= 0:
        return ""
    if needed > limit:
        message = (
            f"this needs {size_text(needed)} and tenant {tenant.name} may hold {size_text(limit)} over all devices (max_memory,"
            " set by its administrator); make it smaller, or have the quota raised"
        )
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, tenant=tenant.name, needed_bytes=needed, limit_bytes=limit)
    first = next(iter(tenant.memory_line), work)
    if first is work and tenant.held_bytes + needed <= limit:
        return ""
    held = size_text(tenant.held_bytes)
    if not tenant.declared.waits:
        message = (
            f"this needs {size_text(needed)}; tenant {tenant.name} holds {held} of {size_text(limit)} (max_memory, set by its"
            f" administrator): delete arrays first, or let work wait for room: pathways tenants set {tenant.name} --over wait"
        )
        return state.failure(
            Reason.RESOURCE_EXHAUSTED, message, retryable=True, tenant=tenant.name, needed_bytes=needed,
            held_bytes=tenant.held_bytes, limit_bytes=limit,
        )  # fmt: skip
    text = f"room in the quota of tenant {tenant.name}: {size_text(limit)} of memory (max_memory, set by its administrator)"
    _enter(state, tenant.memory_line, work, text, needed)
    return text


def needed_bytes(work: Work) -> int:
    """What its results add to what is held: donated arguments that nobody else may read give theirs."""
    if isinstance(work, Run):
        made = sum(placed.spec.shard_bytes * len(placed.placement.positions) for placed in work.plan.result_specs)
        return made - _given(work, work.donated)
    executable = work.executable
    assert executable.facts is not None
    made = sum(executable.facts.output_shard_bytes) * len(executable.placement.positions)
    return made - _given(work, [index for index in executable.donated if index not in work.non_donatable])


def _given(work: Work, donated: Collection[int]) -> int:
    """The bytes of these arguments that a grant consumes: nobody else reads them, nor another argument, not even as a view."""
    if not donated:
        return 0
    wholes = [handle if isinstance(handle, Buffer) else handle.whole for handle in work.arguments]
    taken = Counter(wholes)
    given = [wholes[index] for index in donated if index < len(wholes) and taken[wholes[index]] == 1]
    return sum(buffer.booked_bytes for buffer in given if buffer is not None and not _is_shared(buffer))


def _is_shared(buffer: Buffer) -> bool:
    return bool(buffer.handles > 1 or buffer.readers or buffer.held or buffer.aliases or buffer.origins)


# ---- the lines --------------------------------------------------------------------------------------------------------


def _has_turn(line: Line, work: Work, room: int) -> bool:
    """Whether there is room for it behind all who came before."""
    if room <= 0:
        return False
    return work in islice(line, room) if work in line else len(line) < room


def _enter(state: State, line: Line, work: Work | Copy | HeldArray, text: str, needed: int) -> None:
    """At the end, or where it stands already: what it waits for may have another name by now, as when the limit is set anew."""
    known = line.get(work)
    deadline_ns = state.now_ns + state.config.quota_wait_ns if known is None else known.deadline_ns
    line[work] = Waiting(text, deadline_ns, needed)


def _leave_line(state: State, line: Line, work: Work | Copy | HeldArray, tenant: Tenant) -> None:
    if line.pop(work, None) is not None:
        look_again(state, tenant)


def leave(state: State, work: Work | Copy | HeldArray, tenant: Tenant) -> None:
    """It waits for no limit any more."""
    if not tenant.program_line and not tenant.memory_line:
        return
    _leave_line(state, tenant.program_line, work, tenant)
    _leave_line(state, tenant.memory_line, work, tenant)


def stalled(state: State, work: Work, tenant: Tenant, text: str) -> None:
    """It waits for `text` now; if that is none of its limits, others in line go before it."""
    if not tenant.program_line and not tenant.memory_line:
        return
    place = tenant.program_line.get(work) or tenant.memory_line.get(work)
    if place is not None and place.text != text:
        leave(state, work, tenant)


def look_again(state: State, tenant: Tenant) -> None:
    """There may be room for those in line: they are looked at before the step ends."""
    if not tenant.woken:
        tenant.woken = True
        state.woken.append(tenant)


def forget(state: State, buffer: Buffer) -> None:
    """An array that will not be placed any more."""
    tenant = buffer.session.tenant
    for held in [held for held in tenant.memory_line if isinstance(held, HeldArray) and held.buffer is buffer]:
        assert buffer.placement is not None
        buffer.placement.island.keeping.leave(buffer.session.number, tenant.name, held.inline_bytes)
        leave(state, held, tenant)


# ---- sessions and devices ---------------------------------------------------------------------------------------------


def view_of(session: Session, device_count: int) -> int:
    """How many devices a session is shown of so many: those that its tenant may have."""
    limit = session.tenant.declared.devices_max
    return min(device_count, limit) if limit else device_count


def opening_obstacle(state: State, session: Session, device_count: int) -> str | Failure:
    """What holds up a session that could be opened with so many devices: a limit, or others of the tenant in front."""
    tenant = session.tenant
    declared = tenant.declared
    opened = [other for other in tenant.sessions.values() if other.number not in state.pending]
    in_use = devices_of(tenant)
    if declared.sessions_max and len(opened) >= declared.sessions_max:
        text = f"{declared.sessions_max} sessions at once (max_sessions, set by its administrator)"
    elif declared.devices_max and in_use + device_count > declared.devices_max:
        text = f"{declared.devices_max} devices (max_devices, set by its administrator), of which {in_use} are in use"
    elif any(other.blocked_on for other in takewhile(lambda other: other is not session, tenant.sessions.values())):
        text = "an earlier session of it waits for room"
    else:
        return ""
    if declared.waits:
        return f"room in the quota of tenant {tenant.name}: {text}"
    message = (
        f"the quota of tenant {tenant.name} has no room for a session with {device_count} devices: {text}; close a session or"
        f" release slices first, or let sessions wait for room: pathways tenants set {tenant.name} --over wait"
    )
    return state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True, tenant=tenant.name, devices=device_count)


def slice_obstacle(state: State, session: Session, count: int) -> str | Failure:
    """What holds up a slice of so many devices."""
    tenant = session.tenant
    limit = tenant.declared.devices_max
    in_use = devices_of(tenant)
    if not limit or in_use + count <= limit:
        return ""
    own = f"{limit} devices (max_devices, set by its administrator), of which {in_use} are in use"
    if session.primary_count + count > limit:
        message = (
            f"a slice of {count} devices beside the session's own {session.primary_count} can never fit the quota of tenant"
            f" {tenant.name}: {own}; ask for fewer devices, or have the quota raised"
        )
        return state.failure(Reason.RESOURCE_EXHAUSTED, message, tenant=tenant.name, devices=count, limit=limit)
    if tenant.declared.waits:
        return f"room in the quota of tenant {tenant.name}: {own}"
    message = (
        f"the quota of tenant {tenant.name} has no room for a slice of {count} devices: {own}; release slices first, or let them"
        f" wait for room: pathways tenants set {tenant.name} --over wait"
    )
    return state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True, tenant=tenant.name, devices=count, limit=limit)
