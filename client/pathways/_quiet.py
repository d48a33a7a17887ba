"""gRPC's core speaks to stderr of connections that end; in a user's process it is silent unless the user chose its level.

The level is read once, when the core starts, so the environment is changed for that moment only.
"""

from __future__ import annotations

import os
import sys

_LEVEL = "GRPC_VERBOSITY"


def load_grpc() -> None:
    """Imports and starts gRPC quietly; does nothing if it is there already, or if the user set GRPC_VERBOSITY."""
    if "grpc" in sys.modules or _LEVEL in os.environ:
        return
    os.environ[_LEVEL] = "NONE"
    try:
        import grpc

        grpc.insecure_channel("127.0.0.1:1").close()  # starts the core; dials nothing
    finally:
        del os.environ[_LEVEL]
