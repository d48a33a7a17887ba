"""Plans and runs for executors under test: the messages that a controller would send, and the daemons between two of them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from pathways_proto.v1 import types_pb2, workers_pb2
from pathways_worker.core.plans import HostPlan, fetch_number, host_plan, transfer_number
from pathways_worker.executor.frames import write_frame
from pathways_worker.plan_messages import read_plan

from tests.unit.executor.driving import Executor, identifier, sharded

F32 = 11
RUN_SESSION = 9
_NUMBERS = itertools.count(1)
TIMEOUT_NS = 60 * 10**9


def spec_of(shape: tuple[int, ...], cut: Sequence[Any], hosts: Sequence[int], local_devices: Sequence[int] | None = None) -> Any:
    """A PlanSpec of float32 on one device per entry of `hosts`."""
    sharding = sharded(cut, len(hosts))
    message = sharding._to_xla_hlo_sharding(len(shape)).to_proto().SerializeToString()
    spec = types_pb2.ArraySpec(
        dtype=F32, shape=shape, sharding=message, shard_shape=sharding.shard_shape(shape), devices=range(len(hosts))
    )
    return workers_pb2.PlanSpec(spec=spec, hosts=hosts, local_devices=local_devices or [0] * len(hosts))


class Program:
    """A plan in the making. `hosts` are (name, island)."""

    def __init__(
        self, hosts: Sequence[tuple[str, str]], arguments: int, slots: int, results: Sequence[int], epoch: int = 1
    ) -> None:
        self.message = workers_pb2.LoadPlan(
            plan_id=next(_NUMBERS),
            hosts=[
                workers_pb2.PlanHost(name=name, island=island, epoch=epoch, data_address=f"127.0.0.1:{9000 + at}")
                for at, (name, island) in enumerate(hosts)
            ],
            argument_count=arguments,
            slot_count=slots,
            results=results,
            name="train",
        )

    def launch(
        self,
        executable_id: int,
        arguments: Sequence[int],
        results: Sequence[int],
        hosts: Sequence[int] = (0,),
        kept: Sequence[int] = (),
    ) -> Program:
        step = self.message.steps.add().launch
        step.node = len(self.message.steps)
        step.executable_id = executable_id
        step.arguments.extend(arguments)
        step.results.extend(results)
        step.hosts.extend(hosts)
        step.non_donatable.extend(kept)
        return self

    def move(self, source: int, destination: int, source_spec: Any, destination_spec: Any) -> Program:
        count = len(self.message.specs)
        self.message.specs.extend([source_spec, destination_spec])
        move = self.message.steps.add().move
        move.source, move.destination, move.source_spec, move.destination_spec = source, destination, count, count + 1
        return self

    def free(self, *slots: int) -> Program:
        self.message.steps.add().free.slots.extend(slots)
        return self

    def group(
        self, first: int, end: int, executable_id: int, arguments: Sequence[int], results: Sequence[int], kept: Sequence[int] = ()
    ) -> Any:
        """The GroupPlan with one group: an executable for the launches among some steps."""
        steps = self.message.steps[first:end]
        nodes = [step.launch for step in steps if step.HasField("launch")]
        launch = workers_pb2.PlanLaunch(
            node=nodes[0].node,
            executable_id=executable_id,
            arguments=arguments,
            results=results,
            non_donatable=kept,
            hosts=nodes[0].hosts,
        )
        group = workers_pb2.PlanGroup(first_step=first, end_step=end, launch=launch, last_node=nodes[-1].node)
        return workers_pb2.HostCommand(group_plan=workers_pb2.GroupPlan(plan_id=self.message.plan_id, groups=[group]))

    def load(self, *executors: Executor) -> None:
        for executor in executors:
            executor.send(workers_pb2.HostCommand(load_plan=self.message))

    def share(self, host: str) -> HostPlan:
        return host_plan(read_plan(self.message), host)


class Run:
    """One run of a program; the same ids on every host."""

    def __init__(
        self, program: Program, arguments: Sequence[int], donated: Sequence[int] = (), timeout_ns: int = TIMEOUT_NS
    ) -> None:
        self.program = program
        self.number = next(_NUMBERS)
        self.execution_id = identifier(self.number << 20, RUN_SESSION)
        self.first_result_id = self.execution_id + 1
        self.first_value_id = RUN_SESSION << 40 | 1 << 39 | self.number << 20
        self.arguments = list(arguments)
        self.donated = donated
        self.timeout_ns = timeout_ns
        self.steps = len(program.message.steps)

    def command(
        self,
        end: int | None = None,
        sequence: int = 1,
        previous: int = 0,
        epoch: int = 1,
        fused: bool = False,
        timed: bool = False,
    ) -> Any:
        """The RunPlan with its first grant."""
        run = workers_pb2.RunPlan(
            execution_id=self.execution_id,
            plan_id=self.program.message.plan_id,
            arguments=self.arguments,
            first_result_id=self.first_result_id,
            first_value_id=self.first_value_id,
            donated=self.donated,
            ticket_key=b"key",
            number=self.number,
            timeout_ns=self.timeout_ns,
            end_step=self.steps if end is None else end,
            sequence=sequence,
            previous=previous,
            epoch=epoch,
            fused=fused,
            timed=timed,
        )
        return workers_pb2.HostCommand(run_plan=run)

    def grant(self, first: int, end: int, sequence: int, previous: int, epoch: int = 1, fused: bool = False) -> Any:
        grant = workers_pb2.GrantRun(
            execution_id=self.execution_id,
            first_step=first,
            end_step=end,
            sequence=sequence,
            previous=previous,
            epoch=epoch,
            fused=fused,
        )
        return workers_pb2.HostCommand(grant_run=grant)

    def end(self, text: str = "the run cannot go on") -> Any:
        failure = types_pb2.Failure(reason="SLICE_LOST", message=text)
        return workers_pb2.HostCommand(end_run=workers_pb2.EndRun(execution_id=self.execution_id, failure=failure))

    def value(self, slot: int) -> int:
        return self.first_value_id + slot

    def result(self, position: int = 0) -> int:
        return self.first_result_id + position

    def transfer(self, count: int) -> int:
        return transfer_number(self.number, count)

    def fetch(self, count: int) -> int:
        return fetch_number(self.number, count)

    def trace(self, executor: Executor) -> Any:
        """The executor's TraceCollected of this run."""
        ask = workers_pb2.CollectTrace(trace_id=self.number, execution_id=self.execution_id)
        executor.send(workers_pb2.HostCommand(collect_trace=ask))
        return executor.event("trace_collected", trace_id=self.number)


def relay(run: Run, source: Executor, source_host: str, destination: Executor, destination_host: str) -> int:
    """Plays both daemons: everything that `destination` pulls from `source` in this run; how many bytes that was."""
    wanted = {pull.ticket_text: pull.number for pull in run.program.share(destination_host).pulls}
    sends = {run.fetch(send.number): send.ticket_text for send in run.program.share(source_host).sends}
    size = 0
    for _ in range(len(sends)):
        header, data = source.read_data()
        text = sends.pop(header.fetch_id)
        if header.HasField("failure"):
            send_failure(destination, run.transfer(wanted.pop(text)), header.failure)
        else:
            destination.send_data(run.transfer(wanted.pop(text)), data)
        size += len(data)
    return size


def send_failure(executor: Executor, transfer_id: int, failure: Any) -> None:
    """What a daemon says when a pull failed."""
    header = workers_pb2.ExecutorDataHeader(transfer_id=transfer_id, failure=failure)
    write_frame(executor.data, header.SerializeToString())


def vector(*values: float) -> np.ndarray[Any, Any]:
    return np.asarray(values, np.float32)
