"""The sidecar: runs one session's colocated Python beside an executor, which starts it and with which it ends.

Its devices stand for those of the host. Nothing of the cluster is known here but the socket to the executor.
"""

from __future__ import annotations

import argparse
import os
import socket

from pathways_common.process.child import die_with_parent


def main() -> None:
    """Serves calls until the executor closes the socket."""
    die_with_parent()
    parser = argparse.ArgumentParser(prog="python -m pathways_worker.sidecar", description=__doc__)
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--device-count", type=int, default=1)
    arguments = parser.parse_args()
    channel = socket.socket(fileno=arguments.fd)
    # Processes that users' Python starts have no business with it.
    channel.set_inheritable(False)
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["JAX_NUM_CPU_DEVICES"] = str(arguments.device_count)

    # Only now: these import jax, which takes about a second and reads the environment.
    from pathways_worker.sidecar.serving import Server

    Server(channel).run()
    # Not a clean-up: threads of the user's may be at work, and nobody waits for them.
    os._exit(0)


if __name__ == "__main__":
    main()
