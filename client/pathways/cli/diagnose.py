"""`pathways diagnose`: what is stuck and why, within 5 seconds whatever it is; with --output an archive to send to somebody.

The controller gives hosts 2 s. Where it is silent itself, or a daemon is, the kernel of this machine is asked, if the cluster was
started here.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import click
from google.protobuf.message import Message
from pathways_common.model.failure import PathwaysError, Reason
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_common.rpc.channels import parse_address
from pathways_proto.v1 import cluster_pb2

from pathways.cli.diagnosis_text import text_of, text_without_controller
from pathways.cli.faults import Refusal
from pathways.cli.local_look import Seen, look
from pathways.cli.options import address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.showing import json_text

_WORK_SHOWN = 20
# Of each log, its end.
_LOG_BYTES = 1 << 20
_SILENT = (Reason.TIMED_OUT, Reason.UNAVAILABLE)


@click.command()
@address_option
@click.option("--output", "archive", type=click.Path(dir_okay=False), metavar="FILE.tar.gz", help="Also write an archive.")
@click.option("--all", "everything", is_flag=True, help="Show the stacks of all processes.")
@click.option("-o", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the answer.")
@state_option
def diagnose(address: str | None, archive: str | None, everything: bool, form: str, state: StateDir) -> int:
    """Say what is stuck, and gather all that helps to find out why: per host the last finished and the running gang, who is
    missing from it, queue, Python stacks, memory; and the last changes of hosts and islands. It works while an island is stuck.

    Exit code 1 if the controller does not answer. The archive also holds status, work, memory, and the ends of the logs that are
    on this machine.

    JSON: verdict, islands, hosts (host, running, finished, queue, silence, diagnosis, ...), recent, controller.
    """
    if archive is not None and Path(archive).exists():
        raise Refusal(f"{archive} exists already; name another file with --output")
    found = find_address(address, state)
    where = f"grpc://{parse_address(found)}"
    parts: dict[str, str] = {}
    with Controller(found, find_token(state)) as controller:
        try:
            answer = controller.diagnose()
        except PathwaysError as error:
            if error.failure.reason not in _SILENT:
                raise
            text = text_without_controller(error.failure.message, _look(found, state, ["controller"]))
            code = 1
            parts["diagnosis.json"] = json.dumps({"verdict": [error.failure.message]}) + "\n"
        else:
            silent = [host.host for host in answer.hosts if host.silence]
            seen = _look(found, state, silent) if silent else []
            _explain(answer, seen)
            parts["diagnosis.json"] = json_text(answer) + "\n"
            work = _try(parts, "work.json", lambda: controller.work("", _WORK_SHOWN))
            if archive is not None:
                _try(parts, "status.json", controller.status)
                _try(parts, "buffers.json", lambda: controller.buffers("", 0, _WORK_SHOWN))
            rows = work.work if isinstance(work, cluster_pb2.ListWorkResponse) else ()
            text = text_of(answer, where, rows, seen, everything)
            parts["everything.txt"] = text_of(answer, where, rows, seen, True)
            code = 0
    parts["diagnosis.txt"] = text
    sys.stdout.write(parts["diagnosis.json"] if form == "json" else text)
    if archive is not None:
        _write(Path(archive), parts, state if _is_local(found, state) else None)
        click.echo(f"pathways: wrote {archive}", err=True)
    return code


def _try(parts: dict[str, str], name: str, ask: Callable[[], Message]) -> Message | None:
    """One more part; a controller that answered a moment ago may be silent now, and the rest is worth having."""
    try:
        answer = ask()
    except PathwaysError as error:
        parts[name] = json.dumps({"missing": error.failure.message}) + "\n"
        return None
    parts[name] = json_text(answer) + "\n"
    return answer


def _is_local(address: str, state: StateDir) -> bool:
    """Whether the cluster at this address is the one that was started from the state directory."""
    known = (state.read_cluster() or {}).get("address")
    with suppress(PathwaysError):
        return isinstance(known, str) and bool(known) and parse_address(known) == parse_address(address)
    return False


def _look(address: str, state: StateDir, stacks_of: list[str]) -> list[Seen]:
    return look(state, frozenset(stacks_of)) if _is_local(address, state) else []


def _explain(answer: cluster_pb2.DiagnoseResponse, seen: list[Seen]) -> None:
    """What the kernel says of silent daemons goes into the verdict."""
    processes = {each.name: each for each in seen}
    for host in answer.hosts:
        process = processes.get(host.host)
        if host.silence and process is not None:
            before, host.silence = host.silence, f"{host.silence}: state {process.condition.words}"
            for index, sentence in enumerate(answer.verdict):
                answer.verdict[index] = sentence.replace(before, host.silence)


def _write(path: Path, parts: dict[str, str], state: StateDir | None) -> None:
    stem = path.name.removesuffix(".gz").removesuffix(".tar") or "diagnosis"
    try:
        with tarfile.open(path, "x:gz") as archive:
            for name, text in parts.items():
                _add(archive, f"{stem}/{name}", text.encode())
            for log in sorted((state.path / "logs").glob("*.log*")) if state is not None else ():
                with suppress(OSError):
                    _add(archive, f"{stem}/logs/{log.name}", _end_of(log))
    except OSError as error:
        raise Refusal(f"the archive {path} cannot be written ({error.strerror}); name another file with --output") from None


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
    archive.addfile(entry, io.BytesIO(data))


def _end_of(log: Path) -> bytes:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _LOG_BYTES))
        return stream.read(_LOG_BYTES)
