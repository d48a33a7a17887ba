"""A host's own share of a plan: what it launches, sends, puts together and frees, in the order of the plan.

Daemon and executor of a host work it out separately from the same message and get the same: numbers of transfers and fetches
count up in this order, and both ends of a pull derive its ticket. Tables are of the size of the host's own share: which boxes
leave a shard is computed from the tiles that the shard touches, as for the boxes that fill one. Among several copies of what it
reads a host takes the nearest.
"""

from __future__ import annotations

import hmac
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple, TypeAlias, TypeVar, assert_never

from pathways_common.model.agreement import FieldDigest, launches_field, plan_fields
from pathways_common.model.array import ITEM_BYTES
from pathways_common.model.ids import Epoch, FetchId, GlobalId, HostName, IslandName, TransferId
from pathways_common.model.resharding import Box, Nearest, boxes
from pathways_common.model.sharding import Layout, layout_of

from .loaded_plan import LoadedPlan, PlanFree, PlanLaunch, PlanMove, PlanSpec

# Numbers of transfers and fetches of runs begin here; the controller's own are below.
RUN_NUMBERS = 1 << 63
COUNT_BITS = 24


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """A gang of which this host is a member. `offset` counts the launches of the island before it.

    `from_arguments` are the (position, slot) of its parameters that are arguments of the plan. `covers` are the steps of the
    launches in whose place it is, up to node `last_node`; its offset is that of the last of them. See groups.py.
    """

    step: int
    node: int
    executable_id: GlobalId
    arguments: tuple[int, ...]
    results: tuple[int, ...]
    non_donatable: tuple[int, ...]
    offset: int
    from_arguments: tuple[tuple[int, int], ...]
    covers: tuple[int, ...] = ()
    last_node: int = 0


@dataclass(frozen=True, slots=True)
class SendStep:
    """Another host pulls a box of shard `local_index` of a slot; empty `start` and `limit`: all of it."""

    step: int
    slot: int
    local_index: int
    start: tuple[int, ...]
    limit: tuple[int, ...]
    count: int


@dataclass(frozen=True, slots=True)
class Local:
    """A shard of a slot that lives on this host."""

    slot: int
    local_index: int


@dataclass(frozen=True, slots=True)
class BoxPart:
    """`shape` elements at `start` of the new shard, from a transfer (its count) or from `local_start` of a local shard."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    source: int | Local
    local_start: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """The shard for one device: from a transfer (its count), a copy of a local shard, or put together from boxes."""

    local_device: int
    source: int | Local | tuple[BoxPart, ...]


@dataclass(frozen=True, slots=True)
class PlaceStep:
    """This host's shards of slot `slot`, in shard order."""

    step: int
    slot: int
    source: int
    spec: PlanSpec
    pieces: tuple[Piece, ...]
    pulled_bytes: int
    copied_bytes: int


@dataclass(frozen=True, slots=True)
class FreeStep:
    """Slots that live here and are no longer needed; never arguments nor results."""

    step: int
    slots: tuple[int, ...]


HostStep: TypeAlias = LaunchStep | SendStep | PlaceStep | FreeStep


class Send(NamedTuple):
    """The other end of a pull: fetch `number` of the run is served under the ticket of this text."""

    step: int
    number: int
    ticket_text: str


class Pull(NamedTuple):
    """Transfer `number` of the run comes from `address` under the ticket of this text."""

    step: int
    number: int
    ticket_text: str
    address: str
    size_bytes: int


Sided = TypeVar("Sided", LaunchStep, SendStep, PlaceStep, FreeStep, Send, Pull, HostStep)


@dataclass(frozen=True)
class HostPlan:
    """The share of one host; everything in it is ordered by `step`, the position in the plan.

    `island_launches` are the steps that launch on the host's island, whether the host is a member or not.
    """

    plan_id: int
    name: str
    host: HostName
    island: IslandName
    epoch: Epoch
    step_count: int
    argument_count: int
    slot_count: int
    results: tuple[int, ...]
    steps: tuple[HostStep, ...]
    sends: tuple[Send, ...]
    pulls: tuple[Pull, ...]
    island_launches: tuple[int, ...]

    @cached_property
    def launches(self) -> tuple[LaunchStep, ...]:
        """The host's own launches."""
        return tuple(step for step in self.steps if isinstance(step, LaunchStep))

    @cached_property
    def own_slots(self) -> tuple[int, ...]:
        """Slots that steps of this host make, besides results of the plan."""
        results = dict.fromkeys(self.results)
        made = dict.fromkeys(slot for step in self.steps for slot in slots_made(step))
        return tuple(slot for slot in made if slot not in results)

    def own_sequences(self, first_step: int, end_step: int, sequence: int) -> tuple[int, int]:
        """First and last sequence of the host's own launches in a range of steps; zeros if there is none.

        `sequence` is that of the island's first launch in the range.
        """
        own = within(self.launches, first_step, end_step)
        if not own:
            return 0, 0
        before = bisect_left(self.island_launches, first_step)
        return sequence + own[0].offset - before, sequence + own[-1].offset - before

    def sequence_of(self, launch: LaunchStep, first_step: int, sequence: int) -> int:
        """The sequence of a launch in a range that begins at `first_step` and whose first launch on the island has `sequence`."""
        return sequence + launch.offset - bisect_left(self.island_launches, first_step)

    def in_order(self, first_step: int, end_step: int, steps: tuple[HostStep, ...] = ()) -> tuple[HostStep, ...]:
        """The steps of a range as they are carried out: what is sent goes as soon as the range has made it, before any wait.

        `steps` are those of the range if groups were put in place of some.
        """
        steps = steps or within(self.steps, first_step, end_step)
        sends: dict[int, list[HostStep]] = {}
        for step in steps:
            if isinstance(step, SendStep):
                sends.setdefault(step.slot, []).append(step)
        if not sends:
            return steps
        made = dict.fromkeys(slot for step in steps for slot in slots_made(step))
        ordered: list[HostStep] = [send for slot, found in sends.items() if slot not in made for send in found]
        for step in steps:
            if not isinstance(step, SendStep):
                ordered.append(step)
                for slot in slots_made(step):
                    ordered += sends.get(slot, ())
        return tuple(ordered)


def slots_made(step: HostStep) -> tuple[int, ...]:
    """The slots that get their value in a step."""
    match step:
        case LaunchStep():
            return step.results
        case PlaceStep():
            return (step.slot,)
        case SendStep() | FreeStep():
            return ()
        case _:
            assert_never(step)


def within(entries: Sequence[Sided], first_step: int, end_step: int) -> tuple[Sided, ...]:
    """The entries of a range of steps."""
    begin = bisect_left(entries, first_step, key=_step)
    return tuple(entries[begin : bisect_left(entries, end_step, key=_step)])


def _step(entry: HostStep | Send | Pull) -> int:
    return entry.step


def transfer_number(run: int, count: int) -> TransferId:
    """Number of a transfer of a run on its host."""
    return TransferId(RUN_NUMBERS + (run << COUNT_BITS) + count)


def fetch_number(run: int, count: int) -> FetchId:
    """Number of a fetch of a run on its host."""
    return FetchId(RUN_NUMBERS + (run << COUNT_BITS) + count)


def ticket(key: bytes, text: str) -> str:
    """The single-use capability of one pull; both of its ends derive it from the run's key."""
    return hmac.digest(key, text.encode(), "sha256")[:16].hex()


def host_plan(plan: LoadedPlan, host_name: str) -> HostPlan:
    """The share of a host; LookupError if it takes no part. Raises PathwaysError for a sharding that fits no layout."""
    me = next((position for position, host in enumerate(plan.hosts) if host.name == host_name), None)
    if me is None:
        raise LookupError(f"plan {plan.plan_id} has no host {host_name}")
    share = _Share(plan, me)
    for position, step in enumerate(plan.steps):
        match step:
            case PlanLaunch():
                share.launch(position, step)
            case PlanMove():
                share.move(position, step)
            case PlanFree():
                share.free(position, step)
            case _:
                assert_never(step)
    return share.made()


def understood(plan: LoadedPlan, share: HostPlan) -> tuple[FieldDigest, ...]:
    """A plan and a host's share of it, as the controller compares them before it grants anything."""
    hosts = ((host.name, host.island, host.epoch) for host in plan.hosts)
    shared = plan_fields(hosts, plan.specs, plan.steps, (plan.argument_count, plan.slot_count, plan.results))
    launches = ((launch.step, launch.node, launch.executable_id, launch.offset) for launch in share.launches)
    return (*shared, launches_field(launches))


class _Share:
    """The share of host number `me` while the steps of the plan are gone through."""

    def __init__(self, plan: LoadedPlan, me: int) -> None:
        self._plan = plan
        self._me = me
        self._island = plan.hosts[me].island
        self._steps: list[HostStep] = []
        self._sends: list[Send] = []
        self._pulls: list[Pull] = []
        self._island_launches: list[int] = []
        self._locals: dict[int, dict[int, int]] = {}
        self._results = dict.fromkeys(plan.results)
        # Slots that live here and may be freed.
        self._here: dict[int, None] = {}

    def made(self) -> HostPlan:
        plan, host = self._plan, self._plan.hosts[self._me]
        return HostPlan(
            plan_id=plan.plan_id,
            name=plan.name,
            host=host.name,
            island=host.island,
            epoch=host.epoch,
            step_count=len(plan.steps),
            argument_count=plan.argument_count,
            slot_count=plan.slot_count,
            results=plan.results,
            steps=tuple(self._steps),
            sends=tuple(self._sends),
            pulls=tuple(self._pulls),
            island_launches=tuple(self._island_launches),
        )

    def launch(self, position: int, step: PlanLaunch) -> None:
        if self._plan.hosts[step.hosts[0]].island != self._island:
            return
        offset = len(self._island_launches)
        self._island_launches.append(position)
        if self._me not in step.hosts:
            return
        arguments = self._plan.argument_count
        given = tuple((place, slot) for place, slot in enumerate(step.arguments) if slot < arguments)
        self._steps.append(
            LaunchStep(position, step.node, step.executable_id, step.arguments, step.results, step.non_donatable, offset, given)
        )
        self._here |= dict.fromkeys(step.results)

    def free(self, position: int, step: PlanFree) -> None:
        slots = tuple(slot for slot in step.slots if slot in self._here and slot not in self._results)
        if slots:
            self._steps.append(FreeStep(position, slots))

    def local_index(self, spec: int, shard: int) -> int:
        """The index of a shard among those of this host."""
        known = self._locals.get(spec)
        if known is None:
            here = (at for at, host in enumerate(self._plan.specs[spec].hosts) if host == self._me)
            known = self._locals[spec] = {at: index for index, at in enumerate(here)}
        return known[shard]

    def move(self, position: int, step: PlanMove) -> None:
        specs = self._plan.specs
        source, destination = specs[step.source_spec], specs[step.destination_spec]
        sends, takes = self._me in source.hosts, self._me in destination.hosts
        if not sends and not takes:
            return
        move = _Move(step, source, destination)
        if sends:
            self._send(position, move)
        if takes:
            self._place(position, move)

    # ---- the sending side ------------------------------------------------------------------------------------------

    def _send(self, position: int, move: _Move) -> None:
        for shard in (at for at, host in enumerate(move.source.hosts) if host == self._me):
            for host, start, limit in move.wanted_from(shard):
                count = len(self._sends)
                text = _ticket_text(position, shard, host, start, limit)
                self._sends.append(Send(position, count, text))
                index = self.local_index(move.step.source_spec, shard)
                self._steps.append(SendStep(position, move.step.source, index, start, limit, count))

    # ---- the receiving side ----------------------------------------------------------------------------------------

    def _place(self, position: int, move: _Move) -> None:
        shared: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = {}
        known: dict[int, tuple[Piece, ...]] = {}
        pulls_before = len(self._pulls)
        pieces: list[Piece] = []
        copied = 0
        for shard, host in enumerate(move.destination.hosts):
            if host != self._me:
                continue
            tile = move.to.tile_at[shard]
            if tile not in known:
                known[tile] = (self._piece(position, move, tile, shared),)
            source = known[tile][0].source
            pieces.append(Piece(move.destination.local_devices[shard], source))
            copied += move.copied_bytes(source)
        pulled = sum(pull.size_bytes for pull in self._pulls[pulls_before:])
        step = move.step
        place = PlaceStep(position, step.destination, step.source, move.destination, tuple(pieces), pulled, copied)
        self._steps.append(place)
        self._here[step.destination] = None

    def _piece(
        self, position: int, move: _Move, tile: int, shared: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int]
    ) -> Piece:
        """What fills the shards of one tile; the device is left open."""
        found = list(boxes(move.of, move.to, tile, move.chosen, self._me))
        if len(found) == 1 and found[0].shape == move.to.shard_shape:
            box = found[0]
            if move.source.hosts[box.source] != self._me:
                return Piece(0, self._transfer(position, move, box, shared))
            if box.shape == move.of.shard_shape:
                return Piece(0, self._local(move, box.source))
        parts: list[BoxPart] = []
        for box in found:
            if move.source.hosts[box.source] == self._me:
                parts.append(BoxPart(box.start, box.shape, self._local(move, box.source), box.source_start))
            else:
                parts.append(BoxPart(box.start, box.shape, self._transfer(position, move, box, shared), ()))
        return Piece(0, tuple(parts))

    def _local(self, move: _Move, shard: int) -> Local:
        return Local(move.step.source, self.local_index(move.step.source_spec, shard))

    def _transfer(
        self, position: int, move: _Move, box: Box, shared: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int]
    ) -> int:
        """The count of the transfer that brings a box; the same for every device that wants it."""
        start, limit = move.cut(box.source_start, box.shape)
        key = (box.source, start, limit)
        if key not in shared:
            shared[key] = count = len(self._pulls)
            text = _ticket_text(position, box.source, self._me, start, limit)
            address = self._plan.hosts[move.source.hosts[box.source]].data_address
            self._pulls.append(Pull(position, count, text, address, prod(box.shape) * move.item_bytes))
        return shared[key]


class _Move:
    """The two layouts of a move, and who reads from where."""

    def __init__(self, step: PlanMove, source: PlanSpec, destination: PlanSpec) -> None:
        self.step, self.source, self.destination = step, source, destination
        self.of, self.to = _layout(source), _layout(destination)
        self.item_bytes = ITEM_BYTES.get(destination.spec.dtype, 0)
        self.chosen = Nearest(self.of, source.hosts, destination.hosts)
        # Only says which tile a position holds; the copies of a tile all want the same.
        self._any = Nearest(self.to, destination.hosts, ())

    def cut(self, start: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Start and limit of a box in its source shard; empty for the whole shard."""
        if shape == self.of.shard_shape:
            return (), ()
        return start, tuple(first + size for first, size in zip(start, shape, strict=True))

    def wanted_from(self, shard: int) -> Iterator[tuple[int, tuple[int, ...], tuple[int, ...]]]:
        """The (host, start, limit) that are pulled from a source shard, each once."""
        tile = self.of.tile_at[shard]
        own = self.source.hosts[shard]
        # The other way round: the destination tiles that this source tile touches.
        for box in boxes(self.to, self.of, tile, self._any, own):
            start, limit = self.cut(box.start, box.shape)
            holders = self.to.holders(self.to.tile_at[box.source])
            for host in dict.fromkeys(self.destination.hosts[position] for position in holders):
                if host != own and self.chosen.of(tile, host) == shard:
                    yield host, start, limit

    def copied_bytes(self, source: int | Local | tuple[BoxPart, ...]) -> int:
        """Bytes of a piece that come from this host."""
        if isinstance(source, Local):
            return prod(self.to.shard_shape) * self.item_bytes
        if isinstance(source, int):
            return 0
        return sum(prod(part.shape) * self.item_bytes for part in source if isinstance(part.source, Local))


def _layout(spec: PlanSpec) -> Layout:
    return layout_of(spec.spec.sharding, spec.spec.shape, len(spec.hosts))


def _ticket_text(step: int, shard: int, host: int, start: tuple[int, ...], limit: tuple[int, ...]) -> str:
    return f"{step}:{shard}:{host}:{'x'.join(map(str, start))}:{'x'.join(map(str, limit))}"
