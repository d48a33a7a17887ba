"""Every command ends with an exit code; what goes wrong is one sentence on stderr and no traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable

import click
from pathways_common.model.failure import PathwaysError

INTERRUPTED = 130


class Refusal(click.ClickException):
    """A sentence for the user, and the exit code of the command."""

    def __init__(self, sentence: str, exit_code: int = 1) -> None:
        super().__init__(sentence)
        self.code = exit_code

    def show(self, file: object = None) -> None:
        """Writes the sentence to stderr."""
        sys.stderr.write(f"pathways: {self.format_message()}\n")


class Interrupted(Exception):
    """The user, or the system, asked the command to stop; `number` is the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped by signal {number}")
        self.number = number


def exit_code_of(command: Callable[[], object]) -> int:
    """Runs a click command in standalone_mode=False and turns every way out into an exit code."""
    try:
        result = command()
    except Refusal as refusal:
        refusal.show()
        return refusal.code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except PathwaysError as error:
        Refusal(str(error)).show()
        return 1
    except Interrupted as stop:
        return 128 + stop.number
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has left; the interpreter must not try to flush into it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception as error:
        if os.environ.get("PATHWAYS_DEBUG"):
            traceback.print_exc()
        Refusal(f"unexpected {type(error).__name__}: {error} (PATHWAYS_DEBUG=1 shows where)").show()
        return 70
    return result if isinstance(result, int) else 0
