"""Drives real executor processes over socket pairs with protobuf frames, as a daemon does; builds programs with plain JAX."""

from __future__ import annotations

import functools
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax.sharding import AbstractMesh, Mesh, NamedSharding, PartitionSpec
from jaxlib import _jax, xla_client
from jaxlib.mlir.dialects import stablehlo
from pathways_proto.v1 import segments_pb2, types_pb2, workers_pb2
from pathways_worker.executor.element_types import DTYPES, NUMBERS, TOKEN
from pathways_worker.executor.frames import FrameReader, write_frame

TIMEOUT_S = 90.0
SESSION = 7
# About 50 ms of matrix products on one core: enough for what follows to arrive before it ends.
HEAVY = np.full((600, 600), 0.5, np.float32)


def slow(x: Any, heavy: Any) -> Any:
    """x + 1, late, if it is given HEAVY."""
    for _ in range(8):
        heavy = heavy @ heavy * 1e-3
    return x + 1 + heavy.sum() * 0


def slow_to_compile(x: Any) -> Any:
    """Its text is read in a moment, and what becomes of it takes seconds."""
    for number in range(2000):
        x = jnp.sin(x) * (1 + number * 1e-6)
    return x


def program_of(lowered: Any) -> bytes:
    """The portable artifact that a client would send."""
    module = jax_mlir.module_to_bytecode(lowered.compiler_ir("stablehlo"))
    return bytes(_jax.mlir.serialize_portable_artifact(module, stablehlo.get_current_version()))


def lower_sharded(function: Callable[..., Any], *shapes: Any, **options: Any) -> bytes:
    """A program over the devices of its `in_shardings`."""
    return program_of(jax.jit(function, **options).trace(*shapes).lower(lowering_platforms=("cpu",)))


def lower(function: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
    """A program of one device."""
    shapes = [jax.ShapeDtypeStruct(np.shape(value), np.asarray(value).dtype) for value in arguments]
    return program_of(jax.jit(function, **options).lower(*shapes))


def sharded(spec: Sequence[Any], device_count: int) -> NamedSharding:
    """A sharding over that many devices, none of which this process needs."""
    return NamedSharding(AbstractMesh((device_count,), ("d",)), PartitionSpec(*spec))


@functools.cache
def two_devices() -> Mesh:
    """A mesh of two devices of this process; programs with callbacks cannot be lowered for an abstract one."""
    return Mesh(np.array(xla_client.make_cpu_client(num_devices=2).devices()), ("d",))


def options_for(device_count: int, **fields: Any) -> bytes:
    """Compile options as JAX's client makes them."""
    options = _jax.CompileOptions()
    build = options.executable_build_options
    options.num_partitions = build.num_partitions = device_count
    build.use_spmd_partitioning = True
    build.use_shardy_partitioner = True
    for name, value in fields.items():
        setattr(build.debug_options, name, value)
    return bytes(options.SerializeAsString())


def identifier(number: int, session: int = SESSION) -> int:
    """A global id."""
    return session << 40 | number


def failure_text(failure: Any) -> str:
    return f"{failure.reason}: {failure.message}"


class Executor:
    """One executor process. Not for several threads, except that callbacks are answered by one of its own."""

    def __init__(
        self,
        device_count: int = 1,
        environment: dict[str, str] | None = None,
        host: str = "",
        progress_fd: int | None = None,
        libraries: Sequence[str] = (),
        words: Sequence[str] = (),
    ) -> None:
        pairs = [socket.socketpair() for _ in range(3)]
        (self.control, control), (self.data, data), (self.callbacks, callbacks) = pairs
        self.segments, segments = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "PATHWAYS_"))}
        clean |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_collective_timeout_seconds=30"} | (environment or {})
        numbers = [str(end.fileno()) for end in (control, data, callbacks)]
        arguments = ["--control-fd", numbers[0], "--data-fd", numbers[1], "--callback-fd", numbers[2], "--host", host]
        arguments += [*(word for path in libraries for word in ("--ffi-library", path)), *words]
        arguments += ["--segment-fd", str(segments.fileno())]
        inherited = [end.fileno() for end in (control, data, callbacks, segments)]
        if progress_fd is not None:
            arguments += ["--progress-fd", str(progress_fd)]
            inherited.append(progress_fd)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pathways_worker.executor", *arguments, "--device-count", str(device_count)],
            pass_fds=inherited,
            env=clean,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for end in (control, data, callbacks, segments):
            end.close()
        self.stderr = b""
        self._errors = threading.Thread(target=self._read_errors, daemon=True)
        self._errors.start()
        self.device_count = device_count
        self.events: list[Any] = []
        self.finished_through = 0
        self.launched_through = 0
        self.busy_ns = 0
        self.times: list[Any] = []
        self.acknowledged = -1
        self.epoch = 1
        self.launched = 0
        self._frames = itertools.count(1)
        self._numbers = itertools.count(1)
        self._reader = FrameReader(self.control)
        self._data_reader = FrameReader(self.data)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.stderr += line

    def close(self) -> None:
        """Ends the process as a daemon's end does."""
        for end in (self.control, self.data, self.callbacks, self.segments):
            end.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        self._errors.join(5)

    def new_id(self) -> int:
        return identifier(next(self._numbers))

    # ---- frames ----------------------------------------------------------------------------------------------------

    def send(self, *commands: Any) -> int:
        """Sends one frame; its number."""
        number = next(self._frames)
        frame = workers_pb2.ExecutorCommands(frame=number, commands=commands)
        write_frame(self.control, frame.SerializeToString())
        return number

    def read(self, timeout_s: float = TIMEOUT_S) -> None:
        """Reads one report."""
        payload = self._reader.read() if self._reader.ready(timeout_s) else None
        if payload is None:
            raise AssertionError(f"the executor says nothing: {self.stderr.decode()[-3000:]}")
        report = workers_pb2.ExecutorReport.FromString(payload)
        self.acknowledged = report.acknowledged_frame
        self.finished_through = report.finished_through
        self.launched_through = report.launched_through
        assert report.busy_ns >= self.busy_ns
        self.busy_ns = report.busy_ns
        self.times.extend(report.times)
        self.events.extend(report.events)

    def handled(self, *commands: Any) -> None:
        """Sends one frame and waits for its acknowledgement."""
        number = self.send(*commands)
        while self.acknowledged < number:
            self.read()

    def event(self, name: str, **fields: Any) -> Any:
        """The next event of this kind whose fields have these values; takes it out."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            for position, event in enumerate(self.events):
                body = getattr(event, name)
                if event.WhichOneof("event") == name and all(getattr(body, key) == value for key, value in fields.items()):
                    del self.events[position]
                    return body
            assert time.monotonic() < deadline, f"no {name} {fields} among {self.events}"
            self.read()

    def events_of(self, name: str) -> list[Any]:
        return [getattr(event, name) for event in self.events if event.WhichOneof("event") == name]

    # ---- commands --------------------------------------------------------------------------------------------------

    def begin(self, rank: int = 0, rank_count: int = 1, address: str = "") -> None:
        """Sends EpochBegin; `event("epoch_ready")` is the answer."""
        begin = workers_pb2.EpochBegin(
            epoch=self.epoch, rank=rank, rank_count=rank_count, coordinator_address=address, device_count=self.device_count
        )
        self.send(workers_pb2.HostCommand(epoch_begin=begin))

    def load_command(
        self, program: bytes, devices: Sequence[int] = (0,), callback_ids: Sequence[int] = (), options: bytes = b""
    ) -> Any:
        load = workers_pb2.Load(
            executable_id=self.new_id(),
            program=program,
            options=options or options_for(len(devices)),
            devices=devices,
            callback_ids=callback_ids,
            epoch=self.epoch,
        )
        return workers_pb2.HostCommand(load=load)

    def load(self, program: bytes, devices: Sequence[int] = (0,), callback_ids: Sequence[int] = (), options: bytes = b"") -> Any:
        """Loads a program; the Loaded answer, which may be a failure."""
        command = self.load_command(program, devices, callback_ids, options)
        self.handled(command)
        return self.event("loaded", executable_id=command.load.executable_id)

    def place_command(self, shards: Sequence[Any], memory_kind: str = "") -> Any:
        """A PlaceArray with inline bytes, one shard per local device."""
        values = [np.asarray(shard) for shard in shards]
        spec = types_pb2.ArraySpec(
            dtype=NUMBERS[values[0].dtype], shape=values[0].shape, shard_shape=values[0].shape, memory_kind=memory_kind
        )
        pieces = [workers_pb2.LocalPiece(local_device=index, inline=value.tobytes()) for index, value in enumerate(values)]
        return workers_pb2.HostCommand(place_array=workers_pb2.PlaceArray(buffer_id=self.new_id(), spec=spec, pieces=pieces))

    def place(self, *shards: Any, memory_kind: str = "") -> int:
        """Places an array; its id."""
        command = self.place_command(shards, memory_kind)
        self.send(command)
        return int(command.place_array.buffer_id)

    def prepare_command(self, executable_id: int, arguments: Sequence[int], results: int, **fields: Any) -> Any:
        """A Prepare with its grant, next in this host's order; ids of its results are consecutive."""
        first = self.new_id()
        for _ in range(results - 1):
            self.new_id()
        fields.setdefault("sequence", self.launched + 1)
        fields.setdefault("previous", self.launched)
        self.launched = fields["sequence"]
        prepare = workers_pb2.Prepare(
            execution_id=self.new_id(),
            executable_id=executable_id,
            arguments=arguments,
            first_result_id=first,
            epoch=self.epoch,
            **fields,
        )
        return workers_pb2.HostCommand(prepare=prepare)

    def execute(self, executable_id: int, arguments: Sequence[int], results: int = 1, **fields: Any) -> list[int]:
        """Sends a launch; the ids of its results."""
        command = self.prepare_command(executable_id, arguments, results, **fields)
        self.send(command)
        first = command.prepare.first_result_id
        return list(range(first, first + results))

    def fetch_bytes(self, buffer_id: int, local_index: int = 0) -> bytes:
        """The bytes of a shard, asked for inline; AssertionError with the failure."""
        fetch_id = next(self._numbers)
        shard = workers_pb2.LocalShard(id=buffer_id, local_index=local_index)
        self.send(workers_pb2.HostCommand(fetch_shard=workers_pb2.FetchShard(fetch_id=fetch_id, shard=shard)))
        while True:
            for event in self.events:
                if event.WhichOneof("event") == "shard_fetched" and event.shard_fetched.fetch_id == fetch_id:
                    return bytes(self.event("shard_fetched", fetch_id=fetch_id).data)
                if event.WhichOneof("event") == "fetch_failed" and event.fetch_failed.fetch_id == fetch_id:
                    raise AssertionError(failure_text(self.event("fetch_failed", fetch_id=fetch_id).failure))
            self.read()

    def fetch(self, buffer_id: int, like: Any, local_index: int = 0) -> np.ndarray[Any, Any]:
        """A shard as an array of the type and shape of `like`."""
        like = np.asarray(like)
        return np.frombuffer(self.fetch_bytes(buffer_id, local_index), np.uint8).view(like.dtype).reshape(like.shape)

    def free(self, *identifiers: int) -> None:
        self.send(workers_pb2.HostCommand(free=workers_pb2.Free(ids=identifiers)))

    def read_data(self) -> tuple[Any, bytes]:
        """One header and its bytes from the data pair."""
        assert self._data_reader.ready(TIMEOUT_S)
        payload = self._data_reader.read()
        assert payload is not None
        header = workers_pb2.ExecutorDataHeader.FromString(payload)
        return header, bytes(self._data_reader.read_exactly(header.size_bytes) or b"")

    def use_segment(self, descriptor: int = -1, **order: Any) -> None:
        """Sends a SegmentUse."""
        message = segments_pb2.SegmentUse(**order).SerializeToString()
        socket.send_fds(self.segments, [message], [descriptor] if descriptor >= 0 else [])

    def send_data(self, transfer_id: int, data: bytes) -> None:
        header = workers_pb2.ExecutorDataHeader(transfer_id=transfer_id, size_bytes=len(data))
        write_frame(self.data, header.SerializeToString())
        self.data.sendall(data)

    def serve_callback(self, answer: Callable[[Any], Any], count: int = 1) -> threading.Thread:
        """Answers that many CallbackCalls with HostCommands made by `answer(call)`; None: no answer."""
        reader = FrameReader(self.callbacks)

        def serve() -> None:
            for _ in range(count):
                payload = reader.read()
                assert payload is not None
                call = workers_pb2.ExecutorReport.FromString(payload).events[0].callback_call
                command = answer(call)
                if command is not None:
                    write_frame(self.callbacks, workers_pb2.ExecutorCommands(commands=[command]).SerializeToString())

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        return thread


def reply(call: Any, *values: Any) -> Any:
    """A CallbackReply with these arrays; None stands for a token."""
    arrays = [types_pb2.CallbackArray(dtype=TOKEN) if value is None else _message(np.asarray(value)) for value in values]
    results = types_pb2.CallbackArrays(arrays=arrays)
    return workers_pb2.HostCommand(callback_reply=workers_pb2.CallbackReply(call_id=call.call_id, results=results))


def _message(value: np.ndarray[Any, Any]) -> Any:
    return types_pb2.CallbackArray(dtype=NUMBERS[value.dtype], shape=value.shape, data=value.tobytes())


def operands(call: Any) -> list[Any]:
    """The operands of a CallbackCall; None stands for a token."""
    return [
        None if item.dtype == TOKEN else np.frombuffer(item.data, DTYPES[item.dtype]).reshape(tuple(item.shape))
        for item in call.operands.arrays
    ]


class Group:
    """A coordinator and two executors that form one epoch."""

    def __init__(
        self, environment: dict[str, str] | None = None, hosts: Sequence[str] = ("", ""), words: Sequence[str] = ()
    ) -> None:
        self.coordinator = subprocess.Popen(
            [sys.executable, "-m", "pathways_worker.coordinator", "--ranks", "2"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.ranks = [Executor(environment=environment, host=host, words=words) for host in hosts]
        assert self.coordinator.stdout is not None
        address = json.loads(self.coordinator.stdout.readline())["address"]
        for number, executor in enumerate(self.ranks):
            executor.begin(number, 2, address)
        for executor in self.ranks:
            executor.event("epoch_ready")

    def load(self, program: bytes, **options: Any) -> tuple[int, list[Any]]:
        """Loads on both; the executable id, which is the same on both, and both infos."""
        commands = [executor.load_command(program, (0, 1), **options) for executor in self.ranks]
        for executor, command in zip(self.ranks, commands, strict=True):
            executor.send(command)
        answers = [
            executor.event("loaded", executable_id=command.load.executable_id)
            for executor, command in zip(self.ranks, commands, strict=True)
        ]
        assert not any(answer.HasField("failure") for answer in answers), answers
        return [answer.executable_id for answer in answers], [answer.info for answer in answers]  # type: ignore[return-value]

    def close(self) -> None:
        for executor in self.ranks:
            executor.close()
        assert self.coordinator.stdin is not None
        self.coordinator.stdin.close()
        try:
            self.coordinator.wait(10)
        except subprocess.TimeoutExpired:
            self.coordinator.kill()
            self.coordinator.wait(10)
        if self.coordinator.stdout is not None:
            self.coordinator.stdout.close()


@contextmanager
def ready_executor(device_count: int = 1, environment: dict[str, str] | None = None) -> Iterator[Executor]:
    """One whose epoch has begun; it must end by itself, without an error, when it is told to."""
    executor = Executor(device_count, environment)
    executor.begin()
    executor.event("epoch_ready")
    yield executor
    executor.close()
    assert executor.process.returncode == 0
