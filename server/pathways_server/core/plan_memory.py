"""What one run of a plan takes of each device at most, beside its arguments: the peak over its steps, and not the sum.

A device carries out its launches in order, so a value takes memory from its launch to the free behind its last use. What comes
from other devices may land early: a move takes memory from the last launch on those devices that its source was computed from.
An executable that is given an argument's memory (donation) takes so much less, and the argument is gone behind it.
"""

from __future__ import annotations

from itertools import accumulate

from . import spans
from .plan import Free, Launch, Move, Plan
from .records import Placement

_PLANS_MAX = 64  # answers kept per plan: what a client donates is nearly always the same


def peaks(plan: Plan, consumed: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Bytes per island of the shape and position in it, as far as the last position used. `consumed`: arguments that it takes."""
    key = (consumed, bool(plan.groups))
    found = plan.peaks.get(key)
    if found is None:
        found = _peaks(_Liveness(plan, consumed, grouped=False), plan)
        if plan.groups:
            grouped = _peaks(_Liveness(plan, consumed, grouped=True), plan)
            found = tuple(
                tuple(max(one, other) for one, other in zip(first, second, strict=True))
                for first, second in zip(found, grouped, strict=True)
            )
        if len(plan.peaks) >= _PLANS_MAX:
            plan.peaks.clear()
        plan.peaks[key] = found
    return found


class _Liveness:
    """Which bytes a plan has on which devices between which steps: `changes` per placement, as (step, bytes more or less)."""

    def __init__(self, plan: Plan, consumed: tuple[int, ...], grouped: bool) -> None:
        self.changes: dict[Placement, list[tuple[int, int]]] = {}
        self._plan = plan
        self._end = len(plan.steps) + 1  # behind everything
        self._sizes: dict[int, int] = {index: placed.spec.shard_bytes for index, placed in enumerate(plan.arguments)}
        self._begun: dict[int, tuple[Placement, int]] = {}
        self._free_at = {slot: index for index, step in enumerate(plan.steps) if isinstance(step, Free) for slot in step.slots}
        # Per slot, the last launch per placement that it was computed from.
        self._behind: dict[int, dict[Placement, int]] = {}
        self._consumable = set(consumed)
        groups = {group.first_step: group for group in plan.groups} if grouped else {}
        within = 0
        for index, step in enumerate(plan.steps):
            if index in groups:
                within = groups[index].end_step
                self._launch(index, groups[index].launch)
            elif isinstance(step, Launch) and index >= within:
                self._launch(index, step)
            elif isinstance(step, Move):
                self._move(step)
        for slot, (placement, first) in self._begun.items():
            self._live(placement, self._sizes[slot], first, self._free_at.get(slot, self._end))

    def _live(self, placement: Placement, size_bytes: int, first: int, end: int) -> None:
        if size_bytes and end > first:
            changes = self.changes.setdefault(placement, [])
            changes.append((first, size_bytes))
            if end < self._end:  # else it is a result
                changes.append((end, -size_bytes))

    def _launch(self, index: int, launch: Launch) -> None:
        facts = launch.executable.facts
        assert facts is not None, "a plan is made of executables that are known"
        placement = launch.executable.placement
        taken = 0
        for position in launch.executable.donated:
            if position in launch.non_donatable or position >= len(launch.arguments):
                continue
            slot = launch.arguments[position]
            if slot in self._begun:  # its memory is given up behind this launch
                place, first = self._begun.pop(slot)
                self._live(place, self._sizes[slot], first, index + 1)
                taken += self._sizes[slot]
            elif slot in self._consumable:
                self._consumable.discard(slot)
                size = self._sizes[slot]
                self._live(placement, -size, index + 1, self._end)
                taken += size
        self._live(placement, facts.temporary_bytes - min(facts.alias_bytes, taken), index, index + 1)
        behind: dict[Placement, int] = {}
        for slot in launch.arguments:
            for place, step in self._behind.get(slot, {}).items():
                behind[place] = max(behind.get(place, -1), step)
        behind[placement] = index
        for slot, size in zip(launch.results, facts.output_shard_bytes, strict=False):
            self._sizes[slot] = size
            self._begun[slot] = (placement, index)
            self._behind[slot] = behind

    def _move(self, step: Move) -> None:
        placed = self._plan.specs[step.destination_spec]
        behind = self._behind.get(step.source, {})
        wanted = set(placed.placement.positions)
        island = placed.placement.island
        launched = [at for place, at in behind.items() if place.island is island and wanted <= set(place.positions)]
        self._sizes[step.destination] = placed.spec.shard_bytes
        self._begun[step.destination] = (placed.placement, max(launched, default=0))
        self._behind[step.destination] = behind


def _peaks(liveness: _Liveness, plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Devices on which the same placements lie have one peak."""
    length = len(plan.steps) + 1
    found: list[tuple[int, ...]] = []
    known: dict[tuple[int, ...], int] = {}
    numbered = list(liveness.changes.items())
    for island in spans.shape_of(plan).islands:
        per_device: dict[int, list[int]] = {}
        for number, (placement, _) in enumerate(numbered):
            if placement.island is island:
                for position in placement.positions:
                    per_device.setdefault(position, []).append(number)
        bytes_of = [0] * (max(per_device, default=-1) + 1)
        for position, numbers in per_device.items():
            key = tuple(numbers)
            if key not in known:
                changes = [0] * length
                for number in numbers:
                    for step, size_bytes in numbered[number][1]:
                        changes[step] += size_bytes
                known[key] = max(accumulate(changes))
            bytes_of[position] = known[key]
        found.append(tuple(bytes_of))
    return tuple(found)
