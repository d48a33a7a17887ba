"""A host's share of a plan: both ends of every pull agree, moved values are right, sequences and orders follow the plan.

What a move must yield is cut out of a NumPy array with the sharding that jaxlib itself applies.
"""

from __future__ import annotations

import hashlib
import hmac
import random
from typing import Any

import numpy as np
import pytest
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec
from pathways_common.model.array import ArraySpec
from pathways_proto.v1 import workers_pb2
from pathways_worker.core import plans
from pathways_worker.core.loaded_plan import LoadedPlan, PlanFree, PlanHost, PlanLaunch, PlanMove, PlanSpec, PlanStep
from pathways_worker.core.plans import FreeStep, HostPlan, LaunchStep, Local, PlaceStep, SendStep, host_plan
from pathways_worker.plan_messages import read_plan

F32 = 11
P = PartitionSpec
SPECS = (P(), P("x"), P("y"), P(None, "x"), P("x", "y"), P("y", "x"), P(("x", "y")), P(None, ("x", "y")))


def mesh_sharding(mesh: tuple[int, int], spec: PartitionSpec) -> NamedSharding:
    return NamedSharding(AbstractMesh(mesh, ("x", "y")), spec)


def placed(mesh: tuple[int, int], spec: PartitionSpec, shape: tuple[int, ...], hosts: list[int]) -> PlanSpec:
    sharding = mesh_sharding(mesh, spec)
    data = sharding._to_xla_hlo_sharding(len(shape)).to_proto().SerializeToString()
    part = sharding.shard_shape(shape)
    locals_: list[int] = [hosts[:at].count(host) for at, host in enumerate(hosts)]
    return PlanSpec(ArraySpec(F32, shape, data, part, tuple(range(len(hosts)))), tuple(hosts), tuple(locals_))


def shards(mesh: tuple[int, int], spec: PartitionSpec, whole: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """What each position holds, as NumPy slices of the array; the sharding's own device order."""
    indices = mesh_sharding(mesh, spec)
    counts = [1] * whole.ndim
    names = dict(zip(("x", "y"), mesh, strict=True))
    axes = [() if part is None else (part,) if isinstance(part, str) else part for part in (*spec, *[None] * whole.ndim)][
        : whole.ndim
    ]
    found = []
    for position in range(mesh[0] * mesh[1]):
        at = dict(zip(("x", "y"), np.unravel_index(position, mesh), strict=True))
        window = []
        for dimension, used in enumerate(axes):
            index = 0
            counts[dimension] = 1
            for name in used:
                index = index * names[name] + int(at[name])
                counts[dimension] *= names[name]
            size = whole.shape[dimension] // counts[dimension]
            window.append(slice(index * size, (index + 1) * size))
        found.append(whole[tuple(window)])
    assert indices.shard_shape(whole.shape) == found[0].shape
    return found


def plan_of(
    hosts: int, specs: list[PlanSpec], steps: list[PlanStep], islands: list[str] | None = None, slots: int = 8
) -> LoadedPlan:
    named = islands or ["a"] * hosts
    members = tuple(PlanHost(f"h{at}", named[at], 5, f"127.0.0.1:{9000 + at}") for at in range(hosts))
    return LoadedPlan(3, members, tuple(specs), tuple(steps), 1, slots, (slots - 1,), "train")


def carried_out(plan: LoadedPlan, source: PlanSpec, values: list[np.ndarray[Any, Any]]) -> dict[int, np.ndarray[Any, Any]]:
    """Carries out the only move on every host; the destination shards. Every pull must find its send, once."""
    host_plans = [host_plan(plan, host.name) for host in plan.hosts]
    offered: dict[str, np.ndarray[Any, Any]] = {}
    here: list[list[np.ndarray[Any, Any]]] = [
        [value for value, host in zip(values, source.hosts, strict=True) if host == me] for me in range(len(plan.hosts))
    ]
    for me, share in enumerate(host_plans):
        sends = [step for step in share.steps if isinstance(step, SendStep)]
        assert [(send.step, send.count) for send in sends] == [entry[:2] for entry in share.sends]
        assert [entry.number for entry in share.sends] == list(range(len(sends)))
        for step, entry in zip(sends, share.sends, strict=True):
            assert entry.ticket_text not in offered
            shard = here[me][step.local_index]
            window = tuple(slice(a, b) for a, b in zip(step.start, step.limit, strict=True)) if step.limit else ()
            offered[entry.ticket_text] = shard[window] if window else shard
    landed: dict[int, np.ndarray[Any, Any]] = {}
    for me, share in enumerate(host_plans):
        assert [entry.number for entry in share.pulls] == list(range(len(share.pulls)))
        pulled = {}
        for entry in share.pulls:
            value = offered.pop(entry.ticket_text)
            assert value.nbytes == entry.size_bytes
            pulled[entry.number] = value
        for step in (step for step in share.steps if isinstance(step, PlaceStep)):
            destination = plan.specs[1]
            positions = [at for at, host in enumerate(destination.hosts) if host == me]
            assert [piece.local_device for piece in step.pieces] == [destination.local_devices[at] for at in positions]
            assert step.pulled_bytes == sum(value.nbytes for value in pulled.values())
            for at, piece in zip(positions, step.pieces, strict=True):
                landed[at] = assembled(piece.source, pulled, here[me], step.spec.spec.shard_shape)
    assert not offered, "somebody sends what nobody pulls"
    return landed


def assembled(source: Any, pulled: dict[int, Any], here: list[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    if isinstance(source, int):
        return np.asarray(pulled[source]).reshape(shape)
    if isinstance(source, Local):
        return np.asarray(here[source.local_index])
    result = np.zeros(shape, np.float32)
    for part in source:
        window = tuple(slice(a, a + b) for a, b in zip(part.start, part.shape, strict=True))
        if isinstance(part.source, int):
            result[window] = pulled[part.source].reshape(part.shape)
        else:
            inner = tuple(slice(a, a + b) for a, b in zip(part.local_start, part.shape, strict=True))
            result[window] = here[part.source.local_index][inner]
    return result


@pytest.mark.parametrize("seed", range(60))
def test_a_move_between_any_two_layouts_brings_every_host_its_shards(seed: int) -> None:
    draw = random.Random(seed)
    shape = (8, 16)
    whole = np.arange(128, dtype=np.float32).reshape(shape)
    meshes = [(2, 2), (1, 4), (4, 1), (2, 4), (1, 1), (1, 2)]
    of, to = draw.choice(meshes), draw.choice(meshes)
    of_spec, to_spec = draw.choice(SPECS), draw.choice(SPECS)
    of_hosts = [draw.randrange(3) for _ in range(of[0] * of[1])]
    to_hosts = [draw.randrange(1, 5) for _ in range(to[0] * to[1])]
    source, destination = placed(of, of_spec, shape, of_hosts), placed(to, to_spec, shape, to_hosts)
    plan = plan_of(5, [source, destination], [PlanMove(0, 2, 0, 1)])
    landed = carried_out(plan, source, shards(of, of_spec, whole))
    for position, expected in enumerate(shards(to, to_spec, whole)):
        np.testing.assert_array_equal(landed[position], expected)


def test_hosts_without_a_part_in_a_move_know_nothing_of_it() -> None:
    whole = placed((1, 2), P("y"), (4,), [0, 1])
    away = placed((1, 2), P("y"), (4,), [2, 3])
    plan = plan_of(5, [whole, away], [PlanMove(0, 2, 0, 1), PlanFree((2,))])
    assert host_plan(plan, "h4").steps == ()
    assert [type(step) for step in host_plan(plan, "h2").steps] == [PlaceStep, FreeStep]
    assert [type(step) for step in host_plan(plan, "h0").steps] == [SendStep]


def test_whole_shards_between_the_same_layouts_are_named_without_a_box() -> None:
    plan = plan_of(4, [placed((1, 2), P("y"), (4,), [0, 1]), placed((1, 2), P("y"), (4,), [2, 3])], [PlanMove(0, 2, 0, 1)])
    share = host_plan(plan, "h3")
    assert share.pulls == ((0, 0, "0:1:3::", "127.0.0.1:9001", 8),)
    assert host_plan(plan, "h1").sends == ((0, 0, "0:1:3::"),)


def test_devices_of_one_host_that_want_the_same_share_one_pull() -> None:
    plan = plan_of(2, [placed((1, 1), P(), (4,), [0]), placed((1, 4), P(), (4,), [1, 1, 1, 1])], [PlanMove(0, 2, 0, 1)])
    share = host_plan(plan, "h1")
    assert len(share.pulls) == 1
    assert [piece.source for piece in share.steps[0].pieces] == [0, 0, 0, 0]  # type: ignore[union-attr]


def test_the_table_of_a_host_grows_with_its_own_shards_and_not_with_all_of_them() -> None:
    def share(count: int) -> HostPlan:
        source = placed((1, count), P("y"), (count * 4, 2), list(range(count)))
        destination = placed((1, count), P("y"), (count * 4, 2), list(range(count, 2 * count)))
        return host_plan(plan_of(2 * count, [source, destination], [PlanMove(0, 2, 0, 1)]), f"h{count}")

    assert len(share(4).steps) == len(share(256).steps) == 1
    assert len(share(256).pulls) == 1


def launch(hosts: tuple[int, ...], arguments: tuple[int, ...], results: tuple[int, ...], node: int = 1) -> PlanLaunch:
    return PlanLaunch(node, 7, arguments, results, (), hosts)


def test_sequences_count_every_launch_of_the_island_member_or_not() -> None:
    steps: list[PlanStep] = [
        launch((0, 1), (0,), (1,)),  # step 0
        launch((2,), (0,), (2,)),  # step 1: another island
        launch((1,), (1,), (3,)),  # step 2: h0 is no member
        PlanFree((1,)),
        launch((0,), (3,), (4,)),  # step 4
        launch((0, 1), (4,), (5,)),  # step 5
    ]
    plan = plan_of(3, [], steps, ["a", "a", "b"])
    share = host_plan(plan, "h0")
    assert share.island_launches == (0, 2, 4, 5)
    # The island's launches got sequences 10, 11, 12, 13.
    assert share.own_sequences(0, 6, 10) == (10, 13)
    # A grant of steps 1 to 4: the island's first launch in it, of which h0 is no member, has sequence 11.
    assert share.own_sequences(1, 4, 11) == (0, 0)
    assert share.own_sequences(1, 5, 11) == (12, 12)
    assert [share.sequence_of(own, 0, 10) for own in share.launches] == [10, 12, 13]
    assert share.sequence_of(share.launches[1], 2, 11) == 12
    assert host_plan(plan, "h2").own_sequences(0, 6, 4) == (4, 4)


def test_arguments_and_results_are_never_freed_by_a_step() -> None:
    steps: list[PlanStep] = [launch((0,), (0,), (1, 7)), PlanFree((0, 1, 7, 5))]
    share = host_plan(plan_of(1, [], steps), "h0")
    assert share.steps[1] == FreeStep(1, (1,))
    assert share.own_slots == (1,)
    assert share.steps[0].from_arguments == ((0, 0),)  # type: ignore[union-attr]


def test_what_is_sent_goes_as_soon_as_it_is_made_and_not_before_its_range() -> None:
    here, away = placed((1, 1), P(), (4,), [0]), placed((1, 1), P(), (4,), [1])
    steps: list[PlanStep] = [
        launch((0,), (0,), (1,)),
        launch((0,), (0,), (2,)),
        PlanMove(1, 3, 0, 1),
        PlanMove(0, 4, 0, 1),
    ]
    share = host_plan(plan_of(2, [here, away], steps), "h0")

    def order(first: int, end: int) -> list[tuple[type, int]]:
        return [(type(step), step.step) for step in share.in_order(first, end)]

    # The argument's send needs nothing; slot 1 goes right after its launch, before the next one.
    assert order(0, 4) == [(SendStep, 3), (LaunchStep, 0), (SendStep, 2), (LaunchStep, 1)]
    assert order(0, 2) == [(LaunchStep, 0), (LaunchStep, 1)]
    assert order(2, 4) == [(SendStep, 2), (SendStep, 3)]


def test_numbers_and_tickets_are_those_of_the_agreement() -> None:
    assert plans.transfer_number(3, 5) == 2**63 + 3 * 2**24 + 5
    assert plans.fetch_number(0, 0) == 2**63
    expected = hmac.new(b"key", b"2:1:3:0x4:8x8", hashlib.sha256).hexdigest()[:32]
    assert plans.ticket(b"key", "2:1:3:0x4:8x8") == expected
    source, away = placed((1, 2), P("y"), (8, 8), [0, 0]), placed((1, 2), P(None, "y"), (8, 8), [1, 2])
    share = host_plan(plan_of(3, [source, away], [PlanMove(0, 2, 0, 1)]), "h2")
    assert [pull.ticket_text for pull in share.pulls] == ["0:0:2:0x4:4x8", "0:1:2:0x4:4x8"]


def test_a_host_that_takes_no_part_is_refused() -> None:
    with pytest.raises(LookupError, match="h9"):
        host_plan(plan_of(1, [], []), "h9")


def test_a_message_becomes_the_same_plan() -> None:
    spec = placed((1, 2), P("y"), (4,), [0, 1])
    message = workers_pb2.LoadPlan(
        plan_id=3,
        hosts=[{"name": f"h{at}", "island": "a", "epoch": 5, "data_address": f"127.0.0.1:{9000 + at}"} for at in range(2)],
        specs=[
            {
                "spec": {"dtype": F32, "shape": [4], "sharding": spec.spec.sharding, "shard_shape": [2], "devices": [0, 1]},
                "hosts": [0, 1],
                "local_devices": [0, 0],
            }
        ],
        steps=[
            {"launch": {"node": 1, "executable_id": 7, "arguments": [0], "results": [1], "hosts": [0, 1]}},
            {"move": {"source": 1, "destination": 2, "source_spec": 0, "destination_spec": 0}},
            {"free": {"slots": [1, 2]}},
        ],
        argument_count=1,
        slot_count=8,
        results=[7],
        name="train",
    )
    steps: list[PlanStep] = [launch((0, 1), (0,), (1,)), PlanMove(1, 2, 0, 0), PlanFree((1, 2))]
    assert read_plan(message) == plan_of(2, [spec], steps)
