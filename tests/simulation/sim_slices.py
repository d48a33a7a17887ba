"""Virtual slices in the simulation: what a client asks for and gives back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pathways_common.model.failure import Reason
from pathways_server.core import effects as out
from pathways_server.core import events


def add(client: Any) -> None:
    """Asks for one, often for more than is free."""
    choose = client.random
    if len(client.asked) + len(client.slices) > 6:
        return
    islands = list(client.cluster.sizes)
    shape = tuple(choose.choice([(2,), (2, 2), (1, 2)])) if choose.random() < 0.2 else ()
    held = list(client.slices)
    request = events.SliceRequested(
        client.number,
        client.new_id(),
        0 if shape else choose.randint(1, 4),
        shape,
        island=choose.choice(["", "any", *islands]),
        exclusive=choose.random() < 0.4,
        with_slices=tuple(choose.sample(held, min(len(held), 1))) if choose.random() < 0.1 else (),
        apart_from_slices=tuple(choose.sample(held, min(len(held), 1))) if choose.random() < 0.2 else (),
        wait=choose.random() < 0.6,
        timeout_ns=choose.choice([0, 200_000_000, 2_000_000_000]),
    )
    client.asked[request.slice_id] = request
    client.open_questions["slice", request.slice_id] = ([], 0)
    client.send(request)


def on_added(client: Any, reply: out.SliceAdded) -> None:
    client.open_questions.pop(("slice", reply.slice_id), None)
    client.answers += 1
    request = client.asked.pop(reply.slice_id)
    if reply.failure is not None:
        plain = not (request.mesh_shape or request.with_slices or request.apart_from_slices)
        fits = 0 < request.device_count <= min(client.cluster.sizes.values())
        expected = [Reason.TIMED_OUT, Reason.CANCELLED] if request.wait else [Reason.RESOURCE_EXHAUSTED]
        if not (plain and fits) or client.cluster.migrations.drains:  # a session knows the size that the islands had at first
            expected.append(Reason.INVALID_ARGUMENT)
        if reply.failure.reason not in expected and not client.cluster.quotas.may_refuse(reply.failure):
            client.world.violate("failures", f"{request} was refused with {reply.failure}")
        return
    if reply.slice_id in client.withdrawn:
        return  # it was bound while its release was on the way
    devices = list(client.devices)
    for device, host in zip(reply.devices, reply.hosts, strict=True):
        devices[device] = replace(devices[device], island=reply.island, host=host)
    client.devices = tuple(devices)
    client.slices[reply.slice_id] = reply.devices
    client.cluster.migrations.on_added(client, reply.slice_id)


def release(client: Any) -> None:
    """Gives one back, with work on it under way, or withdraws a request; what lies on it has ended for the client."""
    numbers = [*client.slices, *client.asked]
    if not numbers:
        return
    give_back(client, client.random.choice(numbers))


def give_back(client: Any, number: int) -> None:
    """This one."""
    client.send(events.SliceReleased(client.number, number))
    client.withdrawn[number] = None
    gone = client.slices.pop(number, ())
    for array in client.arrays.values():
        for device, buffer in zip(array.devices, array.buffers, strict=True):
            if device in gone:
                client.ended[buffer] = None
    for traced in client.traced.values():
        traced.lost = traced.lost or bool(traced.devices() & set(gone))
    unloaded = [node.compilation for traced in client.traced.values() for node in traced.nodes]
    for compilation in [*client.programs.values(), *unloaded]:
        if set(compilation.devices) & set(gone):
            compilation.ok, compilation.gone = False, True
