"""Virtual slices: groups of a session's pool devices, bound to distinct physical devices of one island until they are released.

Slices share physical devices unless one is exclusive: then no slice of another session lies on its devices (views of primary
devices may). A request that cannot be met now waits if it asks to; whatever ends is offered to all who wait, oldest first.
Devices that the oldest request of a session waits for are kept for it in some spans of its wait, each longer than the one before,
so that smaller ones without end do not pass it for ever; in between others have them: one may hold the rest and wait for these.
A released slice refuses new work at once and gives its devices back behind the work that was asked for before, loops included.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import prod
from typing import assert_never

from pathways_common.model.bounds import DIMENSIONS_MAX
from pathways_common.model.cells import plain_name
from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import HostName, IslandName, is_made_by_core

from . import buffers, cells, definitions, drains, fences, quotas, resource_manager, sessions
from .audience import Audience, named
from .effects import SliceAdded, SliceWaiting
from .events import SliceReleased, SliceRequested
from .natural_order import natural
from .placer import ANY_ISLAND, Answer, Chosen, Later, Layout, Never, Wish, place, words
from .records import Island, PoolGroup, Session, Slice, VirtualDevice
from .state import State
from .transitions import IslandState, SliceState

_Holders = dict[str, list[tuple[Slice, Collection[int]]]]
_HOLDING = (SliceState.BOUND, SliceState.RELEASING)
_CLIENT_CHARACTERS_MAX = 60


def make_pool(state: State, session: Session) -> int:
    """Appends the pool's devices to the session's list, all of them unbound; returns how many a group has."""
    active = [island for island in state.islands.values() if island.state is IslandState.ACTIVE]
    largest = max(len(island.members) * island.devices_per_host for island in active)
    size = min(largest, state.config.pool_devices_max)
    count = min(state.config.pool_slices, state.config.pool_devices_max // size) if size else 0
    for _ in range(count):
        session.pool.append(PoolGroup(len(session.devices), size))
        session.devices.extend([None] * size)
    return size if count else 0


# ---- asking ---------------------------------------------------------------------------------------------------------


def on_slice_requested(state: State, event: SliceRequested, session: Session) -> None:
    if event.slice_id in session.slices:
        message = f"id {event.slice_id} names a slice already; use a new id"
        failure = state.failure(Reason.INVALID_ARGUMENT, message, slice=event.slice_id)
        state.reply(session, SliceAdded(event.slice_id, (), "", (), failure))
        return
    limit_ns = state.config.slice_wait_ns
    wanted = Slice(state.number(), session, event, state.now_ns + min(event.timeout_ns or limit_ns, limit_ns))
    wanted.asked_ns = state.now_ns
    session.slices[event.slice_id] = wanted
    state.slices[wanted.number] = wanted
    _try_bind(state, wanted)


def retry_waiting(state: State) -> None:
    """Something has ended or an island has come: whoever fits now gets it, the oldest first."""
    state.kept_for.clear()
    for wanted in [wanted for wanted in state.slices.values() if wanted.state is SliceState.WAITING]:
        _try_bind(state, wanted)
        if wanted.state is SliceState.WAITING and wanted.turn and wanted.session.number not in state.kept_for:
            places = _held_by_others(state, wanted)
            if places is not None:
                state.kept_for[wanted.session.number] = (wanted, places)


def _held_by_others(state: State, wanted: Slice) -> Chosen | None:
    """Where a request that waits would lie if others gave their devices up; None if it waits for something else as well."""
    wish = _wish(state, wanted)
    if isinstance(wish, Never) or not wanted.session.pool:
        return None
    layouts = _layouts_with(state, wanted, wanted.session.tenant.name, _holders(state))
    places = place(wish, [replace(layout, blocked={}) for layout in layouts])
    if not isinstance(places, Chosen) or isinstance(place(wish, layouts), Chosen):
        return None
    return None if quotas.slice_obstacle(state, wanted.session, len(places.positions)) else places


def _try_bind(state: State, wanted: Slice) -> None:
    answer = _answer(state, wanted, wanted.session.tenant.name)
    if isinstance(answer, Later) and wanted.session.islands[0].tenant is not None:
        _open_cells(state, wanted)
    if isinstance(answer, Chosen):
        held_up = quotas.slice_obstacle(state, wanted.session, len(answer.positions))
        if isinstance(held_up, Failure):
            _refuse(state, wanted, held_up)
            return
        if held_up:
            answer = Later(held_up)
    match answer:
        case Chosen():
            _bind(state, wanted, answer)
        case Never():
            _refuse(state, wanted, state.failure(Reason.INVALID_ARGUMENT, answer.text, slice=wanted.request.slice_id))
        case Later() if not wanted.request.wait:
            message = f"virtual slice cannot be had now: it needs {answer.text}; ask again later, or with wait"
            failure = state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True, needs=answer.text)
            _refuse(state, wanted, failure)
        case Later():
            _wait(state, wanted, answer.text)
        case _:
            assert_never(answer)


def _open_cells(state: State, wanted: Slice) -> None:
    """A session with executors of its own has them on some islands; what does not fit there may fit on others."""
    for island in list(state.islands.values()):
        asked = wanted.request.island in (*ANY_ISLAND, island.name)
        if island.tenant is None and island.state is IslandState.ACTIVE and asked:
            cells.want(state, island, wanted.session.tenant)


def _wait(state: State, wanted: Slice, text: str) -> None:
    session = wanted.session
    waiting = sum(1 for other in session.slices.values() if other.state is SliceState.WAITING)
    if waiting > state.config.slices_waiting_max:
        message = f"{waiting - 1} requests for slices of this session wait, the most allowed; wait for some first"
        _refuse(state, wanted, state.failure(Reason.RESOURCE_EXHAUSTED, message, retryable=True, waiting=waiting - 1))
    elif wanted.text != text:
        wanted.text = text
        sentence = f"virtual slice waits for {text}"
        state.reply(session, SliceWaiting(wanted.request.slice_id, sentence))
        state.log("slice waits", session=session.number, slice=wanted.request.slice_id, needs=text)


def words_for(state: State, wanted: Slice, audience: Audience) -> str:
    """What a request waits for; `Slice.text` is what its own tenant was told."""
    if wanted.state is not SliceState.WAITING or audience == wanted.session.tenant.name:
        return wanted.text
    answer = _answer(state, wanted, audience)
    return answer.text if isinstance(answer, Later) else wanted.text


def _answer(state: State, wanted: Slice, audience: Audience) -> Answer:
    session = wanted.session
    wish = _wish(state, wanted)
    if isinstance(wish, Never):
        return wish
    answer = place(wish, _layouts(state, wanted, audience))
    if isinstance(answer, Never):
        return answer
    if not session.pool_size:
        return Never("this session has no devices for slices; the controller gives none (pool_slices is 0)")
    if wish.count > session.pool_size:
        message = f"a slice of this session has at most {session.pool_size} devices, as the largest island had when it connected"
        return Never(f"{message}; connect again to have {wish.count}")
    if isinstance(answer, Chosen) and not session.pool:
        held = sum(1 for other in session.slices.values() if other.state in _HOLDING)
        return Later(f"one of the {held} slices that this session holds, the most allowed")
    return answer


def _wish(state: State, wanted: Slice) -> Wish | Never:
    """The request with other slices' ids turned into positions, or what is wrong with it."""
    request, session = wanted.request, wanted.session
    shape = request.mesh_shape
    if len(shape) > 3 or any(size < 1 for size in shape):
        return Never(f"mesh_shape is {words(shape[:DIMENSIONS_MAX])}; give one to three sizes of at least 1")
    count = request.device_count or prod(shape)
    if shape and count != prod(shape):
        return Never(f"devices is {count} and mesh_shape {words(shape)} has {prod(shape)}; give one of them, or make them agree")
    if not request.device_count and not shape:
        return Never("a slice needs at least one device; give devices or mesh_shape")
    island = state.islands.get(IslandName(request.island))
    platform = session.islands[0].platform
    if island is not None and island.platform and island.platform != platform:
        return Never(f"island {island.name} has platform {island.platform} and this session {platform}; name another island")
    found: dict[int, Slice] = {}
    for slice_id in (*request.with_slices, *request.apart_from_slices):
        other = session.slices.get(slice_id)
        if other is None or other.state is not SliceState.BOUND:
            return Never(f"slice {slice_id} is not one that this session holds; name slices that were added and not released")
        found[slice_id] = other
    off: dict[str, tuple[int, ...]] = {}
    for other in [found[slice_id] for slice_id in request.apart_from_slices]:
        assert other.island is not None
        off[other.island.ground.name] = (*off.get(other.island.ground.name, ()), *other.positions)
    together = [found[slice_id] for slice_id in request.with_slices]
    names = list(dict.fromkeys(other.island.ground.name for other in together if other.island is not None))
    if len(names) > 1:
        return Never(f"the slices that it must lie with are on islands {' and '.join(names)}; one slice lies on one island")
    on = tuple(sorted({position for other in together for position in other.positions})) if together else None
    return Wish(count, shape, request.kind, request.island, request.exclusive, on, names[0] if names else "", off)


# ---- what there is --------------------------------------------------------------------------------------------------


def _layouts(state: State, wanted: Slice, audience: Audience) -> list[Layout]:
    """Every island of the session's platform, as this request sees it, by the island's own name; also those yet to come."""
    holders = _holders(state)
    for first, places in state.kept_for.values():
        if wanted.state is not SliceState.WAITING or wanted.number <= first.number:
            break
        if first.state is SliceState.WAITING and first.turn % 2 and first.session is not wanted.session:
            holders.setdefault(places.island, []).append((first, places.positions))
            break
    return _layouts_with(state, wanted, audience, holders)


def _holders(state: State) -> _Holders:
    """By the names of islands: slices, and where they lie or will."""
    holders: _Holders = {}
    for other in state.slices.values():
        if other.state in _HOLDING and other.island is not None:
            holders.setdefault(other.island.ground.name, []).append((other, other.positions))
    for migration in state.migrations.values():  # what is on its way is not given to anybody else
        if migration.owner in state.slices:
            coming = (state.slices[migration.owner], migration.places.values())
            holders.setdefault(migration.target.ground.name, []).append(coming)
    return holders


def _layouts_with(state: State, wanted: Slice, audience: Audience, holders: _Holders) -> list[Layout]:
    session = wanted.session
    found: list[Layout] = []
    there = [str(island.name) for island in state.islands.values() if island.tenant is None]
    known = dict.fromkeys([*there, *state.config.island_hosts])
    for name in sorted(known, key=natural):
        island = state.islands.get(IslandName(name))
        if island is None:
            found.append(Layout(name, "", (0,), (), {}, f"island {name}, of which no host has joined"))
        elif not island.platform or island.platform == session.islands[0].platform:
            own = cells.of_session(session, island) or island
            found.append(_layout(state, own, wanted, holders.get(name, []), audience))
    return found


def _layout(
    state: State, island: Island, wanted: Slice, holders: list[tuple[Slice, Collection[int]]], audience: Audience
) -> Layout:
    active = island.state is IslandState.ACTIVE and not island.closing
    own = cells.of_session(wanted.session, island)
    hosts = len(island.members) if active else resource_manager.wanted_hosts(state, island) or len(island.hosts)
    per_host = next((host.device_count for host in island.hosts.values()), island.devices_per_host)
    size = hosts * per_host
    shape = island.topology or state.config.island_shapes.get(island.ground.name, ())
    if island.topology and not island.places:
        size = prod(shape)  # before its first epoch nobody knows which of its places stay empty
    declared = bool(shape) and (prod(shape) == size or bool(island.topology))
    loads = [0] * size
    blocked: dict[int, str] = {}
    for other, positions in holders:
        for position in positions:
            if position < size:
                loads[position] += 1
            if other.session is not wanted.session and (wanted.request.exclusive or other.request.exclusive):
                blocked.setdefault(position, _name(other, audience) if other.state is not SliceState.WAITING else "")
    usable = active and not drains.is_leaving(state, island)
    lacks = "" if usable else f"island {island.name} ({resource_manager.lacks(state, island)})"
    if own is None:
        lacks = lacks or f"executors of tenant {wanted.session.tenant.name} on island {island.name}, which start when asked for"
    kind = island.device_kind
    preferred = island in wanted.session.islands
    extents = shape if declared else (size,)
    kept = next((_name(other, audience) for other, _ in holders if other.state is SliceState.WAITING), "")
    return Layout(island.ground.name, kind, extents, tuple(loads), blocked, lacks, preferred, declared, island.places, kept)


def _name(held: Slice, audience: Audience) -> str:
    """For people: which slice, and whose."""
    client = held.session.client[:_CLIENT_CHARACTERS_MAX]
    name = f"slice {held.request.slice_id} of session {held.session.number}" + (f" ({client})" if client else "")
    return named(audience, held.session.tenant.name, name)


def elsewhere(state: State, held: Slice, island: str) -> Answer:
    """Where a slice that is bound could lie on another island."""
    home = held.island
    assert home is not None
    layouts = [layout for layout in _seen(state, held) if layout.name != home.ground.name]
    if not layouts and island in ANY_ISLAND:
        return Never("there is no other island")
    return _place(held, island, layouts)


def beside(state: State, held: Slice, gone: tuple[int, ...]) -> Answer:
    """Where a slice that is bound could lie on its own island without these positions."""
    home = held.island
    assert home is not None
    going = dict.fromkeys(gone, "a host that is being drained")
    layouts = [
        replace(layout, lacks="", blocked={**layout.blocked, **going})
        for layout in _seen(state, held)
        if layout.name == home.ground.name
    ]
    return _place(held, "", layouts)


def place_again(state: State, held: Slice) -> Answer:
    """Where a slice that is suspended could lie: where it was, or else on any island of its kind."""
    assert held.island is not None
    home = held.island.ground.name
    layouts = _seen(state, held)
    same = [layout for layout in layouts if layout.name == home]
    if any(all(position < len(each.loads) for position in held.positions) for each in same):
        on = tuple(sorted(held.positions))
        again = place(Wish(len(on), (), "", home, held.request.exclusive, on, home), same)
        if isinstance(again, Chosen):
            return again
    return _place(held, "", layouts)


def _seen(state: State, held: Slice) -> list[Layout]:
    return _layouts(state, held, held.session.tenant.name)


def _place(held: Slice, island: str, layouts: list[Layout]) -> Answer:
    session, request, home = held.session, held.request, held.island
    assert home is not None
    others = [other for other in session.slices.values() if other is not held and other.island is not None]
    if any(each.slice_id in named.with_slices for other in others for each, named in _both(held, other)):
        return Never("it lies with another slice (near); release one of the two")
    off: dict[str, tuple[int, ...]] = {}
    for other in others:
        if any(each.slice_id in named.apart_from_slices for each, named in _both(held, other)):
            assert other.island is not None
            off[other.island.ground.name] = (*off.get(other.island.ground.name, ()), *other.positions)
    wish = Wish(len(held.positions), request.mesh_shape, home.device_kind, island, request.exclusive, off=off)
    return place(wish, layouts)


def view_elsewhere(state: State, session: Session, origin: Island, count: int) -> Answer:
    """Where the primary devices that a session has on an island could lie, on one that it does not show yet."""
    wanted = Slice(0, session, SliceRequested(session.number, 0, count), 0)
    shown = [island.ground.name for island in session.islands]
    layouts = [layout for layout in _layouts(state, wanted, session.tenant.name) if layout.name not in shown]
    if not layouts:
        return Never("there is none that it does not use already")
    wish = Wish(count, kind=origin.device_kind)
    return place(wish, [replace(layout, blocked={}) for layout in layouts])  # views share devices with whoever is there


def _both(one: Slice, other: Slice) -> tuple[tuple[SliceRequested, SliceRequested], ...]:
    """The requests of two slices, each as the one that the other may name."""
    return (one.request, other.request), (other.request, one.request)


def island_for(state: State, session: Session, name: str) -> Island:
    """What stands for an island to a session, where a slice of it was found a place."""
    island = cells.of_session(session, state.islands[IslandName(name)])
    assert island is not None, "a slice is chosen where the session has executors"
    return island


# ---- binding and giving back ----------------------------------------------------------------------------------------


def _bind(state: State, wanted: Slice, chosen: Chosen) -> None:
    session = wanted.session
    island = island_for(state, session, chosen.island)
    group = session.pool.popleft()
    wanted.island, wanted.positions, wanted.group, wanted.text = island, chosen.positions, group, ""
    state.move(wanted, SliceState.BOUND)
    for device, position in zip(wanted.devices, chosen.positions, strict=True):
        session.devices[device] = VirtualDevice(island, position, wanted.number)
    island.size_bound = len(island.members)
    session.used[island.name] = island
    hosts = tuple(HostName(plain_name(resource_manager.host_of(island, position))) for position in chosen.positions)
    slice_id = wanted.request.slice_id
    state.reply(session, SliceAdded(slice_id, wanted.devices, island.ground.name, hosts, None, island.device_kind))
    positions = ",".join(map(str, chosen.positions))
    state.log("slice added", session=session.number, slice=slice_id, island=island.name, positions=positions)


def _refuse(state: State, wanted: Slice, failure: Failure) -> None:
    _forget(state, wanted)
    fields = (("session", str(wanted.session.number)), ("slice", str(wanted.request.slice_id)), ("reason", failure.message))
    state.history.logged(state.now_ns, "slice refused", fields)
    state.reply(wanted.session, SliceAdded(wanted.request.slice_id, (), "", (), failure))


def _forget(state: State, ended: Slice) -> None:
    state.move(ended, SliceState.ENDED)
    del state.slices[ended.number]
    del ended.session.slices[ended.request.slice_id]


def on_slice_released(state: State, event: SliceReleased, session: Session) -> None:
    """New work on it is refused from here on; a request that still waits is withdrawn."""
    released = session.slices.get(event.slice_id)
    if released is None or released.state is SliceState.RELEASING:
        state.ignore(event, "no such slice")
        return
    if released.state is SliceState.WAITING:
        _refuse(state, released, state.failure(Reason.CANCELLED, "the request for a slice was withdrawn"))
        retry_waiting(state)
        return
    state.move(released, SliceState.RELEASING)
    for device in released.devices:
        session.devices[device] = None
    message = f"the slice was released (slice {event.slice_id}); its arrays and programs ended with it, make them on another"
    failure = released.ended = state.failure(Reason.DELETED, message, slice=event.slice_id)
    _end_values(state, released, failure, of_walks=False)
    for executable in session.executables.values():
        if released.number in executable.placement.owners and executable.ended is None:
            executable.ended = failure
    for definition in session.definitions.values():
        if released.number in definitions.slices_of(definition):
            definition.ended = definition.ended or failure
    fences.release_behind(state, session, released)


def _end_values(state: State, released: Slice, failure: Failure, of_walks: bool) -> None:
    """What lies on it takes no new work. Values of walks, which were asked for before and go on, end when no walk has them."""
    for buffer in list(released.session.buffers.values()):
        if is_made_by_core(buffer.id) is not of_walks:
            continue
        if buffer.placement is not None and released.number in buffer.placement.owners and buffer.ended is None:
            buffer.ended = failure
            buffers.settle(state, buffer)


def finish_release(state: State, released: Slice) -> None:
    """Everything before the release was granted or failed: its devices are free for others."""
    if released.state is not SliceState.RELEASING:
        return
    session = released.session
    assert released.group is not None
    assert released.ended is not None, "a release under way has said why its values end"
    # Of those that walks had, what a host moves or a read still needs is all that is left.
    _end_values(state, released, released.ended, of_walks=True)
    session.pool.append(released.group)
    _forget(state, released)
    state.log("slice released", session=session.number, slice=released.request.slice_id)
    retry_waiting(state)
    sessions.try_pending(state)


def on_session_closed(state: State, session: Session) -> None:
    """All of its slices end with it."""
    session.releases.clear()
    held = list(session.slices.values())
    for ended in held:
        _forget(state, ended)
    if held:
        retry_waiting(state)


def expire(state: State) -> None:
    """Refuses what waited as long as it asked to, and looks again where what is kept for one that waits changes."""
    waiting = [wanted for wanted in state.slices.values() if wanted.state is SliceState.WAITING]
    late = [wanted for wanted in waiting if wanted.deadline_ns <= state.now_ns]
    for wanted in late:
        message = f"virtual slice was not to be had in time: it needs {wanted.text}; ask again later"
        _refuse(state, wanted, state.failure(Reason.TIMED_OUT, message, retryable=True, needs=wanted.text))
    changed = [wanted for wanted in waiting if _turns(state, wanted)]
    if late or changed:
        retry_waiting(state)


def _turns(state: State, wanted: Slice) -> bool:
    """Notes in which span of its wait a request is: 0 at first, then each twice as long. True if others have to be looked at."""
    before, wanted.turn = wanted.turn, ((state.now_ns - wanted.asked_ns) // state.config.slice_turn_ns).bit_length()
    first, _ = state.kept_for.get(wanted.session.number, (wanted, None))
    return wanted.turn != before and first is wanted
