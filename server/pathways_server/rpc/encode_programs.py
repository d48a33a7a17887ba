"""Commands and replies about programs to serialized messages: what encode.py does for the others.

A LoadPlan is the same for every host, so it carries the data address of each; the key of a run's tickets is derived from its
number and never stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, assert_never

from pathways_common.model.failure import Failure
from pathways_common.model.ids import HostName
from pathways_common.rpc.convert import failure_to_proto, spec_to_proto
from pathways_proto.v1 import sessions_pb2, types_pb2, workers_pb2

from pathways_server.core import effects
from pathways_server.shell.tickets import Tickets

Table = dict[type, tuple[str, Callable[[Any], bytes]]]


def command_table(tickets: Tickets, address_of: Callable[[HostName], str]) -> Table:
    """Per type of command the name of its field and what serializes it."""

    def load(command: effects.LoadPlan) -> bytes:
        hosts = [
            workers_pb2.PlanHost(name=host.name, island=host.island, epoch=host.epoch, data_address=address_of(host.name))
            for host in command.hosts
        ]
        return _load_plan(command, hosts)

    def run(command: effects.RunPlan) -> bytes:
        return _run_plan(command, tickets.run_key(command.number))

    return {
        effects.LoadPlan: ("load_plan", load),
        effects.UnloadPlan: ("unload_plan", _unload_plan),
        effects.GroupPlan: ("group_plan", _group_plan),
        effects.RunPlan: ("run_plan", run),
        effects.GrantRun: ("grant_run", _grant_run),
        effects.EndRun: ("end_run", _end_run),
        effects.CollectTrace: ("collect_trace", _collect_trace),
    }


def _load_plan(command: effects.LoadPlan, hosts: Iterable[workers_pb2.PlanHost]) -> bytes:
    specs = [
        workers_pb2.PlanSpec(spec=spec_to_proto(each.spec), hosts=each.hosts, local_devices=each.local_devices)
        for each in command.specs
    ]
    message = workers_pb2.LoadPlan(
        plan_id=command.plan_id,
        hosts=hosts,
        specs=specs,
        steps=[_step(step) for step in command.steps],
        argument_count=command.argument_count,
        slot_count=command.slot_count,
        results=command.results,
        name=command.name,
    )
    return bytes(message.SerializeToString())


def _step(step: effects.PlanLaunch | effects.PlanMove | effects.PlanFree) -> workers_pb2.PlanStep:
    match step:
        case effects.PlanLaunch():
            return workers_pb2.PlanStep(launch=_launch(step))
        case effects.PlanMove():
            move = workers_pb2.PlanMove(
                source=step.source,
                destination=step.destination,
                source_spec=step.source_spec,
                destination_spec=step.destination_spec,
            )
            return workers_pb2.PlanStep(move=move)
        case effects.PlanFree():
            return workers_pb2.PlanStep(free=workers_pb2.PlanFree(slots=step.slots))
        case _:
            assert_never(step)


def _launch(step: effects.PlanLaunch) -> workers_pb2.PlanLaunch:
    return workers_pb2.PlanLaunch(
        node=step.node,
        executable_id=step.executable_id,
        arguments=step.arguments,
        results=step.results,
        non_donatable=step.non_donatable,
        hosts=step.hosts,
    )


def _group_plan(command: effects.GroupPlan) -> bytes:
    groups = [
        workers_pb2.PlanGroup(
            first_step=group.first_step, end_step=group.end_step, last_node=group.last_node, launch=_launch(group.launch)
        )
        for group in command.groups
    ]
    return bytes(workers_pb2.GroupPlan(plan_id=command.plan_id, groups=groups).SerializeToString())


def _unload_plan(command: effects.UnloadPlan) -> bytes:
    return bytes(workers_pb2.UnloadPlan(plan_ids=command.plan_ids).SerializeToString())


def _run_plan(command: effects.RunPlan, ticket_key: bytes) -> bytes:
    message = workers_pb2.RunPlan(
        execution_id=command.execution_id,
        plan_id=command.plan_id,
        arguments=command.arguments,
        first_result_id=command.first_result_id,
        first_value_id=command.first_value_id,
        donated=command.donated,
        ticket_key=ticket_key,
        number=command.number,
        timeout_ns=command.timeout_ns,
        end_step=command.end_step,
        sequence=command.sequence,
        previous=command.previous,
        epoch=command.epoch,
        fused=command.fused,
        timed=command.timed,
    )
    return bytes(message.SerializeToString())


def _grant_run(command: effects.GrantRun) -> bytes:
    message = workers_pb2.GrantRun(
        execution_id=command.execution_id,
        first_step=command.first_step,
        end_step=command.end_step,
        sequence=command.sequence,
        previous=command.previous,
        epoch=command.epoch,
        fused=command.fused,
        timed=command.timed,
    )
    return bytes(message.SerializeToString())


def _end_run(command: effects.EndRun) -> bytes:
    message = workers_pb2.EndRun(execution_id=command.execution_id, failure=failure_to_proto(command.failure))
    return bytes(message.SerializeToString())


def _collect_trace(command: effects.CollectTrace) -> bytes:
    message = workers_pb2.CollectTrace(
        trace_id=command.trace_id,
        execution_id=command.execution_id,
        session_number=command.session,
        after_sequence=command.after,
        rows_max=command.rows_max,
    )
    return bytes(message.SerializeToString())


def _optional(failure: Failure | None) -> types_pb2.Failure | None:
    return None if failure is None else failure_to_proto(failure)


def _program_defined(reply: effects.ProgramDefined) -> bytes:
    message = sessions_pb2.ProgramDefined(
        program_id=reply.program_id,
        arguments=[spec_to_proto(spec) for spec in reply.arguments],
        results=[spec_to_proto(spec) for spec in reply.results],
        name=reply.name,
        version=reply.version,
        failure=_optional(reply.failure),
    )
    return bytes(message.SerializeToString())


def _program_fused(reply: effects.ProgramFused) -> bytes:
    message = sessions_pb2.ProgramFused(
        program_id=reply.program_id, group_count=reply.group_count, failure=_optional(reply.failure)
    )
    return bytes(message.SerializeToString())


def _program_registered(reply: effects.ProgramRegistered) -> bytes:
    message = sessions_pb2.ProgramRegistered(
        program_id=reply.program_id, name=reply.name, version=reply.version, failure=_optional(reply.failure)
    )
    return bytes(message.SerializeToString())


def _program_unregistered(reply: effects.ProgramUnregistered) -> bytes:
    message = sessions_pb2.ProgramUnregistered(request_id=reply.request_id, failure=_optional(reply.failure))
    return bytes(message.SerializeToString())


REPLY_TABLE: Table = {
    effects.ProgramDefined: ("program_defined", _program_defined),
    effects.ProgramFused: ("program_fused", _program_fused),
    effects.ProgramRegistered: ("program_registered", _program_registered),
    effects.ProgramUnregistered: ("program_unregistered", _program_unregistered),
}
