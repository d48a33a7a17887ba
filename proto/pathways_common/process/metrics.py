"""Metrics of a process at http://HOST:PORT/metrics, from a registry that the process made itself."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, start_http_server

from pathways_common.model.failure import Reason, fail


def serve_metrics(registry: CollectorRegistry, host: str, port: int) -> int:
    """Serves in a thread of its own until the process ends; returns the port bound (`port` may be 0).

    Raises PathwaysError (INVALID_ARGUMENT) if the address cannot be bound.
    """
    try:
        server, _ = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise fail(
            Reason.INVALID_ARGUMENT,
            f"metrics cannot be served on {host}:{port} ({error.strerror}); choose another --metrics-port",
            address=f"{host}:{port}",
        ) from error
    return int(server.server_port)
