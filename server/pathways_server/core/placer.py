"""Chooses physical devices for a virtual slice: least loaded first, topology kept, gaps avoided. Pure arithmetic.

An answer is the positions (row-major over the wanted shape), a refusal that no waiting changes, or what has to be waited
for. A shape lies on an island's declared shape as a box, its dimensions along any of the island's; without a declared
shape an island is a line. Ties go to where fewest equally free neighbours are cut off, then to the lowest position.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

ANY_ISLAND = ("", "any")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a slice asks of its devices. `on`: positions it must lie on (None = any) of `on_island`; `off`: those it must not."""

    count: int
    shape: tuple[int, ...] = ()
    kind: str = ""
    island: str = ""
    exclusive: bool = False
    on: tuple[int, ...] | None = None
    on_island: str = ""
    off: Mapping[str, tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class Layout:
    """One island. `loads` counts the slices on each position; `blocked` says who keeps a position from this wish, nobody if it is
    free and kept for the request that `kept` names.

    `lacks` says why the island cannot be used now; its size is then the one it will have, 0 if that is not known.
    `preferred` islands win ties. `declared` is False where the shape is only a line for want of a declaration. `places` says
    which position stands at each place of the shape, -1 for none; empty where position and place are the same number.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    loads: tuple[int, ...]
    blocked: Mapping[int, str]
    lacks: str = ""
    preferred: bool = False
    declared: bool = False
    places: tuple[int, ...] = ()
    kept: str = ""

    @property
    def size(self) -> int:
        return len(self.loads)


@dataclass(frozen=True, slots=True)
class Chosen:
    island: str
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Never:
    """Waiting would be in vain; the request is wrong for this cluster."""

    text: str


@dataclass(frozen=True, slots=True)
class Later:
    """It fits once something else has happened."""

    text: str


Answer = Chosen | Never | Later
_Found = tuple[tuple[int, int, int], tuple[int, ...]]


def place(wish: Wish, layouts: list[Layout]) -> Answer:
    """`layouts` are all islands, in the order in which equals are chosen."""
    fitting = _candidates(wish, layouts)
    if isinstance(fitting, Never):
        return fitting
    best: tuple[tuple[int, int, bool, int, int], Chosen] | None = None
    for layout in fitting:
        if layout.lacks:
            continue
        free = [position for position in _allowed(wish, layout) if position not in layout.blocked]
        found = _search(wish, layout, free)
        if found is None:
            continue
        (highest, total, cut), positions = found
        left = len(free) - len(positions)
        rank = (highest, total, not layout.preferred, left, cut)
        if best is None or rank < best[0]:
            best = (rank, Chosen(layout.name, positions))
    return best[1] if best is not None else _later(wish, fitting)


def words(shape: tuple[int, ...]) -> str:
    """A shape for people: 2x4."""
    return "x".join(map(str, shape))


def _devices(count: int) -> str:
    return f"{count} device{'' if count == 1 else 's'}"


# ---- what can never be ----------------------------------------------------------------------------------------------


def _candidates(wish: Wish, layouts: list[Layout]) -> list[Layout] | Never:
    """The islands on which the wish fits if nobody else is there."""
    named = wish.island not in ANY_ISLAND
    chosen = [layout for layout in layouts if not named or layout.name == wish.island]
    if not chosen:
        known = ", ".join(layout.name for layout in layouts) or "none yet"
        return Never(f"there is no island {wish.island!r}; the cluster has {known}: name one of these, or 'any'")
    kinds = sorted({layout.kind for layout in chosen if layout.kind})
    if wish.kind and kinds and wish.kind not in kinds:
        where = f"island {wish.island}" if named else "no island"
        has = f"has devices of kind {', '.join(kinds)}, not {wish.kind!r}" if named else f"has devices of kind {wish.kind!r}"
        return Never(f"{where} {has}; the kinds there are: {', '.join(kinds)}")
    chosen = [layout for layout in chosen if not wish.kind or layout.kind in ("", wish.kind)]
    roomy = [layout for layout in chosen if layout.size >= wish.count or not layout.size]
    if not roomy:
        largest = max(chosen, key=lambda layout: layout.size).size
        has = f"island {wish.island} has {largest}" if named else f"the largest island has {largest}"
        of_kind = f" of kind {wish.kind!r}" if wish.kind and not named else ""
        return Never(f"virtual slice needs {_devices(wish.count)}{of_kind} in one island; {has}")
    if wish.on is not None:
        if named and wish.on_island != wish.island:
            return Never(f"the slice is asked for on island {wish.island} with slices that lie on island {wish.on_island}")
        roomy = [layout for layout in roomy if layout.name == wish.on_island]
        if len(wish.on) < wish.count or not roomy:
            return Never(f"the slice needs {_devices(wish.count)} and those it must lie with have {len(wish.on)}")
    return _shaped(wish, roomy)


def _shaped(wish: Wish, roomy: list[Layout]) -> list[Layout] | Never:
    """Those of the islands on whose topology the shape lies, on the devices that are not ruled out."""
    shaped = [layout for layout in roomy if not layout.size or _fits(wish.shape, layout.shape)]
    if not shaped:
        layout = max(roomy, key=lambda layout: layout.size)
        lies = words(layout.shape) if layout.declared else f"a line of {_devices(layout.size)}"
        hint = "" if layout.declared else ", or declare the shape of the island (island_shapes)"
        return Never(
            f"a {words(wish.shape)} slice cannot lie on island {layout.name}, which is {lies}; ask for another shape{hint}"
        )
    possible = [layout for layout in shaped if not layout.size or _search(wish, layout, _allowed(wish, layout)) is not None]
    if not possible:
        layout = max(shaped, key=lambda layout: len(_allowed(wish, layout)))
        left = len(_allowed(wish, layout))
        if wish.on is None and left == layout.size:
            here = f"of the {words(layout.shape)} places of island {layout.name} only {left} have a device"
            return Never(f"a {words(wish.shape)} slice cannot lie there: {here}; ask for another shape, or start the other hosts")
        shape = f" as {words(wish.shape)}" if wish.shape else ""
        which = (
            "the slices it must lie with and apart from contradict"
            if wish.on is not None
            else "the slices it must lie apart from are in the way"
        )
        return Never(f"{which}: they leave {_devices(left)} on island {layout.name} and it needs {wish.count}{shape}")
    return possible


def _allowed(wish: Wish, layout: Layout) -> list[int]:
    off = set((wish.off or {}).get(layout.name, ()))
    on = range(layout.size) if wish.on is None else wish.on
    return sorted(set(on) - off)


# ---- what has to be waited for --------------------------------------------------------------------------------------


def _later(wish: Wish, fitting: list[Layout]) -> Later:
    """Names the island that misses least, and who holds what is missing."""
    options: list[tuple[int, str]] = []
    for layout in fitting:
        if layout.lacks:
            options.append((1 << 30, layout.lacks))
            continue
        allowed = _allowed(wish, layout)
        holders = list(dict.fromkeys(layout.blocked[position] for position in allowed if position in layout.blocked))
        free = len(allowed) - sum(1 for position in allowed if position in layout.blocked)
        missing = max(wish.count - free, 1)
        kept = [f"kept for {layout.kept}, which has waited longer"] if "" in holders else []
        holders = [name for name in holders if name]
        held = ", ".join(holders[:4]) + (f" and {len(holders) - 4} more" if len(holders) > 4 else "")
        how = "in use by" if wish.exclusive else "held exclusively by"
        why = " and ".join([f"{how} {held}"] * bool(holders) + kept)
        shape = f" in the shape {words(wish.shape)}" if wish.shape else ""
        options.append((missing, f"{_devices(missing)} more of island {layout.name}{shape}, {why}"))
    return Later(min(options, key=lambda option: option[0])[1])


# ---- the search -----------------------------------------------------------------------------------------------------


def _search(wish: Wish, layout: Layout, free: list[int]) -> _Found | None:
    """The best `count` of the free positions and their cost: highest load, sum of loads, neighbours cut off."""
    if len(free) < wish.count:
        return None
    return _best_box(wish.shape, layout, free) if wish.shape else _best_loose(wish.count, layout, free)


def _best_loose(count: int, layout: Layout, free: list[int]) -> _Found:
    """Any positions: all that carry less than the highest load taken, the rest from the run of neighbours that it fills best."""
    loads = layout.loads
    highest = sorted(loads[position] for position in free)[count - 1]
    taken = [position for position in free if loads[position] < highest]
    level = [position for position in free if loads[position] == highest]
    runs: list[list[int]] = []
    for position in level:
        if runs and runs[-1][-1] + 1 == position:
            runs[-1].append(position)
        else:
            runs.append([position])
    need = count - len(taken)
    while need:
        enough = [run for run in runs if len(run) >= need]
        run = min(enough, key=len) if enough else max(runs, key=len)
        runs.remove(run)
        taken += run[:need]
        need -= min(need, len(run))
    chosen = tuple(sorted(taken))
    held = set(chosen)
    cut = sum(1 for position in level if position not in held and (position - 1 in held or position + 1 in held))
    return (highest, sum(loads[position] for position in chosen), cut), chosen


def _fits(shape: tuple[int, ...], extents: tuple[int, ...]) -> bool:
    return not shape or bool(_axes(shape, extents))


def _axes(shape: tuple[int, ...], extents: tuple[int, ...]) -> list[dict[int, int]]:
    """Every way to lay the dimensions above 1 along different axes: dimension -> axis."""
    wide = [dimension for dimension, size in enumerate(shape) if size > 1]
    if len(wide) > len(extents):
        return []
    ways = []
    for axes in permutations(range(len(extents)), len(wide)):
        if all(shape[dimension] <= extents[axis] for dimension, axis in zip(wide, axes, strict=True)):
            ways.append(dict(zip(wide, axes, strict=True)))
    return ways


def _best_box(shape: tuple[int, ...], layout: Layout, free: list[int]) -> _Found | None:
    extents = layout.shape
    strides = [prod(extents[axis + 1 :]) for axis in range(len(extents))]
    standing = layout.places or tuple(range(prod(extents)))
    free_positions = set(free)
    room = {place for place, position in enumerate(standing) if position in free_positions}
    best: _Found | None = None
    for way in _axes(shape, extents):
        sizes = [1] * len(extents)
        for dimension, axis in way.items():
            sizes[axis] = shape[dimension]
        steps = [strides[way[dimension]] if dimension in way else 0 for dimension in range(len(shape))]
        offsets = [sum(index * step for index, step in zip(cell, steps, strict=True)) for cell in product(*map(range, shape))]
        for corner in product(*(range(extent - size + 1) for extent, size in zip(extents, sizes, strict=True))):
            first = sum(index * stride for index, stride in zip(corner, strides, strict=True))
            box = [first + offset for offset in offsets]
            if not room.issuperset(box):
                continue
            positions = tuple(standing[place] for place in box)
            loads = [layout.loads[position] for position in positions]
            if best is not None and (max(loads), sum(loads)) > best[0][:2]:
                continue
            found = ((max(loads), sum(loads), _cut(layout, standing, room, box, max(loads))), positions)
            best = found if best is None or found < best else best
    return best


def _cut(layout: Layout, standing: tuple[int, ...], room: set[int], box: list[int], highest: int) -> int:
    """Free neighbours outside the box that are no more loaded than it."""
    inside = set(box)
    cut: set[int] = set()
    stride = prod(layout.shape)
    for extent in layout.shape:
        stride //= extent
        for place in box:
            index = place // stride % extent
            near = ([place - stride] if index else []) + ([place + stride] if index + 1 < extent else [])
            cut.update(other for other in near if other in room and other not in inside)
    return sum(layout.loads[standing[other]] <= highest for other in cut)
