"""The verdict of a diagnosis: what is wrong, with whom, and what to do, in a sentence or two. A function of what was gathered.

Suspects are looked for in the order of how much they explain: a daemon that is silent, an executor that cannot answer, a member
that has not launched what others have, one that computes while the others wait, an island that lacks hosts. Only what a healthy
cluster never shows is called wrong; a long gang on hosts that all answer is called long.
"""

from __future__ import annotations

from collections.abc import Iterator

from pathways_proto.v1 import cluster_pb2

_BUSY_SHARE = 0.8
_LONG_S = 10.0
_LATE_S = 0.5
# Members of a healthy gang launch it some milliseconds apart, and hosts answer as far apart.
_APART_S = 1.0
_NAMED_MAX = 4


def verdict(found: cluster_pb2.DiagnoseResponse) -> list[str]:
    """Sentences, the most telling first; never none."""
    wrong = [*_silent(found), *_executors(found), *_missing(found)]
    return [*(wrong or _computing(found)), *_islands(found)] or [_healthy(found)]


def _silent(found: cluster_pb2.DiagnoseResponse) -> Iterator[str]:
    for host in found.hosts:
        if host.silence:
            yield f"host {host.host} is stuck or cut off: {host.silence}.{_held_up(found, host)}"
        elif host.diagnosis.loop_late_seconds > _LATE_S:
            late = host.diagnosis.loop_late_seconds
            yield f"the daemon of host {host.host} is slow: it was {late:.1f} s late for its own clock; see its stack."


def _executors(found: cluster_pb2.DiagnoseResponse) -> Iterator[str]:
    for host in found.hosts:
        for process in host.diagnosis.processes:
            if process.role == "EXECUTOR" and process.silence:
                what = f"the executor of {host.host} (pid {process.pid}) {process.silence}"
                yield f"{what}.{_held_up(found, host)}"


def _held_up(found: cluster_pb2.DiagnoseResponse, guilty: cluster_pb2.HostCondition) -> str:
    """What waits for a host."""
    gang = guilty.running
    if not gang.sequence:
        return ""
    waiting = [
        each.host
        for each in found.hosts
        if each.host != guilty.host and each.island == guilty.island and each.running.sequence == gang.sequence
    ]
    others = f", and {_listed(waiting)} with it" if waiting else ""
    if gang.unreported:
        return f" It has finished {_gang(gang)} and has not said so{_since(gang)}."
    return f" It has not finished {_gang(gang)}{_since(gang)}{others}."


def _missing(found: cluster_pb2.DiagnoseResponse) -> Iterator[str]:
    told: set[tuple[str, int]] = set()
    for host in found.hosts:
        gang = host.running
        if gang.HasField("since_seconds") and gang.since_seconds < _APART_S:
            continue
        if gang.missing_hosts and (host.island, gang.sequence) not in told:
            told.add((host.island, gang.sequence))
            late = _listed(list(gang.missing_hosts))
            there = _listed([name for name in gang.members if name not in gang.missing_hosts])
            yield f"{late} never launched {_gang(gang)}, which {there} launched{_since(gang)}: look at the stacks of {late}."


def _computing(found: cluster_pb2.DiagnoseResponse) -> Iterator[str]:
    """Nothing is wrong by itself, but something takes long: who computes for it?"""
    told: set[tuple[str, int]] = set()
    for host in found.hosts:
        gang = host.running
        if not gang.sequence or gang.unreported or (host.island, gang.sequence) in told or gang.since_seconds < _LONG_S:
            continue
        told.add((host.island, gang.sequence))
        late = [each for each in found.hosts if each.host in gang.unfinished_hosts]
        busy = [each.host for each in late if _share(each) >= _BUSY_SHARE]
        idle = [each.host for each in late if each.host not in busy]
        if busy and idle:
            tail = f"{_listed(busy)} computes, {_listed(idle)} waits: a slow member, or an endless loop on {_listed(busy)}"
        elif busy:
            tail = f"all of {_listed(busy)} compute: a long program, or an endless one"
        else:
            tail = f"{_listed(idle)} compute nothing: they wait for one another or for bytes; look at their stacks"
        yield f"{_gang(gang)} runs{_since(gang)}, and every process answers; {tail}."


def _islands(found: cluster_pb2.DiagnoseResponse) -> Iterator[str]:
    for island in found.islands:
        if island.state != "ACTIVE":
            yield f"island {island.name} is {island.state}: {island.lacks or 'no host has joined'}."


def _healthy(found: cluster_pb2.DiagnoseResponse) -> str:
    if not found.hosts:
        return "no host has joined: start the workers."
    busy = sum(bool(host.running.sequence) for host in found.hosts)
    queued = sum(island.queued_executions for island in found.islands)
    work = f"{busy} of {len(found.hosts)} hosts have work in flight, {queued} pieces of work are in line"
    return f"nothing is stuck: every process of {len(found.hosts)} hosts answers, and {work}."


def _share(host: cluster_pb2.HostCondition) -> float:
    return max((process.cpu_share for process in host.diagnosis.processes if process.role == "EXECUTOR"), default=0.0)


def _gang(gang: cluster_pb2.GangCondition) -> str:
    if not gang.execution_id:
        return f"gang {gang.sequence}"
    node = f", node {gang.node} ({gang.node_name})" if gang.node else ""
    source = f" called at {gang.source}" if gang.source else ""
    return f"gang {gang.sequence} of {gang.program}{node}{source}"


def _since(gang: cluster_pb2.GangCondition) -> str:
    return f" for {gang.since_seconds:.0f} s" if gang.HasField("since_seconds") and gang.since_seconds >= 1 else ""


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMED_MAX])
    return f"{shown} and {len(names) - _NAMED_MAX} more" if len(names) > _NAMED_MAX else shown or "nobody"
