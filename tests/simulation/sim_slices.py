"""Virtual slices in the simulation: what a client asks for and gives back, and a book of who holds which device.

The book is kept from what the core says (its log and its answers), not from its tables: exclusive devices belong to one
session, a slice has different devices of one island, and at the end everything was given back.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from pathways_common.model.failure import Reason
from pathways_server.core import effects as out
from pathways_server.core import events


class Book:
    """Holders by (session, slice): island, positions and whether they are exclusive."""

    def __init__(self, world: Any, sizes: dict[str, int], devices_per_host: int) -> None:
        self.world = world
        self.sizes = sizes
        self.devices_per_host = devices_per_host
        self.wishes: dict[tuple[int, int], events.SliceRequested] = {}
        self.holders: dict[tuple[int, int], tuple[str, tuple[int, ...], bool]] = {}
        self.counts: dict[str, int] = {}

    def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.SliceRequested):
            self.wishes[event.session, event.slice_id] = event
        elif isinstance(event, events.SessionClosed):
            for key in [key for key in self.holders if key[0] == event.session]:
                del self.holders[key]

    def on_log(self, log: out.Log) -> None:
        fields = dict(log.fields)
        if log.phrase not in ("slice added", "slice released", "slice waits"):
            return
        self.counts[log.phrase] = self.counts.get(log.phrase, 0) + 1
        key = (int(fields["session"]), int(fields["slice"]))
        if log.phrase == "slice added":
            self.add(key, fields["island"], tuple(map(int, fields["positions"].split(","))))
        elif log.phrase == "slice released" and self.holders.pop(key, None) is None:
            self.world.violate("slices", f"slice {key} was given back and nobody held it")

    def add(self, key: tuple[int, int], island: str, positions: tuple[int, ...]) -> None:
        exclusive = self.wishes[key].exclusive
        self.check_shape(key, island, positions)
        if len(set(positions)) != len(positions) or not all(0 <= position < self.sizes[island] for position in positions):
            self.world.violate("slices", f"slice {key} got devices {positions} of island {island}")
        for (session, number), (other, held, alone) in self.holders.items():
            if session != key[0] and other == island and set(held) & set(positions) and (alone or exclusive):
                self.world.violate("slices", f"slice {key} shares devices with slice {number} of session {session}")
        self.holders[key] = (island, positions, exclusive)

    def check_shape(self, key: tuple[int, int], island: str, positions: tuple[int, ...]) -> None:
        """Neighbours in the wanted shape are neighbours on the island."""
        shape = self.wishes[key].mesh_shape
        at = dict(zip(product(*map(range, shape)), positions, strict=True)) if shape else {}
        for cell, position in at.items():
            for dimension in range(len(shape)):
                after = (*cell[:dimension], cell[dimension] + 1, *cell[dimension + 1 :])
                if after in at and self.apart(island, position, at[after]) != 1:
                    self.world.violate("slices", f"slice {key} got {positions} of island {island} as {shape}")

    def apart(self, island: str, one: int, other: int) -> int:
        """How many steps two devices are from one another: two hosts lie one above the other, others in a line."""
        if self.sizes[island] != 2 * self.devices_per_host:
            return abs(one - other)
        (row, column), (row_of_other, column_of_other) = divmod(one, self.devices_per_host), divmod(other, self.devices_per_host)
        return abs(row - row_of_other) + abs(column - column_of_other)


def add(client: Any) -> None:
    """Asks for one, often for more than is free."""
    choose = client.random
    if len(client.asked) + len(client.slices) > 6:
        return
    islands = list(client.cluster.book.sizes)
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
        fits = 0 < request.device_count <= min(client.cluster.book.sizes.values())
        expected = [Reason.TIMED_OUT, Reason.CANCELLED] if request.wait else [Reason.RESOURCE_EXHAUSTED]
        if not (plain and fits):
            expected.append(Reason.INVALID_ARGUMENT)
        if reply.failure.reason not in expected and not client.cluster.quotas.may_refuse(reply.failure):
            client.world.violate("slices", f"{request} was refused with {reply.failure}")
        return
    if reply.slice_id in client.withdrawn:
        return  # it was bound while its release was on the way
    devices = list(client.devices)
    for device, host in zip(reply.devices, reply.hosts, strict=True):
        devices[device] = replace(devices[device], island=reply.island, host=host)
    client.devices = tuple(devices)
    client.slices[reply.slice_id] = reply.devices


def release(client: Any) -> None:
    """Gives one back, with work on it under way, or withdraws a request; what lies on it has ended for the client."""
    numbers = [*client.slices, *client.asked]
    if not numbers:
        return
    number = client.random.choice(numbers)
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
