"""Children are started without fork handlers: those of gRPC crash the child of a process that has gRPC threads.

asyncio's own way does so under uvloop, which forks; `subprocess.Popen` does not, since it uses vfork as long as nothing is to run
between fork and exec. The end of a child is seen through a descriptor of the process, so no signal handling is involved.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress

_READ_AHEAD_BYTES = 1 << 20


class Child:
    """A running process with its output as streams; `errors` is the same stream as `output` unless it goes elsewhere."""

    def __init__(self, process: subprocess.Popen[bytes], output: asyncio.StreamReader, errors: asyncio.StreamReader) -> None:
        self._process = process
        self.pid = process.pid
        self.output = output
        self.errors = errors
        self._ended = asyncio.get_running_loop().create_future()
        self._descriptor = os.pidfd_open(process.pid)
        asyncio.get_running_loop().add_reader(self._descriptor, self._on_end)

    def _on_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
        code = self._process.wait()
        self.close_stdin()
        if not self._ended.done():
            self._ended.set_result(code)

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return self._process.returncode is not None

    async def wait(self) -> int:
        """Its exit code; minus the signal's number if one ended it."""
        return int(await asyncio.shield(self._ended))

    def close_stdin(self) -> None:
        """Tells a child that reads its standard input to end."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def kill(self) -> None:
        """Ends it now; nothing happens if it has ended."""
        if not self.ended:
            self._process.kill()


async def start_child(
    command: Sequence[str],
    environment: Mapping[str, str],
    pass_fds: Sequence[int] = (),
    errors_apart: bool = False,
    keep_stdin: bool = False,
    inherit_errors: bool = False,
) -> Child:
    """Starts a process in a session of its own; raises OSError if it cannot be started. `keep_stdin`: open as long as we live.

    Standard error goes into `output`, or to `errors` if `errors_apart`, or where ours goes if `inherit_errors`.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE if keep_stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=None if inherit_errors else subprocess.PIPE if errors_apart else subprocess.STDOUT,
        pass_fds=tuple(pass_fds),
        env=dict(environment),
        start_new_session=True,
    )
    output = await _reader(process.stdout)
    return Child(process, output, await _reader(process.stderr) if errors_apart else output)


async def _reader(pipe: object) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=_READ_AHEAD_BYTES)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader
