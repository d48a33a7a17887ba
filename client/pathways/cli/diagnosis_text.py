"""A diagnosis as a person woken at night reads it: the verdict, a table of the hosts, then the details of each."""

from __future__ import annotations

import io
import time
from collections.abc import Iterable, Iterator

from pathways_common.model.sizes import size_text
from pathways_proto.v1 import cluster_pb2
from rich.console import Console
from rich.table import Table

from pathways.cli.local_look import Seen
from pathways.cli.showing import identifier, seconds
from pathways.cli.story import told

_WIDTH = 200
_THREADS_SHOWN = 6
_STACK_LINES = 60


def text_of(
    answer: cluster_pb2.DiagnoseResponse, where: str, work: Iterable[cluster_pb2.Work], seen: list[Seen], everything: bool
) -> str:
    """The whole text. `everything`: with the stacks of those that seem well, too."""
    lines = ["VERDICT", *(f"  {sentence}" for sentence in answer.verdict), "", _head(answer, where), "", _table(answer)]
    if seen:
        lines += ["ON THIS MACHINE", *_seen(seen), ""]
    rows = [_work(row) for row in work]
    if rows:
        lines += ["WORK, the oldest first", *rows, ""]
    for host in answer.hosts:
        lines += [f"HOST {host.host}", *_host(host, everything), ""]
    if answer.recent:
        lines += ["LAST CHANGES of hosts and islands", *(f"  {told(line)}" for line in answer.recent), ""]
    return "\n".join(lines)


def text_without_controller(sentence: str, seen: list[Seen]) -> str:
    """What there is to say when the controller does not answer."""
    controller = next((each for each in seen if each.name == "controller"), None)
    verdict = [sentence]
    if controller is not None:
        verdict.append(f"its process: {controller.sentence}")
    elif not seen:
        verdict.append("no process of a cluster that was started from this state directory lives on this machine")
    return "\n".join(["VERDICT", *(f"  {each}" for each in verdict), "", "ON THIS MACHINE", *_seen(seen), ""])


def _head(answer: cluster_pb2.DiagnoseResponse, where: str) -> str:
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(answer.time_ns / 1e9))
    islands = "; ".join(
        f"island {each.name} {each.state}, epoch {each.epoch}, granted through {each.granted_through}, "
        f"{each.queued_executions} in line, {each.unfinished_gangs} in flight"
        for each in answer.islands
    )
    up = seconds(answer.uptime_seconds)
    return f"{where}  version {answer.pathways_version}  up {up}  {clock}  {answer.open_sessions} sessions\n{islands}"


def _table(answer: cluster_pb2.DiagnoseResponse) -> str:
    table = Table("host", "island", "state", "executor", "running gang", "since", "missing", "finished gang", "queue", "memory")
    for host in answer.hosts:
        running, finished = host.running, host.finished
        table.add_row(
            host.host,
            f"{host.island}/{host.diagnosis.epoch}",
            host.state,
            _executor(host),
            gang(running) if running.sequence else "-",
            _since(running),
            ", ".join(running.missing_hosts) or "-",
            f"{gang(finished)}, {_since(finished)} ago" if finished.sequence else "-",
            str(host.queue),
            _memory(host),
        )
    shown = io.StringIO()
    Console(file=shown, width=_WIDTH, highlight=False, markup=False).print(table)
    return shown.getvalue()


def gang(figures: cluster_pb2.GangCondition) -> str:
    """A gang in a few words."""
    if not figures.execution_id:
        return f"{figures.sequence}"
    node = f", node {figures.node} {figures.node_name}" if figures.node else ""
    told = ", finished but not told" if figures.unreported else ""
    return f"{figures.sequence}: {figures.program}{node} (run {identifier(figures.execution_id)}){told}"


def _since(figures: cluster_pb2.GangCondition) -> str:
    return seconds(figures.since_seconds) if figures.HasField("since_seconds") else "-"


def _executor(host: cluster_pb2.HostCondition) -> str:
    if host.silence:
        return "daemon silent"
    for process in host.diagnosis.processes:
        if process.role == "EXECUTOR":
            return f"{process.state or 'gone'}, {process.cpu_share:.0%} CPU" + (", SILENT" if process.silence else "")
    return "none"


def _memory(host: cluster_pb2.HostCondition) -> str:
    resident = sum(process.resident_bytes for process in host.diagnosis.processes)
    return f"{size_text(resident)} of {size_text(host.diagnosis.memory_bytes)}" if host.diagnosis.memory_bytes else "-"


def _seen(seen: list[Seen]) -> Iterator[str]:
    for each in seen:
        yield f"  {each.sentence}"
        yield from (f"    {line}" for line in each.stacks)


def _work(row: cluster_pb2.Work) -> str:
    unfinished = f"; not finished: {', '.join(row.unfinished_hosts)}" if row.unfinished_hosts else ""
    waits = f"; waits for {row.waits_for.what}: {row.waits_for.holder}" if row.HasField("waits_for") else ""
    age = seconds(row.age_seconds)
    return f"  {identifier(row.execution_id)}  tenant {row.tenant}  {row.name}  {row.state}  {age}{unfinished}{waits}"


def _host(host: cluster_pb2.HostCondition, everything: bool) -> Iterator[str]:
    if host.silence:
        yield f"  {host.silence}; {_link(host)}"
        return
    figures = host.diagnosis
    free = size_text(figures.memory_available_bytes)
    yield (
        f"  launched through {figures.launched_through}, finished through {figures.finished_through}, {figures.buffers} arrays "
        f"of {size_text(figures.live_bytes)}, {free} of the machine's memory free; "
        f"{_link(host)}"
    )
    if figures.loading:
        yield f"  compiles or loads program {identifier(figures.loading)}, beside its launches"
    if host.running.unfinished_hosts:
        yield f"  not finished by: {', '.join(host.running.unfinished_hosts)}"
    for process in figures.processes:
        yield from _process(process, everything or (process.role == "EXECUTOR" and bool(host.running.sequence)))
    if figures.output:
        yield "  the end of what its executors printed:"
        yield from (f"    {line}" for line in figures.output[-8:])


def _link(host: cluster_pb2.HostCondition) -> str:
    return f"{host.items_waiting} items wait for it, {host.frames_unacknowledged} frames are not acknowledged"


def _process(process: cluster_pb2.ProcessDiagnosis, stacks: bool) -> Iterator[str]:
    state = f"state {process.state}, " if process.state else ""
    yield (
        f"  {process.role.lower()} {process.pid}: {state}{process.cpu_share:.0%} of a CPU now, {process.cpu_seconds:.1f} s in "
        f"all, {size_text(process.resident_bytes)}, {process.thread_count} threads"
    )
    if process.silence:
        yield f"    {process.silence}"
        for thread in process.threads[:_THREADS_SHOWN]:
            where = f" in {thread.waits_in}" if thread.waits_in else ""
            yield f"    thread {thread.thread_id} {thread.name}: {thread.state}{where}, {thread.cpu_seconds:.1f} s of CPU"
    if stacks:
        yield from (f"    {line}" for line in process.stacks[:_STACK_LINES])
        if len(process.stacks) > _STACK_LINES:
            yield f"    ... {len(process.stacks) - _STACK_LINES} lines more with --output"
