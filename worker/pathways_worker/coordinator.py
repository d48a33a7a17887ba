"""The coordination service of one epoch, in a process of its own: its end aborts every executor that is attached to it.

Prints `{"address": "HOST:PORT"}` once it listens and ends when its standard input closes or its parent is gone.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys

from pathways_common.process.child import die_with_parent

# Who is stuck the controller finds out, with a name; the service would abort whoever still waits for it, at a moment of its own.
HEARTBEAT_TIMEOUT_S = 3600
SHUTDOWN_TIMEOUT_S = 2
# A port that somebody takes between our look and the service's bind is replaced by another one.
ATTEMPTS = 5


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def main() -> None:
    """Serves until standard input closes."""
    die_with_parent()
    parser = argparse.ArgumentParser(prog="python -m pathways_worker.coordinator", description=__doc__)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--host", default="127.0.0.1", help="address that all hosts of the island reach")
    arguments = parser.parse_args()

    from jaxlib import _jax

    for attempt in range(ATTEMPTS):
        address = f"{arguments.host}:{_free_port(arguments.host)}"
        try:
            service = _jax.get_distributed_runtime_service(
                address,
                arguments.ranks,
                heartbeat_timeout=HEARTBEAT_TIMEOUT_S,
                shutdown_timeout=SHUTDOWN_TIMEOUT_S,
                recoverable=True,
            )
            break
        except Exception as error:
            if attempt == ATTEMPTS - 1:
                sys.exit(f"the coordination service could not listen on {arguments.host}: {error}")
    print(json.dumps({"address": address}), flush=True)
    sys.stdin.read()
    del service
    os._exit(0)


if __name__ == "__main__":
    main()
