"""A stand-in for controller and workers, for tests of the door alone: pathways.v1 Sessions and Data over local JAX.

Run as a script. It prints one JSON line with its address and ends when its standard input does. Everything is done in stream
order, at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import uuid
from typing import Any

import grpc
import grpc.aio
import jax
import ml_dtypes
import numpy as np
from fake_programs import FakePrograms
from fake_python import FakePython
from jax._src import xla_bridge
from jax._src.interpreters import mlir as jax_mlir
from jax._src.lib import xla_client
from jax._src.sharding_impls import GSPMDSharding
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from pathways_common.model.colocated import MAGIC
from pathways_common.model.link import Link, Verdict
from pathways_common.rpc.channels import server_options
from pathways_common.rpc.version import pathways_version
from pathways_proto.ifrt import xla_data_pb2
from pathways_proto.v1 import data_pb2, sessions_pb2, types_pb2

INLINE_BYTES_MAX = 65536
POOL_SLICES = 4
_DTYPES = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32, 9: np.uint64,
    10: np.float16, 11: np.float32, 12: np.float64, 15: np.complex64, 16: ml_dtypes.bfloat16, 18: np.complex128,
    19: ml_dtypes.float8_e5m2, 20: ml_dtypes.float8_e4m3fn, 21: ml_dtypes.int4, 22: ml_dtypes.uint4,
}  # fmt: skip
_MLIR = {
    "i1": 1, "i8": 2, "i16": 3, "i32": 4, "i64": 5, "ui8": 6, "ui16": 7, "ui32": 8, "ui64": 9, "f16": 10, "f32": 11, "f64": 12,
    "complex<f32>": 15, "bf16": 16, "complex<f64>": 18, "f8E5M2": 19, "f8E4M3FN": 20, "i4": 21, "ui4": 22,
}  # fmt: skip


class FakeFailed(Exception):
    """Carries what becomes a Failure message."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.message = types_pb2.Failure(reason=reason, message=text, host="fake0", id="f1")


class Executable:
    """A program compiled on local devices, and what it reports."""

    def __init__(self, program: bytes, options: bytes, positions: list[int]) -> None:
        backend = xla_bridge.get_backend("cpu")
        self.devices = [backend.devices()[p] for p in positions]
        compile_options = xla_client.CompileOptions.ParseFromString(options)
        partitions = compile_options.num_partitions
        assignment = np.array([d.id for d in self.devices]).reshape(-1, partitions)
        compile_options.device_assignment = xla_client.DeviceAssignment.create(assignment)
        try:
            self.loaded = backend.compile_and_load(program, xla_client.DeviceList(tuple(self.devices)), compile_options)
        except jax.errors.JaxRuntimeError as error:
            raise FakeFailed("COMPILE_ERROR", str(error)) from error
        self.inputs, self.outputs = _signature(program)
        self.parameter_shardings = self.loaded.get_parameter_shardings()
        self.output_shardings = self.loaded.get_output_shardings()

    def info(self) -> types_pb2.ExecutableInfo:
        """What Compiled carries."""
        out = types_pb2.ExecutableInfo(name=self.loaded.hlo_modules()[0].name, digest=b"d", parameter_count=len(self.inputs))
        for sharding in self.parameter_shardings or []:
            out.parameter_shardings.append(sharding.SerializeToString())
        out.parameter_shardings_known = self.parameter_shardings is not None
        for index, (dtype, shape) in enumerate(self.outputs):
            sharding = self.output_shardings[index].SerializeToString() if self.output_shardings else b""
            shard = _shard_shape(sharding, shape)
            out.outputs.add(dtype=dtype, shape=shape, sharding=sharding, shard_shape=shard)
        for shapes, layouts in ((self.inputs, out.parameter_layouts), (self.outputs, out.output_layouts)):
            for _, shape in shapes:
                layouts.append(xla_data_pb2.LayoutProto(minor_to_major=list(reversed(range(len(shape))))).SerializeToString())
        out.donated_parameters.extend(_donated(self.loaded.hlo_modules()[0].to_string()))
        stats = self.loaded.get_compiled_memory_stats()
        out.memory.argument_bytes = stats.argument_size_in_bytes
        out.memory.output_bytes = stats.output_size_in_bytes
        return out


def _signature(program: bytes) -> tuple[list[tuple[int, tuple[int, ...]]], list[tuple[int, tuple[int, ...]]]]:
    context = jax_mlir.make_ir_context()
    with context:
        module = stablehlo.deserialize_portable_artifact(context, program)
        main = next(op for op in module.body.operations if op.attributes["sym_name"].value == "main")
        kind = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
        return [_typed(t) for t in kind.inputs], [_typed(t) for t in kind.results]


def _typed(kind: Any) -> tuple[int, tuple[int, ...]]:
    if "token" in str(kind):
        return 17, ()
    tensor = ir.RankedTensorType(kind)
    return _MLIR[str(tensor.element_type)], tuple(tensor.shape)


def _donated(text: str) -> list[int]:
    head = text.split("\n", 1)[0]
    if "input_output_alias={" not in head:
        return []
    inner = head.split("input_output_alias={", 1)[1].split("entry_computation_layout")[0]
    return sorted({int(part.split(",")[0]) for part in inner.split(": (")[1:]})


def _shard_shape(sharding: bytes, shape: tuple[int, ...]) -> tuple[int, ...]:
    if not sharding:
        return shape
    message = xla_client.OpSharding()
    message.ParseFromString(sharding)
    return (
        tuple(
            xla_client.HloSharding.from_proto(message).tile(xla_client.Shape.array_shape(np.dtype(np.int8), shape)).dimensions()
        )
        if shape
        else shape
    )


class Session:
    """One session stream; values are lists of single-device arrays by id, or failures."""

    def __init__(self, context: Any, tickets: dict[str, Any], number: int) -> None:
        self.context = context
        self.tickets = tickets
        self.number = number
        self.link: Link[Any] = Link(window=1 << 20)  # it does not read while it waits for an upload
        self.values: dict[int, Any] = {}
        self.executables: dict[int, Executable | FakePython] = {}
        self.programs = FakePrograms(self, FakeFailed)
        self.uploads: dict[int, tuple[int, list[int]]] = {}
        self.counts: dict[str, int] = {}
        self.callbacks: dict[int, Any] = {}
        # Virtual device -> position among the physical ones; slices by id; pool groups never used.
        self.bound: dict[int, int] = {}
        self.slices: dict[int, list[int]] = {}
        self.groups = 0

    def position(self, device: int) -> int:
        """Where a virtual device lies; raises FakeFailed for one of the pool that no slice holds."""
        primary = len(jax.devices("cpu"))
        if device >= primary and device not in self.bound:
            raise FakeFailed("PROGRAM_REFUSED", f"device {device} belongs to no slice; call add_slice")
        return self.bound.get(device, device)

    def on_add_slice(self, m: Any) -> None:
        """The first devices, always shared; `wait` waits until the time is over, telling why."""
        count, primary = m.device_count, len(jax.devices("cpu"))
        answer = sessions_pb2.SliceAdded(slice_id=m.slice_id)
        if m.wait:
            text = "waiting for 1 device held by session 7"
            self.reply(slice_waiting=sessions_pb2.SliceWaiting(slice_id=m.slice_id, text=text))
            answer.failure.CopyFrom(FakeFailed("TIMED_OUT", f"no slice in time; {text}").message)
        elif count > primary:
            text = f"{count} devices can never be had: the largest island, a, has {primary}"
            answer.failure.CopyFrom(FakeFailed("INVALID_ARGUMENT", text).message)
        else:
            first = primary * (1 + self.groups % POOL_SLICES)
            self.groups += 1
            self.slices[m.slice_id] = devices = [first + index for index in range(count)]
            self.bound.update({device: index for index, device in enumerate(devices)})
            answer.devices.extend(devices)
            answer.island = "a"
            answer.hosts.extend(f"a{index}" for index in range(count))
        self.reply(slice_added=answer)

    def on_release_slice(self, m: Any) -> None:
        for device in self.slices.pop(m.slice_id, ()):
            self.bound.pop(device, None)

    def reply(self, **member: Any) -> None:
        """Queues one server operation."""
        self.link.push(sessions_pb2.ServerOperation(**member))

    def value(self, identifier: int) -> Any:
        """The shards of a value; raises FakeFailed if it failed."""
        found = self.values.get(identifier)
        if found is None:
            raise FakeFailed("INTERNAL", f"id {identifier} is unknown")
        if isinstance(found, FakeFailed):
            raise found
        return found

    def handle(self, operation: Any) -> None:
        """Does one operation."""
        member = operation.WhichOneof("operation")
        self.counts[member] = self.counts.get(member, 0) + 1
        getattr(self, f"on_{member}")(getattr(operation, member))

    def on_compile(self, m: Any) -> None:
        try:
            positions = [self.position(device) for device in m.devices]
            executable: Executable | FakePython
            if m.program.startswith(MAGIC):
                executable = FakePython(m.program, positions)
            else:
                executable = Executable(m.program, m.options, positions)
            self.executables[m.executable_id] = executable
            self.reply(compiled=sessions_pb2.Compiled(executable_id=m.executable_id, info=executable.info()))
        except FakeFailed as error:
            self.reply(compiled=sessions_pb2.Compiled(executable_id=m.executable_id, failure=error.message))

    def on_execute(self, m: Any) -> None:
        executable = self.executables[m.executable_id]
        if isinstance(executable, FakePython):
            self._call(executable, m)
            return
        ids = range(m.first_result_id, m.first_result_id + len(executable.outputs))
        try:
            arguments = []
            for index, view in enumerate(m.arguments):
                shards = self.value(view)
                dtype, shape = executable.inputs[index]
                del dtype
                op = executable.parameter_shardings[index] if executable.parameter_shardings else xla_client.OpSharding()
                sharding = GSPMDSharding(tuple(executable.devices), xla_client.HloSharding.from_proto(op))
                assert len(shards) == len(executable.devices), (len(shards), len(executable.devices))
                arguments.append(jax.make_array_from_single_device_arrays(shape, sharding, list(shards)))
            results = executable.loaded.execute_sharded(arguments).disassemble_into_single_device_arrays()
            for identifier, shards in zip(ids, results, strict=True):
                self.values[identifier] = list(shards)
            for index in executable.info().donated_parameters if len(m.arguments) else []:
                if index not in m.non_donatable:
                    self.values[m.arguments[index]] = FakeFailed("DELETED", "donated")
        except FakeFailed as error:
            for identifier in ids:
                self.values[identifier] = error

    def _call(self, executable: FakePython, m: Any) -> None:
        ids = range(m.first_result_id, m.first_result_id + len(executable.outputs))
        assert m.stream, "the client's thread has no name"
        try:
            results: list[Any] = executable.run([self.value(view) for view in m.arguments])
        except Exception as error:
            failed = error if isinstance(error, FakeFailed) else FakeFailed("USER_ERROR", f"{type(error).__name__}: {error}")
            results = [failed] * len(ids)
        self.values.update(zip(ids, results, strict=True))

    def on_release(self, m: Any) -> None:
        for identifier in m.views:
            assert identifier in self.values, identifier
            del self.values[identifier]
        for identifier in m.executables:
            del self.executables[identifier]
        for identifier in m.programs:
            self.programs.release(identifier)

    def on_define_program(self, m: Any) -> None:
        self.programs.define(m)

    def on_run_program(self, m: Any) -> None:
        self.programs.run(m)

    def on_make_view(self, m: Any) -> None:
        try:
            self.values[m.view_id] = [shard for r in m.ranges for shard in self.value(r.view_id)[r.start : r.start + r.count]]
        except FakeFailed as error:
            self.values[m.view_id] = error

    def on_wait(self, m: Any) -> None:
        try:
            for view in m.views:
                jax.block_until_ready(self.value(view))
            self.reply(ready=sessions_pb2.Ready(wait_id=m.wait_id))
        except FakeFailed as error:
            self.reply(ready=sessions_pb2.Ready(wait_id=m.wait_id, failure=error.message))

    def on_fetch(self, m: Any) -> None:
        try:
            data = np.asarray(self.value(m.view_id)[m.shard]).tobytes()
        except FakeFailed as error:
            self.reply(fetch_failed=sessions_pb2.FetchFailed(fetch_id=m.fetch_id, failure=error.message))
            return
        assert len(data) == m.size_bytes, (len(data), m.size_bytes)
        if len(data) <= INLINE_BYTES_MAX:
            self.reply(fetched=sessions_pb2.Fetched(fetch_id=m.fetch_id, data=data))
            return
        ticket = uuid.uuid4().hex
        self.tickets[ticket] = data
        source = sessions_pb2.DataTicket(address=self.tickets["address"], ticket=ticket, host="fake0")
        self.reply(fetch_ticket=sessions_pb2.FetchTicket(fetch_id=m.fetch_id, source=source, size_bytes=len(data)))

    def on_make_array(self, m: Any) -> None:
        spec = m.spec
        try:
            devices = [jax.devices("cpu")[self.position(d)] for d in spec.devices]
        except FakeFailed as error:
            self.values[m.buffer_id] = error
            return
        shards: list[Any] = [None] * len(devices)
        self.values[m.buffer_id] = shards
        dtype = np.dtype(_DTYPES[spec.dtype])

        def place(positions: list[int], data: bytes) -> None:
            array = np.frombuffer(data, dtype).reshape(tuple(spec.shard_shape))
            for position in positions:
                sharding = jax.sharding.SingleDeviceSharding(devices[position], memory_kind=spec.memory_kind or None)
                shards[position] = jax.device_put(array, sharding)

        for piece in m.pieces:
            positions = list(piece.shards)
            if not piece.upload_id:
                place(positions, piece.inline)
                continue
            ticket = uuid.uuid4().hex
            self.tickets[ticket] = (self, piece.size_bytes, lambda data, p=positions: place(p, data))
            target = sessions_pb2.DataTicket(address=self.tickets["address"], ticket=ticket, host="fake0")
            self.reply(upload_grant=sessions_pb2.UploadGrant(upload_id=piece.upload_id, targets=[target]))
            self.pending_uploads = getattr(self, "pending_uploads", 0) + 1

    def on_make_error_array(self, m: Any) -> None:
        self.values[m.buffer_id] = FakeFailed(m.failure.reason, m.failure.message)

    def on_copy(self, m: Any) -> None:
        for identifier, view, spec in zip(m.result_ids, m.views, m.specs, strict=True):
            try:
                devices = [jax.devices("cpu")[self.position(d)] for d in spec.devices]
                kind = spec.memory_kind or None
                self.values[identifier] = [
                    jax.device_put(shard, jax.sharding.SingleDeviceSharding(d, memory_kind=kind))
                    for shard, d in zip(self.value(view), devices, strict=True)
                ]
            except FakeFailed as error:
                self.values[identifier] = error

    def on_cancel(self, m: Any) -> None:
        """As if nothing of what makes these values had begun."""
        for view in m.views:
            self.values[view] = FakeFailed("CANCELLED", "the client cancelled what makes the array")

    def on_delete(self, m: Any) -> None:
        for view in m.views:
            self.values[view] = FakeFailed("DELETED", "deleted")

    def on_inspect(self, m: Any) -> None:
        loaded = self.executables[m.executable_id].loaded
        inspection = types_pb2.Inspection()
        if m.kind == types_pb2.INSPECT_KIND_COST_ANALYSIS:
            for name, cost in loaded.cost_analysis().items():
                inspection.costs[name] = cost
        else:
            inspection.text = loaded.hlo_modules()[0].to_string()
        self.reply(inspected=sessions_pb2.Inspected(inspect_id=m.inspect_id, inspection=inspection))

    def on_fence(self, m: Any) -> None:
        self.reply(fence_reached=sessions_pb2.FenceReached(fence_id=m.fence_id))

    def on_callback_result(self, m: Any) -> None:
        print(json.dumps({"callback": m.call_id, "failure": m.failure.message}), file=sys.stderr, flush=True)

    def on_goodbye(self, m: Any) -> None:
        left = {"values": len(self.values), "programs": len(self.programs)}
        line = {"goodbye": m.reason, "session": self.number, "counts": self.counts, **left}
        print(json.dumps(line), flush=True)


class Cluster:
    """The two services."""

    def __init__(self, device_count: int) -> None:
        self.device_count = device_count
        self.tickets: dict[str, Any] = {}
        self.sessions = 0

    def welcome(self) -> sessions_pb2.Welcome:
        self.sessions += 1
        out = sessions_pb2.Welcome(
            session_id=uuid.uuid4().hex,
            platform="cpu",
            server_version=pathways_version(),
            inline_bytes_max=INLINE_BYTES_MAX,
            session_number=self.sessions,
        )
        physical = jax.devices("cpu")[: self.device_count]
        for index, device in enumerate(physical * (1 + POOL_SLICES)):
            group = index // self.device_count
            kinds = [memory.kind for memory in device.addressable_memories()]
            kinds.sort(key=lambda kind: kind != device.default_memory().kind)
            out.devices.add(
                device_id=index,
                slice_index=group,
                pool=group > 0,
                island="" if group else "a",
                host="" if group else f"a{index}",
                platform="cpu",
                device_kind="cpu",
                memory_kinds=kinds,
            )
        return out

    async def connect(self, _requests: Any, context: Any) -> None:
        hello = await context.read()
        token = os.environ.get("FAKE_TOKEN")
        sent = dict(context.invocation_metadata()).get("authorization")
        if token and sent != f"Bearer {token}":
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the token is wrong: set PATHWAYS_TOKEN")
        if list(hello.hello.islands) == ["z"]:
            failure = types_pb2.Failure(reason="INVALID_ARGUMENT", message="there is no island z; islands are a")
            await context.write(sessions_pb2.ServerFrame(refused=sessions_pb2.Refused(failure=failure)))
            return
        await context.write(sessions_pb2.ServerFrame(welcome=self.welcome()))
        session = Session(context, self.tickets, self.sessions)
        while (frame := await context.read()) is not grpc.aio.EOF:
            session.link.acknowledge(frame.received)
            if session.link.accept(frame.sequence) is Verdict.NEW:
                for operation in frame.operations:
                    await self.uploads_done(session, operation)
                    session.handle(operation)
            await self.flush(session)

    async def uploads_done(self, session: Session, operation: Any) -> None:
        """Operations behind a pending upload wait for it, as the core holds them."""
        if not getattr(session, "pending_uploads", 0):
            return
        if operation.WhichOneof("operation") in ("make_array", "release", "delete"):
            return
        await self.flush(session)
        while session.pending_uploads:
            await asyncio.sleep(0.001)

    async def flush(self, session: Session) -> None:
        sent = False
        while (out := session.link.take()) is not None:
            sent = True
            await session.context.write(
                sessions_pb2.ServerFrame(sequence=out.sequence, received=session.link.received, operations=out.items)
            )
        if not sent:
            await session.context.write(sessions_pb2.ServerFrame(received=session.link.received))

    async def push(self, _requests: Any, context: Any) -> Any:
        data = bytearray()
        ticket = ""
        while (chunk := await context.read()) is not grpc.aio.EOF:
            ticket = ticket or chunk.ticket
            data += chunk.data
        session, size, place = self.tickets.pop(ticket)
        assert len(data) == size, (len(data), size)
        place(bytes(data))
        session.pending_uploads -= 1
        return data_pb2.PushResponse(received_bytes=len(data))

    async def pull(self, request: Any, context: Any) -> None:
        data = self.tickets.pop(request.ticket)
        for start in range(0, len(data), 1 << 20):
            await context.write(data_pb2.PullResponse(data=data[start : start + (1 << 20)]))


async def serve(device_count: int) -> None:
    """Until standard input ends."""
    cluster = Cluster(device_count)
    server = grpc.aio.server(options=server_options())
    connect = grpc.stream_stream_rpc_method_handler(
        cluster.connect, sessions_pb2.ClientFrame.FromString, sessions_pb2.ServerFrame.SerializeToString
    )
    push = grpc.stream_unary_rpc_method_handler(
        cluster.push, data_pb2.PushRequest.FromString, data_pb2.PushResponse.SerializeToString
    )
    pull = grpc.unary_stream_rpc_method_handler(
        cluster.pull, data_pb2.PullRequest.FromString, data_pb2.PullResponse.SerializeToString
    )
    server.add_generic_rpc_handlers(
        (
            grpc.method_handlers_generic_handler("pathways.v1.Sessions", {"Connect": connect}),
            grpc.method_handlers_generic_handler("pathways.v1.Data", {"Push": push, "Pull": pull}),
        )
    )
    port = server.add_insecure_port("127.0.0.1:0")
    cluster.tickets["address"] = f"127.0.0.1:{port}"
    await server.start()
    print(json.dumps({"address": f"127.0.0.1:{port}"}), flush=True)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    threading.Thread(target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(stopped.set)), daemon=True).start()
    await stopped.wait()
    await server.stop(0)


if __name__ == "__main__":
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))
    jax.config.update("jax_enable_x64", True)
    del _jax
    asyncio.run(serve(int(sys.argv[1])))
