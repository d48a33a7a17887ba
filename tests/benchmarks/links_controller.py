"""The controller for benchmarks of links: `links_controller.py [--certificate FILE] FLAGS...`, flags as of pathways-server."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import uvloop
from pathways_server.app import App
from pathways_server.config import parse_arguments


async def serve(arguments: list[str]) -> None:
    """As the daemon does it."""
    if arguments[0] == "--certificate":
        # Not needed, and not imported, without it.
        from tls_links import SecureApp

        app: App = SecureApp(parse_arguments(arguments[2:], os.environ), Path(arguments[1]))
    else:
        app = App(parse_arguments(arguments, os.environ))
    await app.start()
    print(f"listening grpc://{app.address}", flush=True)
    await app.run()


if __name__ == "__main__":
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    uvloop.run(serve(sys.argv[1:]))
