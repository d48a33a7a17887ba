"""The frames of a handshake and the last words of a stream: sequence 0, or urgent."""

from __future__ import annotations

from collections.abc import Sequence

from pathways_common.model.failure import Failure
from pathways_common.rpc.convert import failure_to_proto
from pathways_proto.v1 import sessions_pb2, types_pb2, workers_pb2

from pathways_server.core import effects
from pathways_server.rpc.wire import item, key
from pathways_server.shell.peer import HostPeer, SessionPeer


def welcome_frame(
    reply: effects.WelcomeSession,
    peer: SessionPeer,
    version: str,
    inline_bytes_max: int,
    versions: Sequence[types_pb2.VersionRow] = (),
) -> bytes:
    """The first ServerFrame of an accepted session."""
    devices = [
        types_pb2.Device(
            device_id=device.device_id,
            slice_index=device.slice_index,
            island=device.island,
            host=device.host,
            local_index=device.local_index,
            platform=device.platform,
            device_kind=device.device_kind,
            memory_kinds=device.memory_kinds,
            pool=device.pool,
        )
        for device in reply.devices
    ]
    welcome = sessions_pb2.Welcome(
        session_id=peer.session_id,
        devices=devices,
        platform=reply.platform,
        platform_version=reply.platform_version,
        server_version=version,
        inline_bytes_max=inline_bytes_max,
        session_number=peer.number,
        lease_ns=peer.lease_ns,
        term=peer.term,
        versions=versions,
        orphan_ns=peer.orphan_ns,
    )
    return bytes(sessions_pb2.ServerFrame(welcome=welcome).SerializeToString())


def session_resumed_frame(peer: SessionPeer, version: str) -> bytes:
    """The first ServerFrame of another connection of a session: what came of the client's frames."""
    welcome = sessions_pb2.Welcome(
        session_id=peer.session_id, resumed=True, server_version=version, session_number=peer.number, lease_ns=peer.lease_ns,
        term=peer.term, orphan_ns=peer.orphan_ns,
    )  # fmt: skip
    return bytes(sessions_pb2.ServerFrame(received=peer.link.received, welcome=welcome).SerializeToString())


def session_refused_frame(failure: Failure) -> bytes:
    """The only ServerFrame of a refused session."""
    refused = sessions_pb2.Refused(failure=failure_to_proto(failure))
    return bytes(sessions_pb2.ServerFrame(refused=refused).SerializeToString())


def session_lost_item(failure: Failure) -> bytes:
    """The last operation of a session that the server ends."""
    lost = sessions_pb2.SessionLost(failure=failure_to_proto(failure))
    number = sessions_pb2.ServerOperation.DESCRIPTOR.fields_by_name["session_lost"].number
    return item(key(number), bytes(lost.SerializeToString()))


def worker_welcome_frame(peer: HostPeer, term: int, orphan_ns: int, resumed: bool = False) -> bytes:
    """The first ControllerFrame of an accepted worker; to one that comes back also what came of its frames."""
    welcome = workers_pb2.WorkerWelcome(
        incarnation=peer.incarnation, grace_ns=peer.grace_ns, resumed=resumed, orphan_ns=orphan_ns if peer.grace_ns else 0
    )
    received = peer.link.received if resumed else 0
    return bytes(workers_pb2.ControllerFrame(term=term, received=received, welcome=welcome).SerializeToString())


def worker_refused_frame(failure: Failure, term: int, join_again: bool = False) -> bytes:
    """The only ControllerFrame of a refused worker."""
    refused = workers_pb2.WorkerRefused(failure=failure_to_proto(failure), join_again=join_again)
    return bytes(workers_pb2.ControllerFrame(term=term, refused=refused).SerializeToString())
