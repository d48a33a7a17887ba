"""What the door reads of a program's compile options, and what it takes out before they travel on.

Only the device assignment (virtual ids stay outside the executors) and the callback ids of our client plugin are touched;
everything else, known here or not, passes as it came, with the entries of maps in one order: equal options are equal bytes,
by which the cluster knows a program that it has compiled before.
"""

from __future__ import annotations

from dataclasses import dataclass

from pathways_common.model.bounds import LIST_ITEMS_MAX
from pathways_common.model.failure import Reason, fail
from pathways_proto.ifrt import compile_options_pb2, values_pb2

# Put there by the client plugin: comma-joined ids of host callbacks, by the index the program uses.
CALLBACKS_KEY = "pathways_host_callbacks"
OPTIONS_TYPE = "xla::ifrt::XlaCompileOptions"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Devices in replica-major order; `options` is a serialized xla.CompileOptionsProto without them."""

    options: bytes
    devices: tuple[int, ...]
    callback_ids: tuple[int, ...]


def read_options(serialized: values_pb2.Serialized) -> ReadOptions:
    """Takes the options of one program apart; raises PathwaysError if they are of another kind or malformed."""
    if serialized.type_name != OPTIONS_TYPE:
        raise fail(Reason.UNSUPPORTED, f"compile options of type {serialized.type_name} are not supported")
    options = values_pb2.XlaCompileOptionsProto.FromString(serialized.data).compile_options
    build = options.executable_build_options
    devices = _devices(build)
    build.ClearField("device_assignment")
    callback_ids: tuple[int, ...] = ()
    if CALLBACKS_KEY in options.env_option_overrides:
        callback_ids = _callback_ids(options.env_option_overrides[CALLBACKS_KEY].string_field)
        del options.env_option_overrides[CALLBACKS_KEY]
    return ReadOptions(options.SerializeToString(deterministic=True), devices, callback_ids)


def _devices(build: compile_options_pb2.ExecutableBuildOptionsProto) -> tuple[int, ...]:
    if not build.HasField("device_assignment"):
        count = max(1, build.num_replicas) * max(1, build.num_partitions)
        if count > LIST_ITEMS_MAX:
            raise fail(Reason.INVALID_ARGUMENT, f"the program asks for {count} devices; name those of this session")
        return tuple(range(count))
    partitions = [list(computation.replica_device_ids) for computation in build.device_assignment.computation_devices]
    replicas = len(partitions[0]) if partitions else 0
    if not replicas or any(len(ids) != replicas for ids in partitions):
        raise fail(Reason.INVALID_ARGUMENT, "the device assignment of the program is empty or ragged")
    return tuple(ids[replica] for replica in range(replicas) for ids in partitions)


def _callback_ids(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(",") if word)
    except ValueError:
        raise fail(
            Reason.INVALID_ARGUMENT, f"the option {CALLBACKS_KEY} holds {text!r}; it must be comma-joined numbers"
        ) from None
