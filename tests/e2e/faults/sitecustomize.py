"""Faults for a cluster that a test starts with this folder in its PYTHONPATH; nothing in the product knows of them.

SWAPPED_LAUNCHES=HOST:PROBABILITY: on the way from the daemon of that host to its executor, a launch changes places with the next
one with this probability. Frees are put off behind the two; any other command, or a moment in which none comes, ends the wait.
UNCHECKED_ORDER: executors launch gangs as they arrive. MISREAD_PLANS=HOST: the executor of that host takes every launch of a plan
for the node behind it. OTHER_FLAGS=HOST: the executor of that host compiles with another flag. LOST_LAUNCHES=HOST:FILE: while the
file is there, nothing that launches passes the daemon of that host, and what is sent again for that does not either.
DATA_AT=ADDRESS: daemons say that their data is at this address, behind which a proxy can stand.
JOURNAL_IN_MEMORY: the controller forgets everything when it ends. ENDS_AT_WRITE=POINT:FILE: while the file is there, the
controller kills itself when a write of its journal reaches this point (`pathways_server.shell.journal.Point`).
ENDS_AT_LOG=WHEN:FILE: once the file is there, the controller takes it away and kills itself at the next write of what its core
was told: WRITING, before a byte is written; WRITTEN, before anything that was decided leaves; SENT, when it has left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_WAIT_S = 0.02


def _swap_launches(probability: float) -> None:
    """Puts a `_Swapper` before whatever the daemon sends to its executor."""
    import asyncio
    import random

    from pathways_worker.shell import host_agent
    from pathways_worker.shell.wire import COMMAND, Item, executor_commands

    draw = random.Random(2026)
    launches, frees = {COMMAND["prepare"]}, {COMMAND["free"]}
    apart = {COMMAND["callback_reply"], COMMAND["callback_abort"]}

    class _Swapper:
        """`held` is a launch that waits for the next one, and what came behind it."""

        def __init__(self) -> None:
            self.held: list[Item] = []
            self.agent: Any = None

        def pass_on(self, frame: int, commands: Iterable[Item]) -> bytes:
            """In place of `executor_commands`."""
            passed: list[Item] = []
            for command in commands:
                if command.kind in apart:
                    passed.append(command)
                elif self.held and command.kind in launches:
                    passed += [command, *self._let_go()]
                    print("launches swapped", file=sys.stderr, flush=True)
                elif self.held and command.kind in frees:
                    self.held.append(command)
                elif not self.held and command.kind in launches and draw.random() < probability:
                    self.held = [command]
                    asyncio.get_running_loop().call_later(_WAIT_S, self._give_up, command)
                else:
                    passed += [*self._let_go(), command]
            return executor_commands(frame, passed)

        def _let_go(self) -> Sequence[Item]:
            held, self.held = self.held, []
            return held

        def _give_up(self, first: Item) -> None:
            if self.held and self.held[0] is first and self.agent.pool.current is not None:
                self.agent.pool.current.send_commands(executor_commands(0, self._let_go()))

    swapper, on_frame = _Swapper(), host_agent.HostAgent.on_frame

    def on_frame_of(agent: Any, frame: Any) -> None:
        swapper.agent = agent
        on_frame(agent, frame)

    host_agent.HostAgent.on_frame = on_frame_of  # type: ignore[method-assign]
    host_agent.executor_commands = swapper.pass_on  # type: ignore[assignment]


def _lose_launches(file: str) -> None:
    from pathways_worker.shell import host_agent
    from pathways_worker.shell.wire import COMMAND, Item, executor_commands

    launches = {COMMAND[name] for name in ("prepare", "grant", "run_plan", "grant_run")}

    def pass_on(frame: int, commands: Iterable[Item]) -> bytes:
        """In place of `executor_commands`."""
        lost = os.path.exists(file)
        return executor_commands(frame, [command for command in commands if not (lost and command.kind in launches)])

    host_agent.executor_commands = pass_on  # type: ignore[assignment]


def _misread_plans() -> None:
    from dataclasses import replace

    from pathways_worker import plan_messages

    read = plan_messages._launch
    plan_messages._launch = lambda launch: replace(read(launch), node=launch.node + 1)


def _tell_ends_in_order() -> None:
    """What ends out of the order is not told: the controller ends the link of a host that tells of it, and with it the test."""
    from pathways_worker.executor.progress import FINISHED
    from pathways_worker.executor.window import Window

    pop = Window._pop

    def pop_in_order(window: Any) -> None:
        finished, timed = window._numbers[FINISHED], window._entries[0].timed
        pop(window)
        if window._numbers[FINISHED] < finished:
            window._numbers[FINISHED] = finished
            if timed:
                window.times.pop()

    Window._pop = pop_in_order  # type: ignore[method-assign]


def _end_at_write(name: str, file: str) -> None:
    import signal

    from pathways_server.shell.journal import Journal, Point

    def reached(_journal: Journal, point: Point) -> None:
        if point is Point[name] and os.path.exists(file):
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.reached = reached  # type: ignore[method-assign]


def _end_at_log(when: str, file: str) -> None:
    import asyncio
    import signal

    from pathways_server.shell.event_log import EventLog

    write = EventLog._write

    def end() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def write_and_end(log: Any, body: bytes) -> None:
        armed = os.path.exists(file)
        if armed:
            os.unlink(file)
        if armed and when == "WRITING":
            end()
        write(log, body)
        if armed and when == "WRITTEN":
            end()
        if armed and when == "SENT":  # what leaves at the end of this turn of the event loop goes before
            running = asyncio.get_running_loop()
            running.call_soon(running.call_soon, end)

    EventLog._write = write_and_end  # type: ignore[method-assign]


def _say_data_is_at(address: str) -> None:
    from pathways_worker import app

    bind = app._bind
    app._bind = lambda server, listen: f"{address}:{bind(server, listen).rpartition(':')[2]}"


def _keep_the_journal_in_memory() -> None:
    import sqlite3

    connect = sqlite3.connect
    sqlite3.connect = lambda _path, **options: connect(":memory:", **options)  # type: ignore[assignment]


def _install() -> None:
    words = f"{' '.join(sys.orig_argv)} "
    executor = "pathways_worker.executor" in words
    host, _, probability = os.environ.get("SWAPPED_LAUNCHES", "").partition(":")
    if host and "pathways_worker.main" in words and f"--host {host} " in words:
        _swap_launches(float(probability))
    host, _, file = os.environ.get("LOST_LAUNCHES", "").partition(":")
    if host and "pathways_worker.main" in words and f"--host {host} " in words:
        _lose_launches(file)
    controller = "pathways_server" in words or "pathways-server" in words
    if os.environ.get("JOURNAL_IN_MEMORY") and controller:
        _keep_the_journal_in_memory()
    point, _, file = os.environ.get("ENDS_AT_WRITE", "").partition(":")
    if point and controller:
        _end_at_write(point, file)
    when, _, file = os.environ.get("ENDS_AT_LOG", "").partition(":")
    if when and controller:
        _end_at_log(when, file)
    if os.environ.get("DATA_AT") and not executor and "pathways-worker" in words:
        _say_data_is_at(os.environ["DATA_AT"])
    if executor and f"--host {os.environ.get('MISREAD_PLANS')} " in words:
        _misread_plans()
    if executor and f"--host {os.environ.get('OTHER_FLAGS')} " in words:
        os.environ["XLA_FLAGS"] += " --xla_cpu_enable_fast_min_max=true"
    if executor and os.environ.get("UNCHECKED_ORDER"):
        from pathways_worker.executor.__main__ import NO_ORDER_CHECK

        os.environ[NO_ORDER_CHECK] = "1"
        _tell_ends_in_order()


_install()
