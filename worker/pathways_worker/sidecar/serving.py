"""Runs calls, each on a thread of its own: their order is the executor's care. A user's exception travels as a failure.

Functions are kept open between calls, until the client lets go of them: what they hold is the state of its objects.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import tree_util
from pathways_common.model.bounds import FAILURE_MESSAGE_BYTES_MAX
from pathways_common.model.failure import PathwaysError, Reason
from pathways_common.rpc.convert import failure_to_proto
from pathways_proto.v1 import colocated_pb2, types_pb2

from pathways_worker.executor.frames import FrameReader, write_frame
from pathways_worker.sidecar import arrays, devices
from pathways_worker.sidecar.printing import LineWriter
from pathways_worker.sidecar.storage import StorageFunction

_JAX = os.path.dirname(os.path.abspath(jax.__file__)) + os.sep
_OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep


class Function:
    """One executable: the user's function and how its arguments and results lie."""

    def __init__(self, program: Any, places: Sequence[int]) -> None:
        local = jax.devices("cpu")
        self.name = str(program.name)
        self.devices = [local[place] for place in places]
        self.numbers = dict(zip(map(int, program.devices), self.devices, strict=True))
        with devices.numbered(self.numbers):
            self.function, self.in_tree, self.in_specs, self.out_tree, self.out_specs, _ = devices.load(program.text)
        self.wide = any(_is_wide(spec.dtype) for spec in (*self.in_specs, *self.out_specs))

    def call(self, arguments: Sequence[Any]) -> list[list[bytes]]:
        """The shards of the results. Raises whatever the user's function raises."""
        with devices.numbered(self.numbers), jax.enable_x64(self.wide or bool(jax.config.jax_enable_x64)):
            values = [
                arrays.to_array(spec, dict(zip(self.devices, argument.shards, strict=True)))
                for spec, argument in zip(self.in_specs, arguments, strict=True)
            ]
            positional, named = tree_util.tree_unflatten(self.in_tree, values)
            leaves, tree = tree_util.tree_flatten(self.function(*positional, **named))
            if tree != self.out_tree:
                raise TypeError(f"colocated Python returned a tree {tree}, promised was {self.out_tree}")
            return [arrays.to_shards(leaf, spec, self.devices) for leaf, spec in zip(leaves, self.out_specs, strict=True)]


# What is kept of a program: what runs it, or why it cannot be run.
_Opened: TypeAlias = Function | StorageFunction | BaseException


class Server:
    """Serves one socket."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._lock = threading.Lock()
        self._functions: dict[int, _Opened] = {}
        self._printer = LineWriter(lambda text: self._report(colocated_pb2.SidecarReport(printed=text)))

    def run(self) -> None:
        """Until the executor closes the socket."""
        devices.install()
        sys.stdout = sys.stderr = self._printer
        self._report(colocated_pb2.SidecarReport())  # it has started
        reader = FrameReader(self._channel)
        while (payload := reader.read()) is not None:
            self._on_command(colocated_pb2.SidecarCommand.FromString(payload))

    def _on_command(self, command: Any) -> None:
        for identifier in command.forget:
            self._functions.pop(identifier, None)
        if not command.call_id:
            return
        asked_s = time.monotonic()
        if command.HasField("program"):
            self._functions[command.executable_id] = self._open(command)
        work = threading.Thread(
            target=self._call,
            args=(command, self._functions.get(command.executable_id), asked_s),
            name=f"call {command.call_id}",
            daemon=True,
        )
        work.start()

    def _open(self, command: Any) -> _Opened:
        try:
            if command.program.HasField("storage"):
                return StorageFunction(command.program)
            return Function(command.program, command.local_devices)
        except BaseException as error:
            return error

    def _call(self, command: Any, function: _Opened | None, asked_s: float) -> None:
        report = colocated_pb2.SidecarReport(call_id=command.call_id)
        name = getattr(function, "name", "a function")
        try:
            if not isinstance(function, Function | StorageFunction):
                raise function or LookupError("this function was let go of")
            if isinstance(function, StorageFunction):
                found = function.call(command.arguments, asked_s)
            else:
                found = function.call(command.arguments)
            for shards in found:
                report.results.add(shards=shards)
        except BaseException as error:  # also SystemExit: there is no caller here whom it could reach
            report.ClearField("results")
            report.failure.CopyFrom(failure_of(error, name))
        # What this thread holds on to would keep an object alive that the client has let go of.
        del function
        self._printer.end()
        self._report(report)

    def _report(self, report: Any) -> None:
        with self._lock:
            try:
                write_frame(self._channel, report.SerializeToString())
            except OSError:
                os._exit(0)  # the executor is gone


def failure_of(error: BaseException, name: str) -> Any:
    """An exception as data: type, text, and the user's line that raised it. The executor knows the name of the host."""
    if isinstance(error, PathwaysError):
        return failure_to_proto(error.failure)
    kind, text = type(error).__name__, str(error)
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith((_JAX, _OURS))]
    where = f", {frames[-1].filename}:{frames[-1].lineno}, in {frames[-1].name}" if frames else ""
    place = f" (raised by colocated Python {name} on this host{where})"
    message = (f"{kind}: {text}" if text else kind)[: FAILURE_MESSAGE_BYTES_MAX // 4 - len(place)] + place
    return types_pb2.Failure(reason=Reason.USER_ERROR.value, message=message, metadata={"type": kind, "text": text[:1024]})


def _is_wide(dtype: Any) -> bool:
    """Whether elements have more bits than JAX gives them by default."""
    return not arrays.is_string(dtype) and np.dtype(dtype) in _WIDE


_WIDE = frozenset(np.dtype(kind) for kind in (np.int64, np.uint64, np.float64, np.complex128))
