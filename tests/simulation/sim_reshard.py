"""A simulated client's reshards: whole shards in another order, each on one device or on several, maybe of another island."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pathways_common.model.array import ArraySpec
from pathways_common.model.failure import Reason
from pathways_server.core import events

F32 = 11


def cut(order: list[int], tiles: int) -> bytes:
    """A serialized xla.OpSharding of one dimension: these positions hold the tiles in turn."""
    dimensions = bytes([tiles, len(order) // tiles])
    return b"\x08\x03\x1a\x02" + dimensions + b"\x22" + bytes([len(order), *order]) + b"\x30\x01"


def reshard(client: Any) -> None:
    """Sends one and works out what must come of it; nothing if the array and the devices that were drawn do not fit."""
    choose, arrays = client.random, client.live()
    if not arrays:
        return
    source = choose.choice(arrays)
    count = len(source.devices)
    devices = client.some_devices()
    if len(devices) % count:
        return
    before, after = list(range(count)), list(range(len(devices)))
    choose.shuffle(before)
    choose.shuffle(after)
    expected = [0] * len(devices)
    for at, position in enumerate(after):
        expected[position] = source.expected[before[at * count // len(devices)]]
    identifier = client.new_id()
    client.arrays[identifier] = replace(
        source,
        id=identifier,
        expected=expected,
        devices=devices,
        buffers=(identifier,) * len(devices),
        history=tuple(sorted({*source.history, *client.homes_of(devices)})),
        may_fail=(*source.may_fail, Reason.UNAVAILABLE),
    )
    donate = set(source.buffers) == {source.id} and choose.random() < 0.3
    lies = ArraySpec(F32, (source.size // 4 * count,), cut(before, count), (source.size // 4,), source.devices)
    wanted = replace(lies, sharding=cut(after, count), devices=devices)
    results, views = (client.g(identifier),), (client.g(source.id),)
    client.send(events.ReshardRequested(client.number, results, views, (lies,), (wanted,), donate))
    if donate:
        client.ended[source.id] = None
