"""The door's command line. Prints one JSON line: where it listens, or why it does not; then serves until its owner is gone.

A near door ends when its standard input does and leaves Ctrl-C to its client, which shares the terminal.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

import uvloop
from pathways_common.model.bounds import STOP_GRACE_NS
from pathways_common.model.failure import PathwaysError
from pathways_common.process.child import die_with_parent
from pathways_common.process.logs import setup

from pathways_door.devices import primary_count
from pathways_door.door import Door, DoorOptions
from pathways_door.transport import TransportName

# A door whose client is gone has so long to say goodbye and end.
_END_S = 4 * STOP_GRACE_NS / 1e9


def parse(arguments: Sequence[str] | None = None) -> DoorOptions:
    """Options from the command line, token and secret from the environment."""
    parser = argparse.ArgumentParser(prog="pathways_door", description="The door between stock JAX and a Pathways controller.")
    parser.add_argument("--controller", required=True, metavar="HOST:PORT")
    parser.add_argument("--listen", default="127.0.0.1:0", metavar="HOST:PORT")
    parser.add_argument("--islands", default="", help="comma-joined names, '*' for all; empty for the least loaded one")
    parser.add_argument("--client", default="", help="who this is, for people")
    parser.add_argument("--jaxlib-version", default="")
    parser.add_argument("--far", default="", metavar="TENANT", help="serve any client on loopback for this tenant")
    parser.add_argument(
        "--ifrt-transport",
        choices=[name.value for name in TransportName],
        default=os.environ.get("PATHWAYS_IFRT_TRANSPORT") or TransportName.HTTP2.value,
        help="what serves the client: this project's own HTTP/2 server, or gRPC's (default: %(default)s)",
    )
    options = parser.parse_args(arguments)
    transports = [name.value for name in TransportName]
    if options.ifrt_transport not in transports:
        names = " or ".join(transports)
        parser.error(f"PATHWAYS_IFRT_TRANSPORT is {options.ifrt_transport!r}; set it to {names}, or unset it")
    return DoorOptions(
        controller=options.controller,
        listen=options.listen,
        islands=tuple(name for name in options.islands.split(",") if name),
        client=options.client,
        jaxlib_version=options.jaxlib_version,
        far=options.far,
        token=os.environ.get("PATHWAYS_TOKEN") or None,
        tenant=os.environ.get("PATHWAYS_TENANT", ""),
        secret=os.environ.get("PATHWAYS_DOOR_SECRET") or None,
        transport=TransportName(options.ifrt_transport),
    )


async def serve(options: DoorOptions) -> int:
    """Runs one door; the exit code."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    reason = ["the door was stopped"]

    def stop(why: str) -> None:
        reason[0] = why
        stopped.set()

    loop.add_signal_handler(signal.SIGTERM, stop, "the door was asked to end")
    if not options.far:
        threading.Thread(target=_watch_stdin, args=(loop, stop), name="stdin", daemon=True).start()
    door = Door(options)
    starting = loop.create_task(door.start(), name="start")
    waiting = loop.create_task(stopped.wait(), name="stop")
    await asyncio.wait({starting, waiting}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():  # nobody waits for the session any more; it would stay until the controller answers
        starting.cancel()
        await asyncio.wait({starting}, timeout=STOP_GRACE_NS / 1e9)
        await door.stop(reason[0])
        return 1
    try:
        upstream = starting.result()
    except PathwaysError as error:
        _say({"failure": {"reason": error.failure.reason.value, "message": error.failure.message}})
        return 1
    number, devices = (upstream.welcome.session_number, primary_count(upstream.welcome)) if upstream else (0, 0)
    versions, differ = door.versions(upstream) if upstream else ("", [])
    _say({
        "address": door.address, "session_number": number, "devices": devices, "versions": versions, "differences": differ,
        "bulk": door.bulk_socket,
    })  # fmt: skip
    # What is there now stays. To look at all of it would keep the client waiting for tens of milliseconds.
    gc.freeze()
    await waiting
    await door.stop(reason[0])
    return 0


def _watch_stdin(loop: asyncio.AbstractEventLoop, stop: object) -> None:
    try:
        while os.read(0, 4096):
            pass
    except OSError:
        pass
    loop.call_soon_threadsafe(stop, "the client process ended")  # type: ignore[arg-type]
    time.sleep(_END_S)
    os._exit(1)  # nobody waits for it any more


def _say(line: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of `python -m pathways_door`."""
    die_with_parent(number=signal.SIGTERM)  # not SIGKILL: a client that was killed still wants its goodbye said
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    options = parse(arguments)
    setup("door")
    exit_code: int = uvloop.run(serve(options))
    return exit_code
