"""The traced programs of the stand-in cluster: a small interpreter over NumPy whose node functions the test gives.

FAKE_NODES names a Python file; a node runs the function there that has its name, on whole arrays.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from pathways_common.model.sharding import shard_slices
from pathways_proto.v1 import sessions_pb2

_Make = Callable[[str, str], Exception]


def _nodes() -> Any:
    path = os.environ.get("FAKE_NODES")
    if not path:
        return None
    spec = importlib.util.spec_from_file_location("fake_nodes", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FakePrograms:
    """The programs of one session. `failed(reason, text)` makes an error that has a `message`."""

    def __init__(self, session: Any, failed: _Make) -> None:
        self._session = session
        self._failed = failed
        self._programs: dict[int, Any] = {}
        self._functions = _nodes()

    def __len__(self) -> int:
        return len(self._programs)

    def define(self, m: Any) -> None:
        """Refuses what names an executable or a function that is not there."""
        answer = sessions_pb2.ProgramDefined(program_id=m.program_id)
        program = m.program
        nodes = program.graphs[0].nodes
        for node in nodes:
            text = ""
            if node.WhichOneof("kind") == "computation":
                executable = program.computations[node.computation.computation].executable_id
                if executable not in self._session.executables:
                    text = f"executable {executable} is unknown"
                elif not hasattr(self._functions, node.name):
                    text = f"there is no function {node.name}"
            if text:
                answer.failure.CopyFrom(self._failed("PROGRAM_REFUSED", text).message)  # type: ignore[attr-defined]
                self._session.reply(program_defined=answer)
                return
        answer.arguments.extend(nodes[0].argument.specs)
        answer.results.extend(self._spec(program, edge) for edge in nodes[-1].inputs)
        self._programs[m.program_id] = program
        self._session.reply(program_defined=answer)

    def _spec(self, program: Any, edge: Any) -> Any:
        node = program.graphs[0].nodes[edge.node]
        return program.computations[node.computation.computation].results[edge.output]

    def release(self, program_id: int) -> None:
        del self._programs[program_id]

    def run(self, m: Any) -> None:
        """All at once; a failed argument fails every result."""
        program = self._programs[m.program_id]
        nodes = program.graphs[0].nodes
        values = self._session.values
        ids = range(m.first_result_id, m.first_result_id + len(nodes[-1].inputs))
        assert m.run_id + 1 == m.first_result_id
        assert not any(identifier in values for identifier in ids)
        try:
            specs = nodes[0].argument.specs
            arguments = [_whole(self._session.value(view), spec) for view, spec in zip(m.arguments, specs, strict=True)]
        except Exception as error:
            if not hasattr(error, "message"):
                raise
            values.update(dict.fromkeys(ids, error))
            return
        made = [arguments]
        for node in nodes[1:-1]:
            inputs = [made[edge.node][edge.output] for edge in node.inputs]
            made.append(getattr(self._functions, node.name)(*inputs))
        for identifier, edge in zip(ids, nodes[-1].inputs, strict=True):
            values[identifier] = _shards(made[edge.node][edge.output], self._spec(program, edge), self._session.position)
        for position in m.donated:
            values[m.arguments[position]] = self._failed("DELETED", "donated to a program")


def _whole(shards: list[Any], spec: Any) -> Any:
    assert len(shards) == len(spec.devices), (len(shards), list(spec.devices))
    out: Any = None
    slices = shard_slices(spec.sharding, tuple(spec.shape), len(spec.devices))
    for shard, part, device in zip(shards, slices, spec.devices, strict=True):
        assert shard.devices() == {jax.devices("cpu")[device]}, (shard.devices(), device)
        data = np.asarray(shard)
        if out is None:
            out = np.zeros(tuple(spec.shape), data.dtype)
        out[tuple(slice(*bounds) for bounds in part)] = data
    return out


def _shards(whole: Any, spec: Any, position: Callable[[int], int]) -> list[Any]:
    slices = shard_slices(spec.sharding, tuple(spec.shape), len(spec.devices))
    return [
        jax.device_put(whole[tuple(slice(*bounds) for bounds in part)], jax.devices("cpu")[position(device)])
        for part, device in zip(slices, spec.devices, strict=True)
    ]
