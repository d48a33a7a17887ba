"""`pathways tenants`: who shares the cluster, with what share and limits; what they used; what administrators did."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import click
from google.protobuf.message import Message
from pathways_common.model.sizes import size_text
from pathways_common.process.state import StateDir, find_address, find_token
from pathways_proto.v1 import tenants_pb2
from rich.table import Table

from pathways.cli.options import Bytes, Command, address_option, state_option
from pathways.cli.query import Controller
from pathways.cli.showing import output_option, print_json, print_table

_WEIGHT = click.IntRange(1, 1_000_000)
_LIMIT = click.IntRange(0, 1_000_000)
# Settings as the controller names them, each with its field and its option.
_OPTIONS = {
    "weight": ("weight", "--weight", _WEIGHT, "Share beside other tenants of its class."),
    "priority": ("priority", "--priority", click.Choice(["low", "normal", "high"]), "Class: work of a higher one goes first."),
    "max_devices": ("devices_max", "--max-devices", _LIMIT, "Devices of its sessions and their slices; 0 = no limit."),
    "max_memory": ("memory_bytes_max", "--max-memory", Bytes(0), "Memory of its arrays over all devices; 0 = no limit."),
    "max_sessions": ("sessions_max", "--max-sessions", _LIMIT, "Open sessions; 0 = no limit."),
    "max_programs": ("programs_max", "--max-programs", _LIMIT, "Programs granted and not over; 0 = no limit."),
    "over": ("over", "--over", click.Choice(["wait", "fail"]), "What happens to work beyond a limit."),
    "isolation": (
        "isolation",
        "--isolation",
        click.Choice(["process", "shared"]),
        "Executors of its own (process) or those of all tenants (shared), for new sessions.",
    ),
}


# What a change of `isolation` means for who is there.
_SWITCHED = {
    "process": "\nnew sessions get executors of the tenant's own; open ones stay on those of all tenants until they end",
    "shared": "\nnew sessions use the executors of all tenants; open ones keep their own until they end",
}


def _asking(command: Command) -> Command:
    """The options of every command here."""
    return address_option(output_option(state_option(command)))


def _setting(command: Command) -> Command:
    """An option for each setting."""
    for name, (_, option, kind, words) in reversed(_OPTIONS.items()):
        metavar = "SIZE" if name == "max_memory" else None
        command = click.option(option, name, type=kind, metavar=metavar, help=words)(command)
    return command


def _ask(method: str, request: Message, address: str | None, state: StateDir) -> Any:
    with Controller(find_address(address, state), find_token(state)) as controller:
        return controller.tenants(method, request)


def _say(answer: Message, output: str, text: Callable[[], object]) -> int:
    if output == "json":
        print_json(answer)
        return 0
    words = text()
    if isinstance(words, Table):
        print_table(words)
    else:
        sys.stdout.write(f"{words}\n")
    return 0


def _request_id() -> str:
    return uuid.uuid4().hex


def _settings(chosen: dict[str, Any]) -> tenants_pb2.TenantSettings:
    message = tenants_pb2.TenantSettings()
    for name, value in chosen.items():
        if value is None:
            continue
        if name == "priority":
            message.priority = tenants_pb2.Priority.Value(f"PRIORITY_{value.upper()}")
        elif name == "over":
            message.over = tenants_pb2.Over.Value(f"OVER_{value.upper()}")
        elif name == "isolation":
            message.isolation = tenants_pb2.Isolation.Value(f"ISOLATION_{value.upper()}")
        else:
            setattr(message, _OPTIONS[name][0], value)
    return message


@click.group(invoke_without_command=True)
@_asking
@click.pass_context
def tenants(context: click.Context, address: str | None, output: str, state: StateDir) -> int:
    """Show tenants, set their shares and limits, add and remove them. Without a command: list them."""
    return context.invoke(show, address=address, output=output, state=state) if context.invoked_subcommand is None else 0


@tenants.command("list")
@_asking
def show(address: str | None, output: str, state: StateDir) -> int:
    """Show every tenant, what is set for it and what it has in use."""
    answer = _ask("ListTenants", tenants_pb2.ListTenantsRequest(), address, state)
    return _say(answer, output, lambda: _tenants_table(answer))


def _tenants_table(answer: tenants_pb2.ListTenantsResponse) -> Table:
    table = Table(
        "tenant", "weight", "priority", "over", "isolation", "sessions", "devices", "memory", "programs", "waiting",
        "device time",
    )  # fmt: skip
    for tenant in answer.tenants:
        settings = tenant.settings
        table.add_row(
            tenant.name,
            str(settings.weight),
            _word(tenants_pb2.Priority.Name(settings.priority)),
            _word(tenants_pb2.Over.Name(settings.over)),
            _word(tenants_pb2.Isolation.Name(settings.isolation)),
            _of(str(tenant.sessions), settings.sessions_max),
            _of(str(tenant.devices), settings.devices_max),
            _of(size_text(tenant.held_bytes), settings.memory_bytes_max and size_text(settings.memory_bytes_max)),
            _of(str(tenant.programs_running), settings.programs_max),
            str(tenant.programs_waiting),
            f"{tenant.device_seconds:.1f} s",
        )
    return table


def _word(name: str) -> str:
    return name.partition("_")[2].lower()


def _of(used: str, limit: int | str) -> str:
    return f"{used} of {limit}" if limit else used


@tenants.command("set")
@click.argument("name")
@_setting
@click.option("--clear", "cleared", multiple=True, type=click.Choice([name.replace("_", "-") for name in _OPTIONS]),
              help="Back to what the configuration file says, or the default; may be repeated.")  # fmt: skip
@_asking
def change(name: str, cleared: tuple[str, ...], address: str | None, output: str, state: StateDir, **chosen: Any) -> int:
    """Change settings of a tenant. They hold at once, and survive a restart of the controller."""
    settings = _settings(chosen)
    if not settings.ByteSize() and not cleared:
        raise click.UsageError("name at least one setting, such as --weight 4")
    words = [setting.replace("-", "_") for setting in cleared]
    request = tenants_pb2.SetTenantRequest(request_id=_request_id(), name=name, settings=settings, cleared=words)
    answer = _ask("SetTenant", request, address, state)
    switched = chosen["isolation"] is not None or "isolation" in words
    told = _SWITCHED[_word(tenants_pb2.Isolation.Name(answer.settings.isolation))] if switched else ""
    return _say(answer, output, lambda: f"{name}: {_in_words(answer.settings)}{told}")


def _in_words(settings: tenants_pb2.TenantSettings) -> str:
    limits = {
        "devices": settings.devices_max,
        "memory": settings.memory_bytes_max and size_text(settings.memory_bytes_max),
        "sessions": settings.sessions_max,
        "programs": settings.programs_max,
    }
    words = [f"weight {settings.weight}", f"priority {_word(tenants_pb2.Priority.Name(settings.priority))}"]
    words += [
        f"at most {limit} of {name}" if name == "memory" else f"at most {limit} {name}" for name, limit in limits.items() if limit
    ]
    words.append(f"beyond a limit: {_word(tenants_pb2.Over.Name(settings.over))}")
    if settings.isolation == tenants_pb2.ISOLATION_PROCESS:
        words.append("executors of its own")
    return ", ".join(words)


@tenants.command("add")
@click.argument("name")
@_setting
@_asking
def add(name: str, address: str | None, output: str, state: StateDir, **chosen: Any) -> int:
    """Make a tenant and print its token, which is shown this once."""
    request = tenants_pb2.AddTenantRequest(request_id=_request_id(), name=name, settings=_settings(chosen))
    answer = _ask("AddTenant", request, address, state)
    return _say(answer, output, lambda: answer.token)


@tenants.command("token")
@click.argument("name")
@_asking
def token(name: str, address: str | None, output: str, state: StateDir) -> int:
    """Give a tenant another token and print it; the old one opens nothing any more."""
    answer = _ask("ReplaceToken", tenants_pb2.ReplaceTokenRequest(request_id=_request_id(), name=name), address, state)
    return _say(answer, output, lambda: answer.token)


@tenants.command("remove")
@click.argument("name")
@click.option("--end-sessions", is_flag=True, help="End its sessions; else a tenant with sessions is not removed.")
@_asking
def remove(name: str, end_sessions: bool, address: str | None, output: str, state: StateDir) -> int:
    """Remove a tenant, its settings and its registered programs; its accounts stay."""
    request = tenants_pb2.RemoveTenantRequest(request_id=_request_id(), name=name, end_sessions=end_sessions)
    answer = _ask("RemoveTenant", request, address, state)
    return _say(answer, output, lambda: f"removed {name}")


@tenants.command("usage")
@click.option("--day", default="", metavar="YYYY-MM-DD", help="One day (UTC). Default: every day that is kept.")
@_asking
def usage(day: str, address: str | None, output: str, state: StateDir) -> int:
    """Show what tenants used, by day (UTC)."""
    answer = _ask("GetUsage", tenants_pb2.GetUsageRequest(day=day), address, state)
    return _say(answer, output, lambda: _usage_table(answer) if answer.usage else "nothing was used")


def _usage_table(answer: tenants_pb2.GetUsageResponse) -> Table:
    table = Table("day", "tenant", "device seconds", "byte seconds", "of memory, on average")
    for row in answer.usage:
        average = size_text(int(row.byte_seconds / 86400))
        table.add_row(row.day, row.tenant, f"{row.device_seconds:.3f}", f"{row.byte_seconds:.0f}", average)
    return table


@tenants.command("audit")
@click.option("--count", type=click.IntRange(1, 1_000_000), default=100, show_default=True, help="How many of the last actions.")
@_asking
def audit(count: int, address: str | None, output: str, state: StateDir) -> int:
    """Show what administrators did, the last first."""
    answer = _ask("ListAudit", tenants_pb2.ListAuditRequest(count=count), address, state)
    return _say(answer, output, lambda: _audit_table(answer) if answer.lines else "no administrative action so far")


def _audit_table(answer: tenants_pb2.ListAuditResponse) -> Table:
    table = Table("when (UTC)", "who", "from", "action", "of", "before", "after")
    for line in answer.lines:
        table.add_row(_when(line.time_ns), line.tenant, line.peer, line.action, line.subject, line.before, line.after)
    return table


@tenants.command("quarantine")
@_asking
def quarantine(address: str | None, output: str, state: StateDir) -> int:
    """Show programs that are not run any more because they ended executors."""
    answer = _ask("ListQuarantine", tenants_pb2.ListQuarantineRequest(), address, state)
    return _say(answer, output, lambda: _quarantine_table(answer) if answer.programs else "no program is quarantined")


def _quarantine_table(answer: tenants_pb2.ListQuarantineResponse) -> Table:
    table = Table("program", "what it was", "tenant", "ended executors")
    for held in answer.programs:
        deaths = "; ".join(f"{_when(death.time_ns)} on {death.host} by {death.signal}" for death in held.deaths)
        table.add_row(held.program, held.name, held.tenant, deaths)
    return table


@tenants.command("allow")
@click.argument("program")
@_asking
def allow(program: str, address: str | None, output: str, state: StateDir) -> int:
    """Let a program that ended executors run again; PROGRAM as `quarantine` shows it."""
    answer = _ask("AllowProgram", tenants_pb2.AllowProgramRequest(request_id=_request_id(), program=program), address, state)
    return _say(answer, output, lambda: f"{program} may run again")


@tenants.command("policy")
@click.argument("policy", type=click.Choice(["fifo", "proportional-share", "priority"]))
@click.option("--island", default="", metavar="NAME", help="Only this island; else every one.")
@_asking
def policy(policy: str, island: str, address: str | None, output: str, state: StateDir) -> int:
    """Choose how islands order the work of tenants; it stays until set again, or until the controller starts with --policy."""
    wanted = tenants_pb2.Policy.Value(f"POLICY_{policy.replace('-', '_').upper()}")
    request = tenants_pb2.SetPolicyRequest(request_id=_request_id(), island=island, policy=wanted)
    answer = _ask("SetPolicy", request, address, state)
    return _say(answer, output, lambda: f"{', '.join(answer.islands)}: {policy}")


def _when(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S")
