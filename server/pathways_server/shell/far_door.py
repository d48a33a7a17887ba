"""The controller's own door for clients that have nothing but stock JAX: a child process, started again when it ends.

It ends with the controller: its standard input closes, and the kernel kills it with its parent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from typing import Any

from pathways_common.model.failure import Reason, fail
from pathways_common.process.logs import fields
from pathways_common.process.spawn import Child, start_child

_LOG = logging.getLogger(__name__)
_READY_TIMEOUT_S = 30.0
_RESTART_PAUSE_S = 1.0
_END_TIMEOUT_S = 3.0
_MISSING = (
    "clients of the controller's door have no token and no encryption of their own, lose their session with their connection, "
    "and move all bytes through this machine; run `pathways run` or pathways.connect() beside the client where that is possible"
)


async def run_far_door(port: int, controller: str, token: str | None, tenant: str = "default") -> None:
    """Keeps the door running until cancelled; raises PathwaysError if it cannot be started at all.

    `tenant`: whose sessions its clients open.
    """
    started_once = False
    while True:
        process = await _start(port, controller, token, tenant)
        try:
            answer = await _first_line(process)
            if "address" in answer:
                _LOG.info("door listening", extra=fields(address=answer["address"]))
                if not started_once:
                    _LOG.warning("stock clients", extra=fields(note=_MISSING))
                started_once = True
                code = await process.wait()
                _LOG.error("door ended", extra=fields(exit=code))
            elif not started_once:
                sentence = (answer.get("failure") or {}).get("message") or "it ended without a word"
                raise fail(Reason.UNAVAILABLE, f"the door on 127.0.0.1:{port} could not be started: {sentence}", port=port)
        finally:
            await _end(process)
        await asyncio.sleep(_RESTART_PAUSE_S)


async def _start(port: int, controller: str, token: str | None, tenant: str) -> Child:
    environment = {name: value for name, value in os.environ.items() if name != "PATHWAYS_TOKEN"}
    if token:
        environment["PATHWAYS_TOKEN"] = token
    arguments = ("-m", "pathways_door", "--far", tenant, "--listen", f"127.0.0.1:{port}", "--controller", controller)
    return await start_child((sys.executable, *arguments), environment, keep_stdin=True, inherit_errors=True)


async def _first_line(process: Child) -> dict[str, Any]:
    try:
        line = await asyncio.wait_for(process.output.readline(), _READY_TIMEOUT_S)
        answer = json.loads(line)
    except (TimeoutError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


async def _end(process: Child) -> None:
    if process.ended:
        return
    process.close_stdin()
    try:
        await asyncio.wait_for(process.wait(), _END_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
