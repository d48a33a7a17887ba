"""Hosts that declare where they are: who fits to whom, which rank they get, and slices that lie as the devices do."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import pytest
from pathways_common.model.ids import HostName, IslandName
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.core.placer import Chosen, Later, Layout, Never, Wish, place

from tests.unit.core.core_driver import Driver, only, replies, sent

SQUARE = {"a0": (0, 0), "a1": (0, 1), "a2": (1, 0), "a3": (1, 1)}


def join(driver: Driver, host: str, *coordinates: tuple[int, ...], topology: tuple[int, ...] = (2, 2), **more: Any) -> list[Any]:
    driver.incarnation += 1
    name, devices = HostName(host), more.pop("devices", len(coordinates))
    return driver.step(
        events.HostJoined(
            name, IslandName(host[0]), driver.incarnation, devices, f"{host}:1", 1, 0, topology, coordinates, more.pop("kind", "")
        )
    )


def square(**config: Any) -> Driver:
    """Island a of 2x2 hosts with one device each, and a session."""
    driver = Driver({}, pool_slices=6, **config)
    for host, coordinate in SQUARE.items():
        join(driver, host, coordinate)
    driver.open(1)
    return driver


def added(effects: list[out.Effect]) -> out.SliceAdded:
    return only(replies(effects, out.SliceAdded))


def refusal(effects: list[out.Effect]) -> str:
    failure = added(effects).failure
    assert failure is not None
    return failure.message


def test_an_island_waits_for_all_places_of_its_topology() -> None:
    driver = Driver({})
    for host in ("a0", "a1", "a2"):
        join(driver, host, SQUARE[host])
    island = driver.core.snapshot(0).islands[0]
    assert (island.state, island.topology) == ("WAITING", (2, 2))
    assert island.lacks == "island a waits for 1 more host of 4; there: a0, a1, a2"
    join(driver, "a3", SQUARE["a3"])
    assert driver.core.snapshot(0).islands[0].state == "ACTIVE"


@pytest.mark.parametrize("order", list(permutations(["a0", "a1", "a2", "a3"]))[::5])
def test_ranks_follow_coordinates_whatever_the_names_are(order: tuple[str, ...]) -> None:
    driver = Driver({})
    places = dict(zip(order, SQUARE.values(), strict=True))
    for host in sorted(order):
        join(driver, host, places[host])
    assert [host.name for host in driver.core.state.islands[IslandName("a")].members] == list(order)


def test_a_host_in_another_ones_place_takes_its_rank() -> None:
    driver = square()
    driver.add_slice(1, mesh_shape=(2, 1))
    driver.lose("a1")
    join(driver, "a9", SQUARE["a1"])
    assert [host.name for host in driver.core.state.islands[IslandName("a")].members] == ["a0", "a9", "a2", "a3"]


def test_slices_of_one_two_and_three_dimensions_on_four_hosts() -> None:
    driver = square()
    assert added(driver.add_slice(1, mesh_shape=(2, 2))).hosts == ("a0", "a1", "a2", "a3")
    assert added(driver.add_slice(2, mesh_shape=(1, 2, 2))).hosts == ("a0", "a1", "a2", "a3")
    assert set(added(driver.add_slice(3, mesh_shape=(2,))).hosts) in ({"a0", "a1"}, {"a0", "a2"})
    assert refusal(driver.add_slice(4, mesh_shape=(4, 1))) == (
        "a 4x1 slice cannot lie on island a, which is 2x2; ask for another shape"
    )


def test_devices_of_a_host_may_be_anywhere() -> None:
    driver = Driver({}, pool_slices=6)
    join(driver, "a0", (0, 0), (1, 1))
    join(driver, "a1", (0, 1), (1, 0))
    driver.open(1)
    # Host a0 has the diagonal, so every line has one device of each host.
    assert sorted(added(driver.add_slice(1, mesh_shape=(2, 1))).hosts) == ["a0", "a1"]
    assert added(driver.add_slice(2, mesh_shape=(2, 2))).hosts == ("a0", "a1", "a1", "a0")
    assert [figures.positions for figures in driver.core.snapshot(0).slices][1] in ((0, 2, 3, 1), (0, 3, 2, 1))


@pytest.mark.parametrize("shape", [(2,), (3,), (2, 2), (3, 2), (1, 3, 2)])
def test_boxes_lie_on_places_whatever_the_positions_are_called(shape: tuple[int, ...]) -> None:
    """The places of a declared order are those of the plain order under other names."""
    cells = list(product(range(3), range(3)))
    for number, order in enumerate(list(permutations(range(9)))[:: 362880 // 40]):
        loads = tuple((number * 7 + place * 5) % 3 for place in range(9))
        plain = place(Wish(len(list(product(*map(range, shape)))), shape), [Layout("a", "", (3, 3), loads, {}, declared=True)])
        renamed = [0] * 9
        for where, position in enumerate(order):
            renamed[position] = loads[where]
        layout = Layout("a", "", (3, 3), tuple(renamed), {}, declared=True, places=order)
        found = place(Wish(len(list(product(*map(range, shape)))), shape), [layout])
        assert isinstance(plain, Chosen)
        assert isinstance(found, Chosen)
        assert sum(renamed[position] for position in found.positions) == sum(loads[position] for position in plain.positions)
        at = [cells[order.index(position)] for position in found.positions]
        spans = sorted(max(column) - min(column) + 1 for column in zip(*at, strict=True))
        assert spans == sorted([1, *shape])[-2:]


def test_an_empty_place_is_in_no_slice() -> None:
    driver = Driver({}, pool_slices=4, island_hosts={"a": 2})
    join(driver, "a0", (0, 0))
    join(driver, "a3", (1, 1))
    driver.open(1)
    assert refusal(driver.add_slice(1, mesh_shape=(2, 1))) == (
        "a 2x1 slice cannot lie there: of the 2x2 places of island a only 2 have a device; ask for another shape, or start the"
        " other hosts"
    )
    assert added(driver.add_slice(2, 2)).hosts == ("a0", "a3")


def test_a_shape_is_waited_for_while_the_island_of_a_topology_lacks_hosts() -> None:
    driver = Driver({"b": ["b0"]}, pool_slices=4)
    driver.open(1)
    join(driver, "a0", (0, 0))
    waiting = Layout("a", "", (2, 2), (0,) * 4, {}, lacks="island a (it waits)", declared=True)
    assert place(Wish(4, (2, 2)), [waiting]) == Later("island a (it waits)")
    assert isinstance(place(Wish(4, (4, 1)), [waiting]), Never)


@pytest.mark.parametrize(
    ("coordinates", "more", "sentence"),
    [
        ([(0, 1)], {"topology": (4,)}, "host a9 declares 4 and the others of island a 2x2; start it alike"),
        ([], {"topology": (), "devices": 1}, "host a9 declares no topology and the others of island a 2x2; start it alike"),
        ([(2, 0)], {}, "host a9 is at 2,0, which is no place of 2x2; give each size an index below it"),
        ([(0,)], {}, "host a9 is at 0, which is no place of 2x2; give each size an index below it"),
        ([(0, 0)], {}, "host a9 is at 0,0 of island a, and host a0 is there; give every device a place of its own"),
        ([(0, 1), (1, 1)], {"devices": 1}, "host a9 has 1 devices and gives 2 coordinates; give one for each"),
        ([(0, 1), (1, 1)], {}, "host a9 has 2 devices and island a has 1 per host; start it alike"),
        ([(0, 1)], {"kind": "fast"}, "host a9 declares fast for its devices and the others of island a no kind; start it alike"),
    ],
)
def test_a_host_that_does_not_fit_to_the_others_is_turned_away(coordinates: Any, more: dict[str, Any], sentence: str) -> None:
    driver = Driver({})
    join(driver, "a0", (0, 0))
    assert only(sent(join(driver, "a9", *coordinates, **more), out.Shutdown)) == ("a9", out.Shutdown(sentence, refused=True))
    assert list(driver.core.state.hosts) == ["a0"]


def test_a_first_host_is_measured_by_its_own_words_and_the_controllers() -> None:
    driver = Driver({}, island_shapes={"b": (4,)})
    twice = only(sent(join(driver, "a0", (0, 0), (0, 0)), out.Shutdown))[1].reason
    assert twice == "host a0 is at 0,0 of island a, and it has two devices there; give every device a place of its own"
    three = only(sent(join(driver, "a0", (0, 0), (0, 1), (1, 0)), out.Shutdown))[1].reason
    assert three == "host a0 has 3 devices, and the 4 places of 2x2 are no multiple of it"
    other = only(sent(join(driver, "b0", (0, 0)), out.Shutdown))[1].reason
    assert other == "host b0 declares 2x2 and the controller has 4 for island b (island_shapes); make them agree"


def test_a_declared_kind_goes_before_that_of_xla_and_is_asked_for_by_name() -> None:
    driver = Driver({}, pool_slices=4)
    join(driver, "a0", (0,), topology=(1,), kind="fast")
    join(driver, "b0", (0,), topology=(1,), kind="slow")
    welcome = only(replies(driver.open(1, ("*",)), out.WelcomeSession))
    assert [device.device_kind for device in welcome.devices if not device.pool] == ["fast", "slow"]
    given = added(driver.add_slice(1, 1, kind="slow"))
    assert (given.island, given.kind) == ("b", "slow")
    assert refusal(driver.add_slice(2, 1, kind="cpu")) == "no island has devices of kind 'cpu'; the kinds there are: fast, slow"
