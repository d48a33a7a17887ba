"""Hosts that only acknowledge: many in one process, each with the worker's own link to the controller, none with an executor.

What a host does not compute it still checks: plans are worked out and launches ordered by the worker's own core, so that a wrong
order stops the host as it would a real one. Everything granted counts as launched and finished at once; moves bring nothing. The
"module" that such a host loads is the ExecutableInfo that a real one would answer with. Values read are zeros.

`acknowledging_hosts.py [--certificate FILE] CONTROLLER STATE_DIR NAME...`, each NAME an `island/host`; prints `joined` when all
of them have.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, cast

import uvloop
from pathways_common.model.ids import Epoch, GlobalId, Sequence
from pathways_common.rpc.version import pathways_version
from pathways_proto.v1 import types_pb2, workers_pb2
from pathways_worker.core.frame_clock import FrameClock
from pathways_worker.core.gang_queue import AskAgain, EpochReset, GangQueue, Granted, Launch, Prepared, RunRange, Stop
from pathways_worker.core.plans import HostPlan, host_plan, understood
from pathways_worker.plan_messages import read_plan
from pathways_worker.rpc.controller_link import ControllerLink
from pathways_worker.shell.counters import Counters
from pathways_worker.shell.uplink import Uplink
from pathways_worker.shell.wire import COMMAND, ControllerFrame

W = workers_pb2
_NAMES = {number: name for name, number in COMMAND.items()}
_INLINE = bytes(4)


class NoExecutors:
    """Where an agent keeps its executors."""

    async def wait_gone(self, _timeout_s: float) -> None:
        """There are none."""


class AcknowledgingHost:
    """In the place of the worker's HostAgent."""

    def __init__(self, host: str) -> None:
        self.pool = NoExecutors()
        self.finished_through = self.launched_through = self.busy_ns = 0
        self._host = host
        self._uplink: Uplink
        self._clock = FrameClock()
        self._queue = GangQueue()
        self._plans: dict[int, HostPlan] = {}
        # Of a run that is granted in part: its plan and the first step that is not.
        self._runs: dict[int, tuple[HostPlan, int]] = {}

    @property
    def acknowledged(self) -> int:
        return self._clock.acknowledged

    def take_times(self) -> list[bytes]:
        return []

    def open(self, uplink: Uplink) -> None:
        self._uplink = uplink
        self._clock = FrameClock()
        self._queue = GangQueue()
        self._plans.clear()
        self.finished_through = self.launched_through = 0

    def close(self) -> None:
        self._runs.clear()

    def on_frame(self, frame: ControllerFrame) -> None:
        for command in frame.commands or ():
            name = _NAMES[command.kind]
            handler = getattr(self, f"_on_{name}", None)
            if handler is not None:
                handler(getattr(W.HostCommand.FromString(command.data), name))
        self._clock.handled(frame.sequence)
        self._uplink.wake()

    def _say(self, **event: Any) -> None:
        self._uplink.push(W.HostEvent(**event).SerializeToString())

    # ---- membership and programs ------------------------------------------------------------------------------------

    def _on_start_coordinator(self, command: W.StartCoordinator) -> None:
        self._say(coordinator_ready=W.CoordinatorReady(epoch=command.epoch, address="127.0.0.1:1"))

    def _on_epoch_begin(self, command: W.EpochBegin) -> None:
        self._queue.step(EpochReset(Epoch(command.epoch)))
        self._plans.clear()
        self.finished_through = self.launched_through = 0
        self._uplink.restart_progress()
        ready = W.EpochReady(epoch=command.epoch, platform="cpu", device_kind="none", memory_kinds=["device"])
        self._say(epoch_ready=ready)

    def _on_load(self, command: W.Load) -> None:
        info = types_pb2.ExecutableInfo.FromString(command.program)
        self._say(loaded=W.Loaded(executable_id=command.executable_id, epoch=command.epoch, info=info))

    def _on_load_plan(self, command: W.LoadPlan) -> None:
        plan = read_plan(command)
        mine = self._plans[command.plan_id] = host_plan(plan, self._host)
        answer = W.PlanLoaded(plan_id=command.plan_id, epoch=mine.epoch)
        answer.fields.extend(types_pb2.FieldDigest(name=name, digest=digest) for name, digest in understood(plan, mine))
        self._say(plan_loaded=answer)

    def _on_unload_plan(self, command: W.UnloadPlan) -> None:
        for plan_id in command.plan_ids:
            self._plans.pop(plan_id, None)

    # ---- work -------------------------------------------------------------------------------------------------------

    def _on_prepare(self, command: W.Prepare) -> None:
        sequence, previous = Sequence(command.sequence), Sequence(command.previous)
        self._carry_out(self._queue.step(Prepared(GlobalId(command.execution_id), sequence, previous, Epoch(command.epoch))))

    def _on_grant(self, command: W.Grant) -> None:
        sequence, previous = Sequence(command.sequence), Sequence(command.previous)
        self._carry_out(self._queue.step(Granted(GlobalId(command.execution_id), sequence, previous, Epoch(command.epoch))))

    def _on_run_plan(self, command: W.RunPlan) -> None:
        self._range(command, self._plans[command.plan_id], 0)

    def _on_grant_run(self, command: W.GrantRun) -> None:
        plan, first_step = self._runs[command.execution_id]
        if first_step != command.first_step:
            sys.exit(f"host {self._host}: the grant of run {command.execution_id} begins at step {command.first_step}, "
                     f"and the one before it ended at {first_step}")  # fmt: skip
        self._range(command, plan, first_step)

    def _range(self, command: Any, plan: HostPlan, first_step: int) -> None:
        end_step = command.end_step
        if end_step < plan.step_count:
            self._runs[command.execution_id] = plan, end_step
        else:
            self._runs.pop(command.execution_id, None)
        first, last = plan.own_sequences(first_step, end_step, command.sequence)
        if first:
            work = RunRange(GlobalId(command.execution_id), first_step, end_step)
            previous, epoch = Sequence(command.previous), Epoch(command.epoch)
            self._carry_out(self._queue.step(Prepared(work, Sequence(first), previous, epoch, Sequence(last))))

    def _on_end_run(self, command: W.EndRun) -> None:
        self._runs.pop(command.execution_id, None)

    def _carry_out(self, effects: list[Any]) -> None:
        for effect in effects:
            match effect:
                case Launch():
                    self.launched_through = self.finished_through = self._queue.last
                case AskAgain(sequence, epoch):
                    self._say(missing=W.Missing(sequence=sequence, epoch=epoch))
                case Stop(sequence, text):
                    self._say(contradiction=W.Contradiction(epoch=self._queue.epoch, sequence=sequence, text=text))
                case _:
                    sys.exit(f"host {self._host}: {effect}")

    # ---- values -----------------------------------------------------------------------------------------------------

    def _on_place_array(self, command: W.PlaceArray) -> None:
        if command.transfer_id:
            self._say(landed=W.Landed(transfer_id=command.transfer_id))

    def _on_await_ready(self, command: W.AwaitReady) -> None:
        self._say(became_ready=W.BecameReady(wait_id=command.wait_id))

    def _on_fetch_shard(self, command: W.FetchShard) -> None:
        self._say(shard_fetched=W.ShardFetched(fetch_id=command.fetch_id, data=_INLINE))


async def serve(controller: str, secret: str, names: list[str]) -> None:
    """Plays the hosts until the controller is gone."""
    joined = 0

    def on_joined() -> None:
        nonlocal joined
        joined += 1
        if joined == len(names):
            print("joined", flush=True)

    async def play(name: str) -> None:
        island, _, host = name.partition("/")

        def hello(last_term: int) -> W.WorkerHello:
            return W.WorkerHello(
                host=host, island=island, pathways_version=pathways_version(), device_count=1,
                data_address="127.0.0.1:1", pid=os.getpid(), last_term=last_term,
            )  # fmt: skip

        agent = cast("Any", AcknowledgingHost(host))
        await ControllerLink(controller, secret, hello, 60, agent, Counters(), on_joined).run()

    await asyncio.gather(*map(play, names))


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    arguments = sys.argv[1:]
    if arguments[0] == "--certificate":
        from tls_links import secure_links

        secure_links(Path(arguments[1]))
        del arguments[:2]
    controller, state, *names = arguments
    uvloop.run(serve(controller, (Path(state) / "secret").read_text().strip(), names))


if __name__ == "__main__":
    main()
