"""pathways-server: the controller daemon. What goes wrong at the start is one sentence on stderr and a non-zero exit code."""

from __future__ import annotations

import os
import sys

import uvloop
from pathways_common.model.failure import PathwaysError
from pathways_common.process.condition import keep_stacks
from pathways_common.process.logs import setup
from pathways_common.process.tasks import TaskFailed


def main() -> None:
    """Runs until SIGTERM or SIGINT; exits 1 on any failure."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of one life of the daemon."""
    # gRPC reads these when it is first imported: its own lines, and its handlers at fork, would only disturb.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    from pathways_server.app import serve
    from pathways_server.config import parse_arguments

    try:
        config = parse_arguments(arguments, os.environ)
        setup("pathways-server")
        keep_stacks(2)
        uvloop.run(serve(config))
    except PathwaysError as error:
        sys.stderr.write(f"pathways-server: {error.failure.message}\n")
        return 1
    except TaskFailed as error:
        cause = error.__cause__
        sentence = (
            cause.failure.message if isinstance(cause, PathwaysError) else f"stopped because {error.name} failed; see its log"
        )
        sys.stderr.write(f"pathways-server: {sentence}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    main()
