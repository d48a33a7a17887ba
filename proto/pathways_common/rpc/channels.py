"""How every process dials and serves: no proxy, no message limit of gRPC's own, dead peers noticed by keep-alive pings.

Bounds on what a peer may send are checked where frames are decoded, with a sentence of ours.
"""

from __future__ import annotations

from typing import TypeVar

import grpc.aio
from google.protobuf.message import DecodeError

from pathways_common.model.bounds import (
    COME_BACK_PAUSE_MAX_NS,
    COME_BACK_PAUSE_NS,
    KEEPALIVE_NS,
    KEEPALIVE_TIMEOUT_NS,
    PENDING_REQUESTS_MAX,
)
from pathways_common.model.failure import Reason, fail
from pathways_common.rpc.keepalive import keepalive_ns

Message = TypeVar("Message")
Options = list[tuple[str, int]]

_KEEPALIVE_MS = keepalive_ns() // 10**6


def _shared(keepalive_ms: int) -> Options:
    timeout_ms = keepalive_ms * KEEPALIVE_TIMEOUT_NS // KEEPALIVE_NS
    return [
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", -1),
        ("grpc.keepalive_time_ms", keepalive_ms),
        ("grpc.keepalive_timeout_ms", timeout_ms),
        # What ends a connection on which a ping is not answered; gRPC's own value is a minute, whatever the one above.
        ("grpc.http2.ping_timeout_ms", timeout_ms),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]


_SHARED = _shared(_KEEPALIVE_MS)


def parse_address(address: str) -> str:
    """`HOST:PORT` of `grpc://HOST:PORT` or `HOST:PORT`; raises PathwaysError (INVALID_ARGUMENT) for anything else."""
    text = address.strip()
    scheme, separator, rest = text.partition("://")
    target = rest.rstrip("/") if separator else text
    host, colon, port = target.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    wrong_scheme = bool(separator) and scheme != "grpc"
    if wrong_scheme or not colon or not bare or "/" in target or not (port.isascii() and port.isdigit() and int(port) < 65536):
        raise fail(Reason.INVALID_ARGUMENT, f"{address!r} is not an address; write grpc://HOST:PORT", address=address)
    return f"{host}:{int(port)}"


def open_channel(address: str) -> grpc.aio.Channel:
    """A channel with connections of its own to `grpc://HOST:PORT`; dials when first used."""
    options: Options = [
        *_SHARED,
        ("grpc.enable_http_proxy", 0),
        ("grpc.use_local_subchannel_pool", 1),
        # Who asks again finds a server that was started again, however long it was away.
        ("grpc.initial_reconnect_backoff_ms", COME_BACK_PAUSE_NS // 10**6),
        ("grpc.max_reconnect_backoff_ms", COME_BACK_PAUSE_MAX_NS // 10**6),
    ]
    return grpc.aio.insecure_channel(parse_address(address), options=options)


def server_options() -> Options:
    """Options of every server: a port in use is an error, frequent pings are welcome, a burst of calls is not cancelled."""
    return [
        *_SHARED,
        ("grpc.so_reuseport", 0),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", _KEEPALIVE_MS // 2),
        ("grpc.http2.max_ping_strikes", 0),
        ("grpc.server.max_pending_requests", PENDING_REQUESTS_MAX),
    ]


def parse_frame(kind: type[Message], data: bytes) -> Message:
    """The message behind the bytes; raises PathwaysError (INVALID_ARGUMENT) if they are not one."""
    try:
        return kind.FromString(data)  # type: ignore[attr-defined, no-any-return]
    except DecodeError as error:
        raise fail(Reason.INVALID_ARGUMENT, "malformed message: the bytes of a frame cannot be parsed") from error
