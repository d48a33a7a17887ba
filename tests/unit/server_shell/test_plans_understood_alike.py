"""What a host makes of a plan as it comes over the wire is what the core expects to hear of it."""

from __future__ import annotations

from pathways_common.model.ids import Epoch, HostName
from pathways_proto.v1 import types_pb2, workers_pb2
from pathways_server.core import effects as out
from pathways_server.core import events
from pathways_server.rpc.decode_host import host_event
from pathways_server.rpc.encode_programs import command_table
from pathways_server.shell.tickets import Tickets
from pathways_worker.core.plans import host_plan, understood
from pathways_worker.plan_messages import read_plan

from tests.unit.core.core_driver import sent
from tests.unit.core.core_runs import B0, A, B, buffer, chain, driver_of, put, run


def answer_of(host: str, plan: out.LoadPlan) -> events.Event:
    """Encoded, read, understood, answered and decoded as in real processes."""
    _, encode = command_table(Tickets(b"k" * 32), lambda _: "127.0.0.1:40000")[out.LoadPlan]
    message = workers_pb2.LoadPlan.FromString(encode(plan))
    loaded = read_plan(message)
    mine = host_plan(loaded, host)
    answer = workers_pb2.PlanLoaded(plan_id=message.plan_id, epoch=mine.epoch)
    answer.fields.extend(types_pb2.FieldDigest(name=name, digest=digest) for name, digest in understood(loaded, mine))
    return host_event(HostName(host), "plan_loaded", workers_pb2.PlanLoaded.FromString(answer.SerializeToString()))


def test_a_plan_with_moves_and_gangs_of_several_hosts_is_granted_once_real_hosts_have_read_it() -> None:
    driver = driver_of()
    driver.answer_plans = False
    chain(driver, A, B, B0, A)
    put(driver, 10, A)
    plans = sent(run(driver, (10,), 20), out.LoadPlan)
    assert [host for host, _ in plans] == ["a0", "a1", "b0", "b1"]
    for host, plan in plans:
        effects = driver.step(answer_of(host, plan))
    assert len(sent(effects, out.RunPlan)) == 4
    assert buffer(driver, 20).failure is None


def test_a_failure_of_a_host_is_decoded() -> None:
    message = workers_pb2.PlanLoaded(plan_id=3, epoch=2, failure=types_pb2.Failure(reason="PROGRAM_REFUSED", message="no"))
    event = host_event(HostName("a0"), "plan_loaded", message)
    assert isinstance(event, events.PlanLoaded)
    assert (event.plan_id, event.epoch, event.fields) == (3, Epoch(2), ())
    assert event.failure is not None
    assert event.failure.message == "no"
