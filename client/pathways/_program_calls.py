"""The seam between traced programs and the cluster: which devices count, what executables are called, define, execute.

Everything else about programs runs without a cluster. One call of a program is one feed for every further shard count and one
run, all with one launch id; nothing of it waits for the cluster.
"""

from __future__ import annotations

import base64
import itertools
import re
import threading
import weakref
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Protocol

from pathways_proto.v1 import door_pb2

from pathways import _jax, _plugin, errors
from pathways import _jax_nodes as jn

_EXECUTABLE = re.compile(rb"pathways-executable ([1-9][0-9]*)")
_PROGRAM = re.compile(rb"pathways-program ([1-9][0-9]*)")
# Taken by any thread without a lock: next() of a count is one step of the interpreter.
_launch_ids = itertools.count(1)

# arrays of the program's arguments -> arrays of its results
Run = Callable[[Sequence[Any]], list[Any]]


class Runner(Protocol):
    """Where programs run. `traced` holds what each program was traced and compiled to, as long as the session lasts."""

    traced: MutableMapping[Any, Any]

    def generation(self) -> int:
        """Differs when what was traced and compiled before must not be used again."""

    def owns(self, device: Any) -> bool:
        """Whether a device belongs to it."""

    def executable_id(self, compiled: Any) -> int:
        """The number by which it knows an executable that JAX compiled for its devices."""

    def register(self, run: Run, name: str, replace: bool) -> int:
        """Keeps what `define` returned under a name. Raises errors.PathwaysError."""

    def fuse(self, run: Run, message: door_pb2.PluginFusion) -> int:
        """Adds groups to what `define` returned; how many can be used. Raises errors.PathwaysError."""

    def define(self, message: door_pb2.PluginProgram, results: Sequence[Any], shardings: Sequence[Any]) -> Run:
        """Takes a program; `results` are the shapes of what it returns. Raises errors.PathwaysError if it is refused."""


class Cluster:
    """The cluster that this process is connected to."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.traced: MutableMapping[Any, Any] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._feeds: dict[int, Any] = {}
        self._programs: MutableMapping[Run, Any] = weakref.WeakKeyDictionary()

    def generation(self) -> int:
        """A slice that got the device ids of an earlier one has none of its executables."""
        return _jax.times_forgotten()

    def owns(self, device: Any) -> bool:
        """Whether a device is one of this session."""
        return device.client is self.client

    def executable_id(self, compiled: Any) -> int:
        """The door names its executables in their fingerprints."""
        found = _EXECUTABLE.fullmatch(bytes(compiled.runtime_executable().fingerprint or b""))
        if found is None:
            raise errors.UnsupportedError(
                "the door that this process is connected to does not run whole programs (@pw.program); "
                "use the door that this version of pathways starts, or call the function without the decorator"
            )
        return int(found[1])

    def define(self, message: door_pb2.PluginProgram, results: Sequence[Any], shardings: Sequence[Any]) -> Run:
        """Sends the program once; what it returns runs it, from any thread."""
        text = "pathways-program " + base64.b64encode(message.SerializeToString()).decode()
        makers = jn.result_makers(results, shardings)
        groups = [(group.shard_count, list(group.arguments)) for group in message.groups]
        try:
            loaded = jn.load_plugin_program(self.client, text)
            feeds = [(self._feed(count), positions) for count, positions in groups[1:]]
        except Exception as error:
            raise errors.of(error) from error
        own = groups[0][1]

        def run(arrays: Sequence[Any]) -> list[Any]:
            launch_id = next(_launch_ids)
            for feed, positions in feeds:
                jn.park(feed, [arrays[position] for position in positions], launch_id)
            return jn.launch(loaded, [arrays[position] for position in own], makers, launch_id)

        self._programs[run] = loaded
        return run

    def register(self, run: Run, name: str, replace: bool) -> int:
        """Keeps a program that was defined here under a name; the version that it became. Raises errors.PathwaysError."""
        return self._told(f"pathways-register {self._number(run)} {int(replace)} {name}")

    def fuse(self, run: Run, message: door_pb2.PluginFusion) -> int:
        """Offers executables for groups of nodes of a program; how many the cluster can use. Raises errors.PathwaysError."""
        return self._told(f"pathways-fuse {self._number(run)} {base64.b64encode(message.SerializeToString()).decode()}")

    def _number(self, run: Run) -> int:
        """The number of a program that was defined here."""
        loaded = self._programs.get(run)
        found = _PROGRAM.fullmatch(bytes(loaded.fingerprint or b"")) if loaded is not None else None
        if found is None:
            raise errors.InvalidArgumentError("the program was compiled in an earlier connection; compile it again")
        return int(found[1])

    def _told(self, text: str) -> int:
        """Tells the cluster something about a program; the number in its answer."""
        try:
            told = jn.load_plugin_program(self.client, text)
        except Exception as error:
            raise errors.of(error) from error
        return int(bytes(told.fingerprint).rpartition(b" ")[2])

    def _feed(self, shard_count: int) -> Any:
        with self._lock:
            if shard_count not in self._feeds:
                self._feeds[shard_count] = jn.load_plugin_program(self.client, f"pathways-feed {shard_count}")
            return self._feeds[shard_count]


_lock = threading.Lock()


def runner() -> Runner:
    """The cluster of this process; connects first if need be. Raises errors.PathwaysError if there is none."""
    if not _plugin.is_active():
        _plugin.initialize()
    if not _plugin.is_active():
        raise errors.UnavailableError(
            "a program runs on a cluster, and this process is not connected to one: "
            "call pw.connect() before the first JAX call, or start the script with `pathways run`"
        )
    try:
        client = _jax.our_client()
    except RuntimeError as error:
        raise errors.of(error) from error
    with _lock:
        found: Cluster | None = _plugin.kept_for_programs(client)
        if found is None:
            found = Cluster(client)
            _plugin.keep_for_programs(client, found)
    return found
