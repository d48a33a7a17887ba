"""The hosts of the fan-out benchmark acknowledge what is in order and nothing else."""

from __future__ import annotations

from typing import Any

from pathways_common.model.sharding import layout_of
from pathways_proto.v1 import types_pb2, workers_pb2
from pathways_worker.shell.wire import ControllerFrame, Item, read_controller_frame

from tests.benchmarks.acknowledging_hosts import AcknowledgingHost
from tests.benchmarks.many_hosts import acknowledged, sharding

W = workers_pb2


class Uplink:
    def __init__(self) -> None:
        self.events: list[W.HostEvent] = []

    def push(self, event: bytes, urgent: bool = False) -> None:
        self.events.append(W.HostEvent.FromString(event))

    def wake(self) -> None:
        pass

    def restart_progress(self) -> None:
        pass


class Driven:
    def __init__(self) -> None:
        self.host, self.uplink, self.sent = AcknowledgingHost("a0"), Uplink(), 0
        self.host.open(self.uplink)
        self.tell(epoch_begin=W.EpochBegin(epoch=3))
        spec = types_pb2.ArraySpec(dtype=11, shape=[1], shard_shape=[1], devices=[0])
        launches = [W.PlanStep(launch=W.PlanLaunch(node=1, arguments=[at], results=[at + 1], hosts=[0])) for at in range(3)]
        plan = W.LoadPlan(
            plan_id=7, hosts=[W.PlanHost(name="a0", island="a", epoch=3)], specs=[W.PlanSpec(spec=spec, hosts=[0])],
            steps=launches, argument_count=1, slot_count=4, results=[3],
        )  # fmt: skip
        self.tell(load_plan=plan)

    def tell(self, **command: Any) -> None:
        self.sent += 1
        data = W.ControllerFrame(sequence=self.sent, commands=[W.HostCommand(**command)]).SerializeToString()
        self.host.on_frame(read_controller_frame(data))

    def run(self, number: int, sequence: int, previous: int, end_step: int = 3) -> None:
        run = W.RunPlan(execution_id=number, plan_id=7, end_step=end_step, sequence=sequence, previous=previous, epoch=3)
        self.tell(run_plan=run)

    def said(self, name: str) -> list[Any]:
        return [getattr(event, name) for event in self.uplink.events if event.WhichOneof("event") == name]


def test_a_run_in_order_is_finished_through_its_last_launch_and_acknowledged() -> None:
    driven = Driven()
    driven.run(1, sequence=1, previous=0)
    driven.run(2, sequence=4, previous=3, end_step=2)
    assert driven.host.finished_through == 5
    driven.tell(grant_run=W.GrantRun(execution_id=2, first_step=2, end_step=3, sequence=6, previous=5, epoch=3))
    assert (driven.host.finished_through, driven.host.acknowledged) == (6, driven.sent)
    assert driven.said("missing") == driven.said("contradiction") == []


def test_a_run_out_of_order_is_not_finished_and_its_predecessor_asked_for() -> None:
    driven = Driven()
    driven.run(2, sequence=4, previous=3)
    assert driven.host.finished_through == 0
    assert [missing.sequence for missing in driven.said("missing")] == [3]
    driven.run(1, sequence=1, previous=0)
    assert driven.host.finished_through == 6


def test_two_runs_with_one_sequence_stop_the_host() -> None:
    driven = Driven()
    driven.run(1, sequence=1, previous=0)
    driven.run(2, sequence=2, previous=0)
    assert len(driven.said("contradiction")) == 1
    assert driven.host.finished_through == 3


def test_a_module_is_answered_with_what_it_says_of_itself_and_a_coordinator_with_an_address() -> None:
    driven = Driven()
    driven.tell(load=W.Load(executable_id=5, program=acknowledged(256), epoch=3))
    (loaded,) = driven.said("loaded")
    assert (loaded.executable_id, loaded.info.outputs[0].shard_shape, loaded.info.parameter_count) == (5, [1], 1)
    driven.tell(start_coordinator=W.StartCoordinator(epoch=3, rank_count=2))
    assert driven.said("coordinator_ready")[0].address


def test_the_sharding_of_the_chain_cuts_one_dimension_in_the_order_of_the_devices() -> None:
    for count in (2, 64, 256):
        layout = layout_of(sharding(count), (count,), count)
        assert (layout.shard_shape, list(layout.tile_at)) == ((1,), list(range(count)))


def test_commands_that_need_no_answer_are_acknowledged() -> None:
    driven = Driven()
    before = driven.sent
    driven.host.on_frame(
        ControllerFrame(sequence=before + 1, commands=[Item(3, W.HostCommand(free=W.Free(ids=[1])).SerializeToString())])
    )
    assert driven.host.acknowledged == before + 1
