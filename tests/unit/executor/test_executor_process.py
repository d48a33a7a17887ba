"""One real executor, driven with frames; every value is compared with plain JAX or arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from pathways_proto.ifrt import xla_data_pb2
from pathways_proto.v1 import types_pb2, workers_pb2
from pathways_worker.executor.element_types import DTYPES, NUMBERS

from tests.unit.executor.driving import (
    HEAVY,
    Executor,
    identifier,
    lower,
    lower_sharded,
    operands,
    options_for,
    ready_executor,
    reply,
    sharded,
    slow,
)

MATRIX = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def executor() -> Iterator[Executor]:
    with ready_executor() as executor:
        yield executor


def test_a_program_computes_what_jax_computes(executor: Executor) -> None:
    def function(x: Any) -> Any:
        return jnp.tanh(x) @ x.T, x.sum(axis=0)

    loaded = executor.load(lower(function, MATRIX))
    first, second = executor.execute(loaded.executable_id, [executor.place(MATRIX)], 2)
    expected = jax.jit(function)(MATRIX)
    np.testing.assert_array_equal(executor.fetch(first, expected[0]), expected[0])
    np.testing.assert_array_equal(executor.fetch(second, expected[1]), expected[1])


def test_the_compile_answer_describes_the_program(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x, y: (x + 1, (y * 2).sum()), MATRIX, MATRIX, donate_argnums=0))
    info = loaded.info
    assert info.name == "jit__lambda"
    assert [(output.dtype, tuple(output.shape), tuple(output.shard_shape)) for output in info.outputs] == [
        (11, (3, 4), (3, 4)),
        (11, (), ()),
    ]
    assert [output.memory_kind for output in info.outputs] == ["device", "device"]
    assert list(info.donated_parameters) == [0]
    assert info.parameter_count == 2
    assert not info.fallible
    assert len(info.digest) == 32
    assert [tuple(xla_data_pb2.LayoutProto.FromString(data).minor_to_major) for data in info.output_layouts] == [(1, 0), ()]
    assert info.memory.argument_bytes == 2 * MATRIX.nbytes


def test_a_donation_that_xla_cannot_use_is_not_reported(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x.sum(), MATRIX, donate_argnums=0))
    assert list(loaded.info.donated_parameters) == []


def test_a_compile_error_comes_back_as_a_failure(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x, MATRIX), options=options_for(2))
    assert loaded.failure.reason == "INVALID_ARGUMENT"
    assert "2 devices" in loaded.failure.message.replace("1 x 2", "2")
    assert executor.load(b"no program").failure.reason == "COMPILE_ERROR"


def test_a_donated_argument_is_gone_and_its_value_lives_on_in_the_result(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x + 1, MATRIX, donate_argnums=0))
    argument = executor.place(MATRIX)
    (result,) = executor.execute(loaded.executable_id, [argument])
    np.testing.assert_array_equal(executor.fetch(result, MATRIX), MATRIX + 1)
    with pytest.raises(AssertionError, match="DELETED"):
        executor.fetch(argument, MATRIX)


def test_an_argument_that_may_not_be_donated_keeps_its_value(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x + 1, MATRIX, donate_argnums=0))
    argument = executor.place(MATRIX)
    executor.execute(loaded.executable_id, [argument], non_donatable=[0])
    np.testing.assert_array_equal(executor.fetch(argument, MATRIX), MATRIX)


def test_a_fetch_sees_the_value_from_before_a_later_donation(executor: Executor) -> None:
    late = executor.load(lower(slow, MATRIX, HEAVY)).executable_id
    donating = executor.load(lower(lambda x: x * 0, MATRIX, donate_argnums=0)).executable_id
    arguments = [executor.place(MATRIX), executor.place(HEAVY)]
    launch = executor.prepare_command(late, arguments, 1)
    result = launch.prepare.first_result_id
    fetch = workers_pb2.FetchShard(fetch_id=99, shard=workers_pb2.LocalShard(id=result))
    overwrite = executor.prepare_command(donating, [result], 1)
    executor.send(launch, workers_pb2.HostCommand(fetch_shard=fetch), overwrite)
    data = executor.event("shard_fetched", fetch_id=99).data
    np.testing.assert_array_equal(np.frombuffer(data, np.float32).reshape(MATRIX.shape), MATRIX + 1)
    np.testing.assert_array_equal(executor.fetch(overwrite.prepare.first_result_id, MATRIX), MATRIX * 0)


def test_many_launches_of_donated_values_stay_exact(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x + 1, MATRIX, donate_argnums=0))
    value = executor.place(MATRIX)
    commands = []
    for _ in range(100):
        commands.append(executor.prepare_command(loaded.executable_id, [value], 1))
        value = commands[-1].prepare.first_result_id
    executor.handled(*commands)
    np.testing.assert_array_equal(executor.fetch(value, MATRIX), MATRIX + 100)
    while executor.finished_through < executor.launched:
        executor.read()


@pytest.mark.parametrize("number", sorted(DTYPES))
def test_every_element_type_survives_the_round_trip(executor: Executor, number: int) -> None:
    value = np.array([[0, 1, 1], [1, 0, 1]]).astype(DTYPES[number])
    assert executor.fetch_bytes(executor.place(value)) == value.tobytes()


def test_wide_types_compute_exactly(executor: Executor) -> None:
    with jax.enable_x64(True):
        value = np.array([2**62 + 1, -3], np.int64)
        program = lower(lambda x: x + 1, value)
    (result,) = executor.execute(executor.load(program).executable_id, [executor.place(value)])
    np.testing.assert_array_equal(executor.fetch(result, value), value + 1)


def test_scalars_and_empty_arrays_survive(executor: Executor) -> None:
    for value in (np.float32(3.5), np.zeros((0, 4), np.float32)):
        np.testing.assert_array_equal(executor.fetch(executor.place(value), value), value)


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host", "device"])
def test_arrays_live_in_every_memory_kind_and_move_between_them(executor: Executor, kind: str) -> None:
    placed = executor.place(MATRIX, memory_kind=kind)
    spec = types_pb2.ArraySpec(dtype=11, shape=MATRIX.shape, shard_shape=MATRIX.shape, memory_kind="device")
    piece = workers_pb2.LocalPiece(local=workers_pb2.LocalShard(id=placed))
    copy = workers_pb2.PlaceArray(buffer_id=executor.new_id(), spec=spec, pieces=[piece])
    executor.send(workers_pb2.HostCommand(place_array=copy))
    executor.free(placed)
    np.testing.assert_array_equal(executor.fetch(copy.buffer_id, MATRIX), MATRIX)


def test_bytes_of_a_transfer_reach_their_place_whichever_comes_first(executor: Executor) -> None:
    spec = types_pb2.ArraySpec(dtype=11, shape=MATRIX.shape, shard_shape=MATRIX.shape)
    for transfer_id, early in ((501, True), (502, False)):
        place = workers_pb2.PlaceArray(
            buffer_id=executor.new_id(), spec=spec, pieces=[workers_pb2.LocalPiece(transfer_id=transfer_id)]
        )
        wait = workers_pb2.AwaitReady(wait_id=transfer_id, ids=[place.buffer_id])
        if early:
            executor.send_data(transfer_id, MATRIX.tobytes())
        executor.handled(workers_pb2.HostCommand(place_array=place), workers_pb2.HostCommand(await_ready=wait))
        if not early:
            assert not executor.events_of("landed")
            executor.send_data(transfer_id, MATRIX.tobytes())
        executor.event("landed", transfer_id=transfer_id)
        assert not executor.event("became_ready", wait_id=transfer_id).HasField("failure")
        np.testing.assert_array_equal(executor.fetch(place.buffer_id, MATRIX), MATRIX)


def test_a_transfer_of_the_wrong_size_poisons_the_buffer(executor: Executor) -> None:
    spec = types_pb2.ArraySpec(dtype=11, shape=MATRIX.shape, shard_shape=MATRIX.shape)
    place = workers_pb2.PlaceArray(buffer_id=executor.new_id(), spec=spec, pieces=[workers_pb2.LocalPiece(inline=b"123")])
    executor.send(workers_pb2.HostCommand(place_array=place))
    with pytest.raises(AssertionError, match=r"INVALID_ARGUMENT: .*takes 48 bytes, 3 came"):
        executor.fetch(place.buffer_id, MATRIX)


def test_large_values_are_served_on_the_data_channel(executor: Executor) -> None:
    value = np.arange(300_000, dtype=np.float64)
    place = executor.place_command([value])
    fetch = workers_pb2.FetchShard(fetch_id=77, ticket="t", shard=workers_pb2.LocalShard(id=place.place_array.buffer_id))
    executor.send(place, workers_pb2.HostCommand(fetch_shard=fetch))
    header, data = executor.read_data()
    assert (header.fetch_id, header.size_bytes) == (77, value.nbytes)
    np.testing.assert_array_equal(np.frombuffer(data), value)


def test_a_pull_of_a_failed_value_gets_the_failure(executor: Executor) -> None:
    failed = executor.new_id()
    poison = workers_pb2.Poison(ids=[failed], failure=types_pb2.Failure(reason="SLICE_LOST", message="host b1 is gone"))
    fetch = workers_pb2.FetchShard(fetch_id=78, ticket="t", shard=workers_pb2.LocalShard(id=failed))
    executor.send(workers_pb2.HostCommand(poison=poison), workers_pb2.HostCommand(fetch_shard=fetch))
    header, data = executor.read_data()
    assert (header.fetch_id, header.failure.reason, data) == (78, "SLICE_LOST", b"")


def test_poison_reaches_those_who_wait_for_bytes(executor: Executor) -> None:
    spec = types_pb2.ArraySpec(dtype=11, shape=MATRIX.shape, shard_shape=MATRIX.shape)
    place = workers_pb2.PlaceArray(buffer_id=executor.new_id(), spec=spec, pieces=[workers_pb2.LocalPiece(transfer_id=600)])
    view = workers_pb2.PlaceView(view_id=executor.new_id(), shards=[workers_pb2.LocalShard(id=place.buffer_id)])
    wait = workers_pb2.AwaitReady(wait_id=600, ids=[view.view_id])
    poison = workers_pb2.Poison(ids=[place.buffer_id], failure=types_pb2.Failure(reason="UNAVAILABLE", message="withdrawn"))
    executor.send(
        workers_pb2.HostCommand(place_array=place),
        workers_pb2.HostCommand(place_view=view),
        workers_pb2.HostCommand(await_ready=wait),
        workers_pb2.HostCommand(poison=poison),
    )
    assert executor.event("became_ready", wait_id=600).failure.message == "withdrawn"


def test_a_freed_buffer_is_gone_and_its_view_lives_on(executor: Executor) -> None:
    buffer_id = executor.place(MATRIX)
    view = workers_pb2.PlaceView(view_id=executor.new_id(), shards=[workers_pb2.LocalShard(id=buffer_id)])
    executor.send(workers_pb2.HostCommand(place_view=view))
    executor.free(buffer_id)
    np.testing.assert_array_equal(executor.fetch(view.view_id, MATRIX), MATRIX)
    with pytest.raises(AssertionError, match="DELETED"):
        executor.fetch(buffer_id, MATRIX)


def test_a_program_of_one_host_with_a_failed_input_is_not_launched_and_tells_the_first_cause(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x + 1, MATRIX))
    failed = executor.new_id()
    poison = workers_pb2.Poison(ids=[failed], failure=types_pb2.Failure(reason="USER_ERROR", message="first"))
    executor.send(workers_pb2.HostCommand(poison=poison))
    results = executor.execute(loaded.executable_id, executor.execute(loaded.executable_id, [failed]))
    with pytest.raises(AssertionError, match="USER_ERROR: first"):
        executor.fetch(results[0], MATRIX)
    assert [event.failure.message for event in executor.events_of("node_failed")] == ["first", "first"]
    executor.events.clear()


def test_a_launch_with_the_wrong_arguments_fails_with_a_sentence(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x, y: x + y, MATRIX, MATRIX))
    for arguments, text in (
        ([executor.place(MATRIX)], "takes 2 arguments, 1 were"),
        ([executor.place(MATRIX[:1])] * 2, "size 48"),
    ):
        (result,) = executor.execute(loaded.executable_id, arguments)
        with pytest.raises(AssertionError, match=text):
            executor.fetch(result, MATRIX)
    executor.events.clear()


def test_an_error_of_a_library_call_is_reported_with_its_execution(executor: Executor) -> None:
    def function(x: Any) -> Any:
        types = (jax.ShapeDtypeStruct((2, 2), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32))
        return jax.ffi.ffi_call("lapack_spotrf_ffi", types)(x)[0]

    loaded = executor.load(lower(function, np.eye(2, dtype=np.float32)))
    assert loaded.info.fallible
    command = executor.prepare_command(loaded.executable_id, [executor.place(np.eye(2, dtype=np.float32))], 1)
    executor.send(command)
    told = executor.event("node_failed", execution_id=command.prepare.execution_id)
    assert (told.failure.reason, told.launched_with_zeros) == ("EXECUTION_ERROR", False)
    with pytest.raises(AssertionError, match="Wrong number of attributes"):
        executor.fetch(command.prepare.first_result_id, MATRIX)


def test_a_grant_that_comes_later_launches_what_was_prepared(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x + 1, MATRIX))
    sequence, previous = executor.launched + 1, executor.launched
    command = executor.prepare_command(loaded.executable_id, [executor.place(MATRIX)], 1, sequence=0, previous=0)
    executor.launched = sequence
    executor.handled(command)
    with pytest.raises(AssertionError, match="DELETED"):
        executor.fetch(command.prepare.first_result_id, MATRIX)
    grant = workers_pb2.Grant(execution_id=command.prepare.execution_id, sequence=sequence, previous=previous, epoch=1)
    executor.send(workers_pb2.HostCommand(grant=grant))
    np.testing.assert_array_equal(executor.fetch(command.prepare.first_result_id, MATRIX), MATRIX + 1)


def test_a_missing_sequence_is_asked_for(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x + 1, MATRIX))
    commands = [executor.prepare_command(loaded.executable_id, [executor.place(MATRIX)], 1) for _ in range(2)]
    executor.handled(commands[1])
    assert executor.event("missing").sequence == commands[0].prepare.sequence
    executor.send(commands[0])
    np.testing.assert_array_equal(executor.fetch(commands[1].prepare.first_result_id, MATRIX), MATRIX + 1)


def test_figures_of_memory_and_gangs_follow(executor: Executor) -> None:
    executor.events.clear()
    executor.place(np.zeros(1000, np.float64))
    figures = executor.event("memory")
    assert figures.live_bytes >= 8000
    assert figures.launched_gangs <= executor.launched


def test_cost_and_text_of_a_program_can_be_read(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x @ x.T, MATRIX))
    for inspect_id, kind in ((1, types_pb2.INSPECT_KIND_COST_ANALYSIS), (2, types_pb2.INSPECT_KIND_PROGRAM_TEXT)):
        inspect = workers_pb2.InspectExecutable(inspect_id=inspect_id, executable_id=loaded.executable_id, kind=kind)
        executor.send(workers_pb2.HostCommand(inspect=inspect))
    # 3 x 3 results of 4 products each.
    assert executor.event("inspected", inspect_id=1).inspection.costs["flops"] >= 36
    assert executor.event("inspected", inspect_id=2).inspection.text.startswith("HloModule jit__lambda")


# ---- callbacks -----------------------------------------------------------------------------------------------------


def doubled(x: Any) -> Any:
    return jax.pure_callback(lambda a: a * 2, jax.ShapeDtypeStruct((3, 4), jnp.float32), x) + 1


def test_a_callback_gets_its_operands_and_its_result_goes_on(executor: Executor) -> None:
    loaded = executor.load(lower(doubled, MATRIX), callback_ids=[31])
    calls: list[Any] = []

    def answer(call: Any) -> Any:
        calls.append(call)
        return reply(call, operands(call)[0] * 2)

    thread = executor.serve_callback(answer)
    (result,) = executor.execute(loaded.executable_id, [executor.place(MATRIX)])
    np.testing.assert_array_equal(executor.fetch(result, MATRIX), MATRIX * 2 + 1)
    thread.join(5)
    assert (calls[0].callback_id, calls[0].session_number, calls[0].executable_id) == (31, 7, loaded.executable_id)
    assert calls[0].timeout_ns == 30 * 10**9


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"failure": {"reason": "USER_ERROR", "message": "ValueError: mine"}}, "USER_ERROR: ValueError: mine"),
        ({"results": {}}, "USER_ERROR: the host callback returned 0 values, the program expects 1"),
        (None, "CANCELLED: the client"),
    ],
)
def test_a_failed_callback_fails_its_execution_and_nothing_else(executor: Executor, answer: Any, reason: str) -> None:
    session = 8 if answer is None else 7
    command = executor.load_command(lower(doubled, MATRIX), callback_ids=[31])
    command.load.executable_id = identifier(executor.new_id() & 0xFFFF, session)
    executor.send(command)
    executor.event("loaded", executable_id=command.load.executable_id)

    def serve(call: Any) -> Any:
        if answer is None:
            return workers_pb2.HostCommand(callback_abort=workers_pb2.CallbackAbort(session_number=session))
        return workers_pb2.HostCommand(callback_reply={"call_id": call.call_id} | answer)

    thread = executor.serve_callback(serve)
    prepared = executor.prepare_command(command.load.executable_id, [executor.place(MATRIX)], 1)
    executor.send(prepared)
    told = executor.event("node_failed", execution_id=prepared.prepare.execution_id)
    assert f"{told.failure.reason}: {told.failure.message}".startswith(reason)
    with pytest.raises(AssertionError, match=reason):
        executor.fetch(prepared.prepare.first_result_id, MATRIX)
    thread.join(5)
    loaded = executor.load(lower(lambda x: x + 1, MATRIX))
    (result,) = executor.execute(loaded.executable_id, [executor.place(MATRIX)])
    np.testing.assert_array_equal(executor.fetch(result, MATRIX), MATRIX + 1)


def test_ordered_callbacks_pass_their_tokens(executor: Executor) -> None:
    def function(x: Any) -> Any:
        first = io_callback(lambda a: a, jax.ShapeDtypeStruct((3, 4), jnp.float32), x, ordered=True)
        jax.debug.print("{}", first.sum(), ordered=True)
        return io_callback(lambda a: a, jax.ShapeDtypeStruct((3, 4), jnp.float32), first, ordered=True)

    loaded = executor.load(lower(function, MATRIX), callback_ids=[1, 2, 3])
    assert [(output.dtype, tuple(output.shape)) for output in loaded.info.outputs] == [(1, (0,)), (1, (0,)), (11, (3, 4))]
    assert "token" in loaded.info.parameter_layouts_error
    order: list[int] = []

    def answer(call: Any) -> Any:
        order.append(call.callback_id)
        token, value = operands(call)
        return reply(call, token) if call.callback_id == 2 else reply(call, token, value + call.callback_id)

    thread = executor.serve_callback(answer, count=6)
    # JAX keeps one token for ordered input and output and another one for ordered prints.
    tokens = [executor.place(np.zeros(0, np.bool_)) for _ in range(2)]
    *tokens, result = executor.execute(loaded.executable_id, [*tokens, executor.place(MATRIX)], 3)
    *tokens, result = executor.execute(loaded.executable_id, [*tokens, result], 3)
    np.testing.assert_array_equal(executor.fetch(result, MATRIX), MATRIX + 1 + 3 + 1 + 3)
    assert [executor.fetch_bytes(token) for token in tokens] == [b"", b""]
    thread.join(5)
    assert [callback_id for callback_id in order if callback_id != 2] == [1, 3, 1, 3]


# ---- several devices -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair() -> Iterator[Executor]:
    with ready_executor(device_count=2, environment={"PJRT_NPROC": "8"}) as executor:
        yield executor


def test_two_devices_of_one_host_compute_a_sharded_program(pair: Executor) -> None:
    value = np.arange(32, dtype=np.float32).reshape(4, 8)
    shardings = {"in_shardings": sharded(("d",), 2), "out_shardings": (sharded(("d",), 2), sharded((), 2))}
    program = lower_sharded(lambda x: (x * 2, x.sum(axis=0)), jax.ShapeDtypeStruct((4, 8), jnp.float32), **shardings)
    loaded = pair.load(program, devices=(0, 1))
    assert [(tuple(output.shape), tuple(output.shard_shape)) for output in loaded.info.outputs] == [
        ((4, 8), (2, 8)),
        ((8,), (8,)),
    ]
    assert list(xla_data_pb2.OpSharding.FromString(loaded.info.outputs[0].sharding).tile_assignment_dimensions) == [2, 1]
    assert loaded.info.parameter_shardings_known
    argument = pair.place(value[:2], value[2:])
    doubled_id, summed_id = pair.execute(loaded.executable_id, [argument], 2)
    for index in range(2):
        expected = value[2 * index : 2 * index + 2] * 2
        np.testing.assert_array_equal(pair.fetch(doubled_id, expected, index), expected)
        np.testing.assert_array_equal(pair.fetch(summed_id, value[0], index), value.sum(axis=0))


def test_a_view_of_one_shard_feeds_a_program_of_its_device(pair: Executor) -> None:
    value = np.arange(16, dtype=np.float32).reshape(2, 8)
    buffer_id = pair.place(value[0], value[1])
    view = workers_pb2.PlaceView(view_id=pair.new_id(), shards=[workers_pb2.LocalShard(id=buffer_id, local_index=1)])
    pair.send(workers_pb2.HostCommand(place_view=view))
    loaded = pair.load(lower(lambda x: x + 1, value[1]), devices=(1,))
    (result,) = pair.execute(loaded.executable_id, [view.view_id])
    np.testing.assert_array_equal(pair.fetch(result, value[1]), value[1] + 1)


def test_views_are_assembled_from_shards_of_several_buffers(pair: Executor) -> None:
    value = np.arange(8, dtype=np.float32).reshape(2, 4)
    buffers = [pair.place(value[0], value[0] * 10), pair.place(value[1] * 10, value[1])]
    shards = [workers_pb2.LocalShard(id=buffers[0], local_index=0), workers_pb2.LocalShard(id=buffers[1], local_index=1)]
    view = workers_pb2.PlaceView(view_id=pair.new_id(), shards=shards)
    pair.send(workers_pb2.HostCommand(place_view=view))
    shardings = {"in_shardings": sharded(("d",), 2), "out_shardings": sharded((), 2)}
    program = lower_sharded(lambda x: x.sum(), jax.ShapeDtypeStruct((8,), jnp.float32), **shardings)
    (result,) = pair.execute(pair.load(program, devices=(0, 1)).executable_id, [view.view_id])
    assert float(pair.fetch(result, np.float32(0), 1)) == value.sum()


def test_a_shard_is_copied_to_another_device(pair: Executor) -> None:
    value = np.arange(4, dtype=np.int32)
    buffer_id = pair.place(value, value * 2)
    spec = types_pb2.ArraySpec(dtype=NUMBERS[value.dtype], shape=value.shape, shard_shape=value.shape)
    piece = workers_pb2.LocalPiece(local_device=0, local=workers_pb2.LocalShard(id=buffer_id, local_index=1))
    copy = workers_pb2.PlaceArray(buffer_id=pair.new_id(), spec=spec, pieces=[piece])
    pair.send(workers_pb2.HostCommand(place_array=copy))
    loaded = pair.load(lower(lambda x: x + 1, value), devices=(0,))
    (result,) = pair.execute(loaded.executable_id, [copy.buffer_id])
    np.testing.assert_array_equal(pair.fetch(result, value), value * 2 + 1)


# ---- epochs --------------------------------------------------------------------------------------------------------


def test_a_coordinator_that_is_not_there_fails_the_epoch_and_not_the_process() -> None:
    executor = Executor()
    executor.begin(rank=1, rank_count=2, address="127.0.0.1:1")
    assert executor.event("epoch_failed", epoch=1).failure.reason == "UNAVAILABLE"
    executor.close()
    assert executor.process.returncode == 0


def test_a_second_epoch_takes_another_executor(executor: Executor) -> None:
    executor.begin()
    assert "a new epoch takes a new executor" in executor.event("epoch_failed").failure.message


def test_what_a_frame_launches_and_asks_for_is_answered_in_one_report(executor: Executor) -> None:
    loaded = executor.load(lower(lambda x: x + 1, np.zeros(3, np.float32)))
    argument = executor.place(np.zeros(3, np.float32))
    executor.handled(workers_pb2.HostCommand(free=workers_pb2.Free(ids=[])))
    launch = executor.prepare_command(loaded.executable_id, [argument], 1)
    wait = workers_pb2.AwaitReady(wait_id=executor.new_id(), ids=[launch.prepare.first_result_id])
    number = executor.send(launch, workers_pb2.HostCommand(await_ready=wait))
    executor.read()
    assert executor.acknowledged == number
    assert executor.launched_through == launch.prepare.sequence
    # A launch so small has ended when it returns; should it ever not have, the answer comes by itself.
    assert executor.event("became_ready", wait_id=wait.wait_id).wait_id == wait.wait_id
