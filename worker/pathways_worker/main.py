"""pathways-worker: the daemon of one host. What goes wrong at the start is one sentence on stderr and a non-zero exit code."""

from __future__ import annotations

import os
import sys

import uvloop
from pathways_common.model.failure import PathwaysError, Reason, fail
from pathways_common.model.jaxlibs import unusable_on_host
from pathways_common.process.condition import keep_stacks
from pathways_common.process.logs import setup
from pathways_common.process.tasks import TaskFailed
from pathways_common.rpc.version import own_versions

from pathways_worker.app import serve
from pathways_worker.config import parse_arguments


def main() -> None:
    """Runs until SIGTERM, SIGINT or the controller's word; exits 1 on any failure."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """The exit code of one life of the daemon."""
    try:
        config = parse_arguments(arguments, os.environ)
        setup("pathways-worker")
        if unusable := unusable_on_host(own_versions(with_jax=True).jaxlib):
            raise fail(Reason.VERSION_MISMATCH, unusable)
        keep_stacks(2)
        uvloop.run(serve(config))
    except PathwaysError as error:
        sys.stderr.write(f"pathways-worker: {error.failure.message}\n")
        return 1
    except TaskFailed as error:
        sys.stderr.write(f"pathways-worker: stopped because {error.name} failed; see its log\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    main()
