"""The session's devices as the client sees them: all addressable, one process.

Devices of the view are primary: `jax.devices()` shows them. Devices of the pool work like them once a slice has bound them, and
are found by our client library alone. Every device has memories of its own (ids are global); `slice_index` is the island, for
the pool a virtual one, so JAX keeps meshes inside one. `host_name` of the pool is empty: it is not known at this time.
"""

from __future__ import annotations

import hashlib

from pathways_proto.ifrt import session_pb2
from pathways_proto.v1 import sessions_pb2

# Seen by JAX behind the client's own prefix: `proxy/pathways`.
RUNTIME_TYPE = "pathways"


def primary_count(welcome: sessions_pb2.Welcome) -> int:
    """How many devices `jax.devices()` shows."""
    return sum(not device.pool for device in welcome.devices)


def init_response(welcome: sessions_pb2.Welcome, session_id: int) -> session_pb2.InitResponse:
    """The answer to init."""
    out = session_pb2.InitResponse(
        session_id=session_id,
        platform_name=welcome.platform,
        platform_version=welcome.platform_version or f"pathways {welcome.server_version}",
        platform_id=int.from_bytes(hashlib.sha256(welcome.platform.encode()).digest()[:8], "little"),
        process_index=0,
        runtime_type=RUNTIME_TYPE,
    )
    kinds: dict[str, int] = {}
    for device in welcome.devices:
        memory_ids = []
        for kind in tuple(device.memory_kinds) or ("device",):
            memory_id = len(out.memories)
            memory_ids.append(memory_id)
            name = f"{kind} memory of device {device.device_id}"
            out.memories.add(
                id=memory_id,
                memory_space_kind=kind,
                kind_id=kinds.setdefault(kind, len(kinds)),
                device_ids=[device.device_id],
                debug_string=name,
                to_string=name,
            )
        where = "pool" if device.pool else f"host={device.host}"
        text = f"PathwaysDevice(id={device.device_id}, slice_index={device.slice_index}, {where})"
        entry = out.all_devices.add(
            id=device.device_id,
            local_device_id=device.device_id,
            local_hardware_id=device.local_index,
            platform_name=device.platform or welcome.platform,
            device_kind=device.device_kind,
            default_memory_id=memory_ids[0],
            memory_ids=memory_ids,
            debug_string=text,
            to_string=text,
        )
        attributes = entry.attributes.attributes
        attributes["slice_index"].int64_value = device.slice_index
        attributes["host_name"].string_value = device.host.encode()
        attributes["island"].string_value = device.island.encode()
        if not device.pool:
            out.primary_device_ids.append(device.device_id)
        out.addressable_device_ids.append(device.device_id)
    # jax.export asks for the first; the second keeps the persistent compilation cache from trying.
    out.client_attributes.attributes["serialize_with_sdy"].bool_value = True
    out.client_attributes.attributes["supports_executable_serialization"].bool_value = False
    return out
