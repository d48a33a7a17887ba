"""Placement: always inside one island, distinct, least loaded, in the wanted shape; and a sentence for everything else."""

from __future__ import annotations

import random
from itertools import combinations, product
from math import prod

import pytest
from pathways_server.core.placer import Chosen, Later, Layout, Never, Wish, place


def line(name: str = "a", size: int = 4, loads: tuple[int, ...] = (), kind: str = "cpu", **more: object) -> Layout:
    return Layout(name, kind, (size,), loads or (0,) * size, more.pop("blocked", {}), **more)  # type: ignore[arg-type]


def grid(name: str, shape: tuple[int, ...], loads: tuple[int, ...] = ()) -> Layout:
    return Layout(name, "cpu", shape, loads or (0,) * prod(shape), {}, declared=True)


def refusal(wish: Wish, *layouts: Layout) -> str:
    answer = place(wish, list(layouts))
    assert isinstance(answer, Never)
    return answer.text


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_devices_without_a_shape_are_the_least_loaded_of_one_island(first: int) -> None:
    for seed in range(first, first + 100):
        check_loose(seed)


def check_loose(seed: int) -> None:
    draw = random.Random(seed)
    layouts = []
    for name in "abc"[: draw.randint(1, 3)]:
        size = draw.randint(1, 8)
        blocked = {position: "someone" for position in range(size) if draw.random() < 0.2}
        layouts.append(line(name, size, tuple(draw.randint(0, 3) for _ in range(size)), blocked=blocked))
    wish = Wish(draw.randint(1, 6))
    answer = place(wish, layouts)
    costs: dict[str, tuple[int, int]] = {}
    for layout in layouts:
        free = [layout.loads[position] for position in range(layout.size) if position not in layout.blocked]
        for taken in combinations(sorted(free), wish.count):
            cost = (max(taken), sum(taken))
            costs[layout.name] = min(costs.get(layout.name, cost), cost)
    if not costs:
        possible = any(layout.size >= wish.count for layout in layouts)
        assert isinstance(answer, Later if possible else Never)
        return
    assert isinstance(answer, Chosen)
    chosen = next(layout for layout in layouts if layout.name == answer.island)
    assert len(set(answer.positions)) == wish.count
    assert all(0 <= position < chosen.size and position not in chosen.blocked for position in answer.positions)
    loads = [chosen.loads[position] for position in answer.positions]
    assert (max(loads), sum(loads)) == min(costs.values())


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_a_shape_is_a_box_in_row_major_order_with_the_least_load(first: int) -> None:
    for seed in range(first, first + 100):
        check_box(seed)


def check_box(seed: int) -> None:
    draw = random.Random(seed)
    extents = tuple(draw.randint(1, 4) for _ in range(draw.randint(1, 3)))
    shape = tuple(draw.randint(1, 3) for _ in range(draw.randint(1, 3)))
    layout = grid("a", extents, tuple(draw.randint(0, 2) for _ in range(prod(extents))))
    answer = place(Wish(prod(shape), shape), [layout])
    cells = list(product(*(range(extent) for extent in extents)))
    best: tuple[int, int] | None = None
    boxes: set[tuple[int, ...]] = set()
    wide = [size for size in shape if size > 1]
    for corner in cells:
        for limit in cells:
            sides = [high - low + 1 for low, high in zip(corner, limit, strict=True)]
            if min(sides) < 1 or sorted(side for side in sides if side > 1) != sorted(wide):
                continue
            inside = [
                index
                for index, cell in enumerate(cells)
                if all(low <= place <= high for low, place, high in zip(corner, cell, limit, strict=True))
            ]
            boxes.add(tuple(inside))
            cost = (max(layout.loads[index] for index in inside), sum(layout.loads[index] for index in inside))
            best = cost if best is None else min(best, cost)
    if best is None:
        assert isinstance(answer, Never)
        return
    assert isinstance(answer, Chosen)
    assert tuple(sorted(answer.positions)) in boxes
    loads = [layout.loads[position] for position in answer.positions]
    assert (max(loads), sum(loads)) == best
    index_of = dict(zip(product(*map(range, shape)), answer.positions, strict=True))
    for cell, position in index_of.items():  # neighbours in the shape are neighbours on the island
        for dimension in range(len(shape)):
            after = (*cell[:dimension], cell[dimension] + 1, *cell[dimension + 1 :])
            if after in index_of:
                one, other = cells[position], cells[index_of[after]]
                assert sum(abs(a - b) for a, b in zip(one, other, strict=True)) == 1


def test_gaps_are_avoided() -> None:
    assert place(Wish(1), [line(size=5, loads=(0, 0, 0, 1, 0))]) == Chosen("a", (4,))
    assert place(Wish(2), [line(size=7, loads=(0, 0, 0, 1, 0, 0, 1))]) == Chosen("a", (4, 5))
    assert place(Wish(2, (2,)), [line(size=7, loads=(0, 0, 0, 1, 0, 0, 1))]) == Chosen("a", (4, 5))
    assert place(Wish(2), [line("a", 4), line("b", 2)]) == Chosen("b", (0, 1))


def test_a_column_of_a_grid_is_a_line() -> None:
    assert place(Wish(2, (2,)), [grid("a", (2, 2), (0, 1, 0, 1))]) == Chosen("a", (0, 2))
    assert place(Wish(4, (4, 1)), [line()]) == Chosen("a", (0, 1, 2, 3))


def test_each_refusal_has_its_own_sentence() -> None:
    a, b = line(), line("b", 2)
    assert refusal(Wish(8), a, b) == "virtual slice needs 8 devices in one island; the largest island has 4"
    assert refusal(Wish(3, island="b"), a, b) == "virtual slice needs 3 devices in one island; island b has 2"
    assert refusal(Wish(1, island="zz"), a, b) == "there is no island 'zz'; the cluster has a, b: name one of these, or 'any'"
    assert refusal(Wish(1, kind="tpu"), a) == "no island has devices of kind 'tpu'; the kinds there are: cpu"
    assert refusal(Wish(1, kind="tpu", island="a"), a) == "island a has devices of kind cpu, not 'tpu'; the kinds there are: cpu"
    assert refusal(Wish(4, (2, 2)), a) == (
        "a 2x2 slice cannot lie on island a, which is a line of 4 devices; ask for another shape, or declare the shape of the"
        " island (island_shapes)"
    )
    assert refusal(Wish(4, (4,)), grid("a", (2, 2))) == ("a 4 slice cannot lie on island a, which is 2x2; ask for another shape")
    assert refusal(Wish(3, off={"a": (0, 1)}), a) == (
        "the slices it must lie apart from are in the way: they leave 2 devices on island a and it needs 3"
    )
    assert refusal(Wish(2, on=(0, 1), on_island="a", off={"a": (1,)}), a) == (
        "the slices it must lie with and apart from contradict: they leave 1 device on island a and it needs 2"
    )
    assert refusal(Wish(3, on=(0, 1), on_island="a"), a) == "the slice needs 3 devices and those it must lie with have 2"


def test_what_is_in_use_is_waited_for_by_name() -> None:
    held = line(blocked={0: "slice 1 of session 7 (ann)", 1: "slice 1 of session 7 (ann)"})
    answer = place(Wish(3), [held, line("b", 2)])
    assert answer == Later("1 device more of island a, held exclusively by slice 1 of session 7 (ann)")
    assert place(Wish(4, exclusive=True), [held]) == Later("2 devices more of island a, in use by slice 1 of session 7 (ann)")
    assert place(Wish(2), [held]) == Chosen("a", (2, 3))
    forming = line("b", 8, lacks="island b (it waits for a host)")
    assert place(Wish(8), [held, forming]) == Later("island b (it waits for a host)")


def test_with_and_apart_name_positions() -> None:
    assert place(Wish(2, on=(2, 3), on_island="a"), [line()]) == Chosen("a", (2, 3))
    assert place(Wish(2, off={"a": (0, 1)}), [line()]) == Chosen("a", (2, 3))
