"""Colocated Python of the stand-in cluster: the sidecar's own way from bytes to bytes, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from pathways_common.model.colocated import MAGIC
from pathways_proto.v1 import colocated_pb2, types_pb2
from pathways_worker.executor.element_types import DTYPES
from pathways_worker.sidecar import devices
from pathways_worker.sidecar.serving import Function


class FakePython:
    """One loaded function."""

    def __init__(self, program: bytes, positions: Sequence[int]) -> None:
        self.message = colocated_pb2.ColocatedProgram.FromString(program[len(MAGIC) :])
        self.devices = [jax.devices("cpu")[position] for position in positions]
        self.outputs = list(self.message.outputs)
        devices.install()
        self.function = Function(self.message, positions)

    def info(self) -> types_pb2.ExecutableInfo:
        """What Compiled carries."""
        out = types_pb2.ExecutableInfo(name=self.message.name, digest=b"d", parameter_count=len(self.message.parameters))
        out.outputs.extend(self.outputs)
        out.parameter_layouts_error = out.output_layouts_error = "none"
        out.python = True
        return out

    def run(self, arguments: Sequence[Sequence[jax.Array]]) -> list[list[jax.Array]]:
        """The shards of the results."""
        for shards in arguments:
            assert [next(iter(shard.devices())) for shard in shards] == self.devices
        given = [colocated_pb2.HostShards(shards=[np.asarray(shard).tobytes() for shard in shards]) for shards in arguments]
        results = self.function.call(given)
        return [
            [self._placed(data, spec, device) for data, device in zip(shards, self.devices, strict=True)]
            for shards, spec in zip(results, self.outputs, strict=True)
        ]

    def _placed(self, data: bytes, spec: Any, device: jax.Device) -> jax.Array:
        value = np.frombuffer(data, DTYPES[spec.dtype]).reshape(tuple(spec.shard_shape))
        return jax.device_put(value, device)
