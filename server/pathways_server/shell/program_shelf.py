"""Registered programs in the journal, with the bytes that they are compiled from, so that a name survives the controller.

`keep` is durable when it returns; the client hears of its name after that. Equal bytes are written once. A record that a later
life cannot read is left in the journal, with a line in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from pathways_common.model.failure import PathwaysError
from pathways_common.model.graph import Program
from pathways_common.model.registered import Origin, RegisteredProgram
from pathways_common.process.logs import fields

from pathways_server.core import effects, events
from pathways_server.shell.journal import Journal, ProgramRow
from pathways_server.shell.programs import Programs

if TYPE_CHECKING:
    from pathways_server.shell.loop import Loop

_LOG = logging.getLogger(__name__)


class ProgramShelf:
    """Carries out KeepProgram and ForgetProgram, and makes the event with which a life of the controller begins."""

    def __init__(
        self, journal: Journal, programs: Programs, encode: Callable[[Program], bytes], decode: Callable[[bytes], Program]
    ) -> None:
        self._journal = journal
        self._programs = programs
        self._encode = encode
        self._decode = decode

    def attach(self, loop: Loop, told: bool = False) -> None:
        """Serves the loop's effects, and tells the core what is kept already; `told`: it knows."""
        loop.carry_out(effects.KeepProgram, self.keep)
        loop.carry_out(effects.ForgetProgram, self.forget)
        kept = () if told else self.restored()
        if kept:
            loop.post((events.ProgramsRestored(kept),))

    def keep(self, effect: effects.KeepProgram) -> None:
        """Writes a version down."""
        program = effect.program
        row = ProgramRow(program.tenant, program.name, program.version, self._encode(program.program), program.origins)
        self._journal.keep_program(row, {origin.program: self._programs.bytes_of(origin.program) for origin in program.origins})

    def forget(self, effect: effects.ForgetProgram) -> None:
        """Takes a version out of the journal."""
        self._journal.forget_program(effect.tenant, effect.name, effect.version)

    def forget_unknown(self, known: Collection[tuple[str, str, int]]) -> None:
        """A life that goes on keeps what its core knows: what else was written right before a kill was never acknowledged."""
        for row in self._journal.kept_programs():
            key = (row.tenant, row.name, row.version)
            if key in known:
                continue
            try:
                self._decode(row.graph)
            except (PathwaysError, DecodeError):
                continue  # it never was
            self._journal.forget_program(*key)

    def restored(self) -> tuple[RegisteredProgram, ...]:
        """Everything that can be read; its bytes are held for the core from now on."""
        found: list[RegisteredProgram] = []
        for row in self._journal.kept_programs():
            try:
                program = self._decode(row.graph)
                read = [self._journal.program_bytes(origin.program) for origin in row.origins]
            except (PathwaysError, DecodeError, KeyError) as error:
                _LOG.error("a registered program cannot be read", extra=fields(name=row.name, version=row.version, cause=error))
                continue
            names = [self._programs.adopt(*pair) for pair in read]
            origins = tuple(Origin(name, origin.devices) for name, origin in zip(names, row.origins, strict=True))
            found.append(RegisteredProgram(row.tenant, row.name, row.version, program, origins))
        return tuple(found)
