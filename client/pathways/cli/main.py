"""The command `pathways`. Subcommands are imported when they are used, so that each starts quickly."""

from __future__ import annotations

import importlib
import sys

import click

from pathways.cli.faults import exit_code_of

_COMMANDS = {
    "up": ("pathways.cli.up", "up", "Start a cluster on this machine."),
    "down": ("pathways.cli.down", "down", "Stop the cluster that `up` started."),
    "run": ("pathways.cli.run", "run", "Run an unmodified JAX script against a cluster."),
    "status": ("pathways.cli.status", "status", "Show islands, hosts, devices, sessions and programs."),
    "programs": ("pathways.cli.programs", "programs", "List the programs that are registered by name."),
    "tenants": ("pathways.cli.tenants", "tenants", "Show who shares the cluster; set shares and limits."),
    "trace": ("pathways.cli.trace", "trace", "Show what happened in one run of a program, host by host."),
    "ps": ("pathways.cli.ps", "ps", "Show programs and executions in line and in flight."),
    "buffers": ("pathways.cli.buffers", "buffers", "Show the memory of sessions."),
    "why": ("pathways.cli.why", "why", "Say why a session, a program or a slice does not go on."),
    "diagnose": ("pathways.cli.diagnose", "diagnose", "Say what is stuck, and gather all that helps to find out why."),
    "story": ("pathways.cli.story", "story", "Tell what happened to a session, run, program, slice, host or failure."),
    "drain": ("pathways.cli.movements", "drain", "Empty a host, so that its worker may be stopped and nothing fails."),
    "migrate": ("pathways.cli.movements", "migrate", "Move a slice to another island while its client works."),
    "leaks": ("pathways.cli.leaks", "leaks", "Find what hosts hold and nobody owns."),
    "version": ("pathways.cli.status", "show_version", "Show the versions of this installation and of the cluster."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, _, words) in _COMMANDS.items()])


@click.command(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
def pathways() -> None:
    """One Python process in front of many accelerator hosts: unmodified JAX on a shared, long-running cluster."""


def main(arguments: list[str] | None = None) -> None:
    """Runs a command and ends the process with its exit code."""
    sys.exit(exit_code_of(lambda: pathways.main(arguments, prog_name="pathways", standalone_mode=False)))


if __name__ == "__main__":
    main()
