"""Fences: small plugin programs by which a client marks a place in its own stream, for a call that comes another way.

`pathways-fence N` is compiled by the door alone and executed by the door alone: to execute it says that everything the client
sent before has been read. Whoever waits for N then acts at once, so that what it pushes lies right behind that place.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable

from pathways_common.model.bounds import FENCES_MAX
from pathways_common.model.failure import Failure, Reason, fail
from pathways_proto.ifrt import programs_pb2, session_pb2, values_pb2

from pathways_door.envelope import serialized
from pathways_door.errors import status_of

PLUGIN_TYPE = "xla::ifrt::PluginProgram"
_PREFIX = b"__serialized_plugin_program "
_FENCE = re.compile(rb"pathways-fence ([1-9][0-9]{0,18})")
_NOT_KNOWN = status_of(Failure(Reason.UNSUPPORTED, "a fence has no parameters and no outputs"))


class Fences:
    """The fences of one session by number: what passed, and who acts when one passes."""

    def __init__(self) -> None:
        self._passed: OrderedDict[int, None] = OrderedDict()
        self._actions: dict[int, Callable[[], None]] = {}

    def passed(self, number: int) -> None:
        """The client executed this fence."""
        action = self._actions.pop(number, None)
        if action is not None:
            action()
            return
        self._passed[number] = None
        if len(self._passed) > FENCES_MAX:
            self._passed.popitem(last=False)

    def after(self, number: int, action: Callable[[], None]) -> None:
        """Calls `action` once, now if the fence has passed, else when it passes."""
        if number in self._passed:
            del self._passed[number]
            action()
        else:
            self._actions[number] = action

    def withdraw(self, number: int) -> None:
        """Forgets the action that waits for a fence."""
        self._actions.pop(number, None)


def fence_number(program: values_pb2.Serialized) -> int:
    """The number of a fence program; raises PathwaysError for every other plugin program."""
    found = _FENCE.fullmatch(program.data.removeprefix(_PREFIX))
    if found is None:
        raise fail(
            Reason.UNSUPPORTED,
            "this plugin program is not supported: the Pathways door knows only `pathways-fence N`; use jax.jit or jax.pmap",
        )
    return int(found[1])


def compile_response(number: int, handle: int, future: int) -> bytes:
    """The answer to the compile request: a program on the session's first device."""
    response = programs_pb2.CompileResponse(
        loaded_executable_handle=handle,
        name=f"pathways-fence-{number}",
        num_devices=1,
        device_ids=[0],
        addressable_device_ids=[0],
        fingerprint_value=b"",
        ready_future_handle=future,
    )
    return serialized(session_pb2.IfrtResponse(compile_response=response))


def metadata_response() -> bytes:
    """The answer to the metadata request: nothing goes in, nothing comes out."""
    out = programs_pb2.LoadedExecutableMetadataResponse(
        parameter_layouts_error=_NOT_KNOWN, output_layouts_error=_NOT_KNOWN, compiled_memory_stats_error=_NOT_KNOWN
    )
    out.output_memory_kinds.SetInParent()
    out.donated_input_indices.SetInParent()
    return serialized(session_pb2.IfrtResponse(loaded_executable_metadata_response=out))
