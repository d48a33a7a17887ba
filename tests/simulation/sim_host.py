"""A simulated host: a daemon whose connection and launch order are the project's own code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pathways_common.model.failure import Failure, Reason
from pathways_common.model.ids import FetchId, GlobalId, HostName, Sequence, SessionNumber, TransferId
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_worker.core import gang_queue

from tests.simulation import sim_holdings, sim_rescues, sim_stuck
from tests.simulation.sim_arithmetic import decode, encode
from tests.simulation.sim_cells import Cell, Gang
from tests.simulation.sim_executor import Executor
from tests.simulation.sim_images import COMPILER, HostImages
from tests.simulation.sim_memory import SpillStore

if TYPE_CHECKING:
    from tests.simulation.sim_cluster import Cluster


class SimHost:
    """The daemon: handles commands in order, sends events in order."""

    def __init__(self, cluster: Cluster, name: str, island: str, devices: int, memory: int) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.name = name
        self.island = island
        self.devices = devices
        self.memory = memory
        self.slow = 1.0
        self.up = False
        self.incarnation = 0
        self.end: Any = None
        self.executor: Executor | None = None
        self.queue = gang_queue.GangQueue()
        self.images = HostImages(self)
        self.store = SpillStore(self, cluster.spill_room)
        self.landed: dict[int, tuple[int | None, Failure | None]] = {}
        self.call_number = 0
        self.reported = (0, 0)
        self.inbox: list[tuple[Any, ...]] | None = None  # not None: the daemon is stopped

    # ---- towards the controller ----

    def report(self, event: events.Event, urgent: bool = False) -> None:
        if self.up:
            self.end.push(event, urgent)
            self.flush()

    def flush(self) -> None:
        if not self.up or self.inbox is not None:
            return
        executor = self.executor
        if executor is not None and executor.alive and (executor.launched_through, executor.finished) > self.reported:
            self.reported = (executor.launched_through, executor.finished)
            through = (Sequence(executor.finished), Sequence(executor.launched_through))
            self.end.push(events.HostProgressed(HostName(self.name), executor.epoch, *through, *executor.clock.tell()))
        self.end.flush()

    def call_client(self, executor: Executor, gang: Gang, answer: Callable[[int, Failure | None], None]) -> None:
        self.call_number += 1
        executor.calls[self.call_number] = (gang.session, answer)
        session, operand = SessionNumber(gang.session), encode(gang.program.callback)
        self.report(events.CallbackCalled(HostName(self.name), self.call_number, session, gang.callback_id, operand, 0))

    # ---- life ----

    def kill_executor(self) -> None:
        executor = self.executor
        if executor is not None and executor.alive:
            self.stop_executor()
            self.images.executor_died()
            through = (Sequence(executor.launched_through), Sequence(executor.finished))
            self.report(events.ExecutorLost(HostName(self.name), executor.epoch, "signal 9", "killed here", *through))

    def stop_executor(self) -> None:
        executor = self.executor
        if executor is not None and executor.alive:
            executor.alive = False
            executor.fabric.lose(executor.rank)
            self.cluster.retire_executor(self, executor)
        self.executor = None
        self.images.executor_changed()

    def is_busy(self) -> bool:
        """Whether its executor is in a collective, or stopped, and has not handled what it was told."""
        executor = self.executor
        return executor is not None and executor.alive and (executor.running or executor.stuck.stopped)

    def receive(self, commands: tuple[Any, ...]) -> None:
        if self.inbox is not None:
            self.inbox.append(commands)
            return
        for command in self.cluster.faults.maybe_swap(self.name, list(commands)):
            if not self.up:
                return
            self.handle(command)
            if self.cluster.faults.repeats_launch(command):
                self.repeat(command)
        self.flush()

    def repeat(self, command: Any) -> None:
        """The same again, a little later, to the same executor."""
        executor = self.executor

        def again() -> None:
            if executor is not None and executor is self.executor and not executor.stuck.keeps_command(self, command):
                self.execute(executor, command)

        self.world.soon(again, 0, 30)

    # ---- commands ----

    def handle(self, command: Any) -> None:
        self.world.look("commands")
        match command:
            case out.StartCoordinator():
                self.world.soon(lambda: self.coordinator_started(command), 0.5, 5)
            case out.EpochBegin():
                self.begin(command)
            case out.EpochEnd():
                sim_rescues.end(self, command)
            case out.Probe():
                sim_stuck.answer(self, command)
            case out.ReportHoldings():
                if self.executor is None or not self.executor.stuck.keeps_command(self, command):
                    sim_holdings.report(self, command)
            case out.OfferImage():
                self.images.offer(command)
            case out.DropSpilled():
                self.store.drop(command)
            case out.OpenCell() | out.CloseCell():
                self.cluster.isolation.handle(self, command)
            case out.ExpectUpload() | out.Shutdown() | out.Cancel() | out.Grant():
                pass
            case _:
                if self.executor is not None and not self.executor.stuck.keeps_command(self, command):
                    self.execute(self.executor, command)

    def coordinator_started(self, command: out.StartCoordinator) -> None:
        self.report(events.CoordinatorStarted(HostName(self.name), command.epoch, f"{self.name}:7", None))

    def begin(self, command: out.EpochBegin) -> None:
        self.stop_executor()
        self.cluster.isolation.begun(self.name)
        self.executor = executor = Executor(self, command, self.cluster.fabric(self.island, command.epoch))
        self.queue.step(gang_queue.EpochReset(command.epoch))
        self.landed.clear()
        self.reported = (0, 0)
        if self.cluster.faults.epoch_refused(self.name):
            failure = Failure(Reason.UNAVAILABLE, "port in use", host=self.name)
            self.report(events.EpochRefused(HostName(self.name), command.epoch, failure))
            return

        def enter() -> None:
            if executor.alive:
                kinds = ("device", "pinned_host")
                self.report(events.EpochEntered(HostName(self.name), command.epoch, "cpu", "sim", "cpu", kinds, COMPILER))

        self.world.soon(enter, 0.5, 8 * self.slow)

    def execute(self, executor: Executor, command: Any) -> None:
        match command:
            case out.Prepare():
                fresh = executor.prepared.setdefault(command.execution_id, command) is command
                prepared = gang_queue.Prepared(command.execution_id, command.sequence, command.previous, command.epoch)
                steps = self.queue.step(prepared)
                if fresh and any(isinstance(step, gang_queue.Ignored | gang_queue.Stop) for step in steps):
                    del executor.prepared[command.execution_id]  # sent again
                self.launch(executor, steps)
            case out.PlaceArray():
                shared: dict[int, Cell] = {}
                executor.arrays[command.buffer_id] = [self.piece(executor, piece, shared) for piece in command.pieces]
                executor.memory.placed(command)
            case out.PlaceView():
                executor.arrays[command.view_id] = [self.shard(executor, shard) for shard in command.shards]
                executor.memory.viewed(command)
            case out.Free():
                for identifier in command.ids:
                    self.cluster.isolation.freed(self.name, identifier)
                    if executor.arrays.pop(identifier, None) is None:
                        self.world.violate("commands", f"{self.name}: freed {identifier}, which is not there")
                    executor.memory.unname(identifier)
            case out.Poison():
                for identifier in command.ids:
                    for cell in executor.arrays.get(identifier, []):
                        cell.poison(command.failure)
            case out.Load():
                self.images.load(command)
            case out.Unload():
                self.images.unload(command)
                executor.loader.unload(command.executable_ids)
            case out.CancelTransfer():
                for transfer in command.transfer_ids:
                    executor.landing.pop(transfer, None)
                    self.landed[transfer] = (None, Failure(Reason.CANCELLED, "withdrawn"))
            case (
                out.LoadPlan()
                | out.GroupPlan()
                | out.UnloadPlan()
                | out.RunPlan()
                | out.GrantRun()
                | out.EndRun()
                | out.CollectTrace()
            ):
                executor.runs.handle(command)
            case out.SpillArray() | out.RestoreArray():
                self.store.handle(executor, command)
            case _:
                self.read(executor, command)

    def read(self, executor: Executor, command: Any) -> None:
        match command:
            case out.FetchShard():
                self.fetch(executor, command)
            case out.AwaitReady():
                self.wait(executor, command)
            case out.PullShard():
                self.world.soon(lambda: self.pull(executor, command), 0.1, 2 * self.slow)
            case out.InspectExecutable():
                known = command.executable_id in executor.executables
                failure = None if known else Failure(Reason.INTERNAL, "not loaded")
                self.report(events.ExecutableInspected(HostName(self.name), command.inspect_id, b"figures", failure))
            case out.CallbackReply():
                call = executor.calls.pop(command.call_id, None)
                if call is not None:
                    call[1](decode(command.results) if command.failure is None else 0, command.failure)
            case out.CallbackAbort():
                for number in [number for number, (session, _) in executor.calls.items() if session == command.session]:
                    executor.calls.pop(number)[1](0, Failure(Reason.CANCELLED, "the client is gone"))
            case _:
                raise AssertionError(f"unhandled {command}")

    def launch(self, executor: Executor, steps: list[Any]) -> None:
        for step in steps:
            match step:
                case gang_queue.Launch():
                    executor.launch(step.work)
                case gang_queue.AskAgain():
                    self.report(events.SequenceMissed(HostName(self.name), step.epoch, step.sequence))
                case gang_queue.Stop():
                    self.report(events.OrderBroken(HostName(self.name), executor.epoch, step.sequence, step.text))
                case _:
                    pass

    def shard(self, executor: Executor, shard: out.LocalShard) -> Cell:
        cells = executor.arrays.get(shard.id)
        if cells is None or shard.local_index >= len(cells):
            self.world.violate("commands", f"{self.name}: shard {shard.local_index} of {shard.id} is not there")
            return Cell()
        return cells[shard.local_index]

    def piece(self, executor: Executor, piece: out.LocalPiece, shared: dict[int, Cell]) -> Cell:
        """A value is one number here, so that whole shards move and never boxes; devices may share a transfer."""
        if piece.transfer_id in shared:
            return shared[piece.transfer_id]
        cell = Cell()
        if piece.inline is not None:
            cell.resolve(decode(piece.inline), None)
        elif piece.local is not None:
            source = self.shard(executor, piece.local)
            source.when_ready(lambda: cell.resolve(source.value if source.failure is None else None, source.failure))
        elif not piece.transfer_id:
            self.world.violate("commands", f"{self.name}: a piece of boxes")
        elif piece.transfer_id in self.landed:
            shared[piece.transfer_id] = cell
            cell.resolve(*self.landed.pop(piece.transfer_id))
        else:
            shared[piece.transfer_id] = cell
            executor.landing[piece.transfer_id] = cell
        return cell

    def land(self, executor: Executor | None, transfer: int, value: int | None, failure: Failure | None) -> None:
        """Bytes (or the news that there will be none) have come for a transfer."""
        if executor is None or not executor.alive or executor is not self.executor:
            return
        if executor.stuck.keeps(lambda: self.land(executor, transfer, value, failure)):
            return
        cell = executor.landing.pop(transfer, None)
        if cell is not None:
            cell.resolve(value, failure)
        elif transfer in self.landed:
            return  # withdrawn
        else:
            self.landed[transfer] = (value, failure)
        self.report(events.TransferLanded(HostName(self.name), TransferId(transfer), failure))

    def fetch(self, executor: Executor, command: out.FetchShard) -> None:
        cell = self.shard(executor, command.shard)
        if command.pull:
            executor.pulls[command.fetch_id] = self.cluster.stuck_hosts.kept(cell)
            self.world.after(command.timeout_ns + 10**10, lambda: executor.forget_pull(command.fetch_id))
            return

        def answer() -> None:
            if executor.alive:
                data = encode(cell.value or 0) if cell.failure is None else b""
                self.report(events.ShardFetched(HostName(self.name), command.fetch_id, data, cell.failure))

        cell.when_ready(lambda: self.world.soon(answer, 0.02, 1.0 * self.slow))

    def serve(self, fetch_id: int, take: Callable[[int | None, Failure | None], None], tries: int = 0) -> None:
        """Somebody pulls under a ticket, maybe before the command that names it has come; the value is read when it leaves."""
        executor = self.executor
        if executor is None or not self.up:
            take(None, Failure(Reason.UNAVAILABLE, f"{self.name} has no executor", host=self.name))
            return
        cell = executor.pulls.pop(fetch_id, None)
        if cell is None:
            if tries < self.cluster.stuck_hosts.early_tries:
                self.world.after(50_000_000, lambda: self.serve(fetch_id, take, tries + 1))
            else:
                take(None, Failure(Reason.UNAVAILABLE, f"no such ticket on {self.name}", host=self.name))
            return

        def leave() -> None:
            if not executor.alive:
                take(None, Failure(Reason.UNAVAILABLE, f"{self.name} went away", host=self.name))
                return
            take(cell.value if cell.failure is None else None, cell.failure)
            if cell.failure is not None or self.world.random.random() < 0.5:  # ends of pulls need not be reported
                self.report(events.ShardFetched(HostName(self.name), FetchId(fetch_id), b"", cell.failure))

        executor.host.cluster.when_ready_or_dead(executor, cell, lambda: self.world.soon(leave, 0.05, 2 * self.slow))

    def pull(self, executor: Executor, command: out.PullShard) -> None:
        if not executor.alive:
            return
        if self.cluster.faults.transfer_fails(self.name):
            self.land(executor, command.transfer_id, None, Failure(Reason.UNAVAILABLE, "connection reset", host=self.name))
            return
        source = self.cluster.hosts[command.source]
        source.serve(command.fetch_id, lambda value, failure: self.land(executor, command.transfer_id, value, failure))

    def wait(self, executor: Executor, command: out.AwaitReady) -> None:
        cells = [cell for identifier in command.ids for cell in executor.arrays.get(identifier, [])]
        if any(identifier not in executor.arrays for identifier in command.ids):
            self.world.violate("commands", f"{self.name}: waits for what is not there")
        state = {"left": len(cells)}

        def one() -> None:
            state["left"] -= 1
            if state["left"] <= 0 and executor.alive:
                failure = next((cell.failure for cell in cells if cell.failure is not None), None)
                self.report(events.BecameReady(HostName(self.name), command.wait_id, failure))

        for cell in cells:
            cell.when_ready(one)

    def leftovers(self) -> list[GlobalId]:
        """What an executor still holds."""
        executor = self.executor
        held = [*executor.arrays, *executor.loader.held(), *executor.memory.sizes] if executor is not None else []
        return [GlobalId(key) for key in [*held, *self.store.kept]]
