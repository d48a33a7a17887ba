"""Requests for storage when they are loaded: what does not fit itself is refused, and each host does what is for its devices."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from pathways_common.model.colocated import MAGIC
from pathways_common.model.failure import Reason
from pathways_proto.v1 import colocated_pb2, workers_pb2
from pathways_worker.executor import storage_programs
from pathways_worker.executor.colocated import load_colocated
from pathways_worker.executor.failures import Refused

FLOAT = 11


def request(write: bool = False) -> Any:
    """One array of eight in four shards, on devices 4 to 7 of the session."""
    message = colocated_pb2.ColocatedProgram(name="a request", devices=[4, 5, 6, 7])
    message.storage.write = write
    stored = message.storage.arrays.add(path="/data/x", dtype=FLOAT, shape=[8], shard_shape=[2])
    for start in (0, 2, 4, 6):
        stored.shards.add(start=[start])
    (message.parameters if write else message.outputs).add(dtype=FLOAT, shape=[2], shard_shape=[2])
    return message


def set_shards(count: int) -> Callable[[Any], None]:
    def change(message: Any) -> None:
        del message.storage.arrays[0].shards[count:]

    return change


def set_field(name: str, value: Any) -> Callable[[Any], None]:
    def change(message: Any) -> None:
        stored = message.storage.arrays[0]
        stored.ClearField(name)
        if isinstance(value, list):
            getattr(stored, name).extend(value)
        else:
            setattr(stored, name, value)

    return change


@pytest.mark.parametrize("write", [False, True])
def test_what_the_door_sends_is_taken(write: bool) -> None:
    storage_programs.check(request(write))


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda message: message.storage.arrays.add(), "for 2 arrays; give one for each, and nothing else"),
        (lambda message: message.outputs.add() and message.parameters.add(), "for 1 arrays; give one for each, and nothing else"),
        (set_field("shard_shape", [3]), "/data/x is of another type or shard shape than its array; make the request anew"),
        (set_field("dtype", 12), "/data/x is of another type or shard shape than its array; make the request anew"),
        (set_field("shape", [4, 2]), "/data/x and its shards have different numbers of dimensions; give them one"),
        (set_shards(3), "/data/x has 3 shards for 4 devices; name one for each"),
    ],
)
def test_what_does_not_fit_itself_is_refused_in_a_sentence(write: bool, change: Callable[[Any], None], sentence: str) -> None:
    message = request(write)
    change(message)
    with pytest.raises(Refused) as refused:
        storage_programs.check(message)
    assert refused.value.failure.reason == Reason.INVALID_ARGUMENT.value
    assert refused.value.failure.message.startswith("a request cannot be carried out: ")
    assert refused.value.failure.message.endswith(sentence)


def machine(rank: int) -> Any:
    """One of two hosts with two devices each."""
    devices = [SimpleNamespace(id=number, process_index=number // 2) for number in range(4)]
    return SimpleNamespace(rank=rank, devices=devices, local_devices=devices[2 * rank : 2 * rank + 2])


@pytest.mark.parametrize("rank", [0, 1])
def test_each_host_does_what_is_for_its_devices_wherever_they_are(rank: int) -> None:
    load = workers_pb2.Load(program=MAGIC + request().SerializeToString(), devices=[3, 0, 2, 1])
    program = load_colocated(machine(rank), load, True)
    starts = [list(shard.start) for shard in program.message.storage.arrays[0].shards]
    assert (list(program.message.devices), program.places, starts) == (
        ([5, 7], (0, 1), [[2], [6]]) if rank == 0 else ([4, 6], (1, 0), [[0], [4]])
    )
    assert program.info.stateless
    assert program.info.digest == load_colocated(machine(1 - rank), load, True).info.digest


def test_a_users_function_is_still_of_one_host() -> None:
    message = request()
    message.ClearField("storage")
    load = workers_pb2.Load(program=MAGIC + message.SerializeToString(), devices=[3, 0, 2, 1])
    with pytest.raises(Refused, match="for devices of several hosts"):
        load_colocated(machine(0), load, True)
