"""The coordination service of an epoch runs in a process of its own beside the daemon of rank 0, until the next epoch has begun.

The process prints one JSON line, `{"address": "HOST:PORT"}`, and ends when its standard input closes. An earlier one is kept
until then because its end aborts the executors that still use it.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence

from pathways_common.model.failure import Reason, fail
from pathways_common.process.logs import fields
from pathways_common.process.spawn import Child, start_child

from pathways_worker.shell.output_log import OutputLog, Tail

_LOG = logging.getLogger(__name__)
_READY_TIMEOUT_S = 30.0
_LAST_WORDS_S = 0.5


class Coordinators:
    """The coordinator processes of this host; the newest is the one that counts."""

    def __init__(self, command: Sequence[str], address: str, environment: Mapping[str, str], log: OutputLog) -> None:
        """`address` is where the hosts of the island reach this one."""
        self._command = command
        self._address = address
        self._environment = environment
        self._log = log
        self._processes: list[Child] = []
        self._copying: set[asyncio.Task[None]] = set()

    async def start(self, rank_count: int) -> str:
        """The address of a new service; raises PathwaysError (UNAVAILABLE) if it does not come up."""
        tail = Tail()
        try:
            process = await start_child(
                [*self._command, "--ranks", str(rank_count), "--host", self._address],
                self._environment,
                errors_apart=True,
                keep_stdin=True,
            )
        except OSError as error:
            raise fail(Reason.UNAVAILABLE, f"the coordinator could not be started ({error.strerror})") from error
        self._processes.append(process)
        copying = asyncio.create_task(self._log.copy(process.errors, tail), name="coordinator output")
        self._copying.add(copying)
        copying.add_done_callback(self._copying.discard)
        address = await self._first_line(process)
        if address:
            _LOG.info("coordinator up", extra=fields(address=address, ranks=rank_count, pid=process.pid))
            return address
        self._kill(process)
        await asyncio.wait((copying,), timeout=_LAST_WORDS_S)
        last = (tail.text().splitlines() or ["it said nothing"])[-1]
        raise fail(Reason.UNAVAILABLE, f"the coordinator did not come up: {last}", retryable=True)

    async def _first_line(self, process: Child) -> str:
        try:
            answer = json.loads(await asyncio.wait_for(process.output.readline(), _READY_TIMEOUT_S))
        except (TimeoutError, ValueError):
            return ""
        address = answer.get("address") if isinstance(answer, dict) else None
        return address if isinstance(address, str) else ""

    def pids(self) -> list[int]:
        """The processes that run."""
        return [process.pid for process in self._processes if not process.ended]

    def retire(self) -> None:
        """A new epoch has begun: ends all but the newest."""
        for process in self._processes[:-1]:
            self._kill(process)

    def kill(self) -> None:
        """Ends all of them now."""
        for process in list(self._processes):
            self._kill(process)

    def kill_in(self, delay_s: float) -> None:
        """Ends those that are there now, after a while; those that come meanwhile stay."""
        for process in list(self._processes):
            if delay_s:
                asyncio.get_running_loop().call_later(delay_s, self._kill, process)
            else:
                self._kill(process)

    def _kill(self, process: Child) -> None:
        if process in self._processes:
            self._processes.remove(process)
        process.kill()
