"""MLIR reads no byte of a client's program in the executor, which is everybody's: a process of its own reads it and writes it
anew, and the executor reads what that one wrote. What ends a reader refuses one program.

The process is forked before the executor has threads of its own, and forks a *reader*, which reads one program after the other.
Each comes with a socket of its own, whose end without an answer says that the reader did not survive it; then another is forked.
A reader is also replaced when it has read many programs or a large one, and before it reads one of another session: what a
program left behind in it goes with it. No program is refused for what the programs before it did to its reader.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from google.protobuf.message import DecodeError
from pathways_common.model.bounds import (
    PROGRAM_BYTES_MAX,
    READ_PROGRAM_NS,
    READER_MEMORY_BYTES,
    READER_PROGRAM_BYTES,
    READER_PROGRAMS_MAX,
)
from pathways_common.model.failure import Reason
from pathways_common.model.ids import SessionNumber
from pathways_common.process.child import die_with_parent
from pathways_common.process.condition import STACKS_SIGNAL
from pathways_proto.v1 import types_pb2

from pathways_worker.executor import runtime
from pathways_worker.executor.failures import Refused, make_failure, refuse
from pathways_worker.executor.frames import FrameReader, write_frame
from pathways_worker.executor.module_facts import ModuleFacts, read_module
from pathways_worker.executor.program_formats import read_program

# What `ps -o comm` says of the two processes; their command line is that of the executor.
NAME = b"pathways-reader"
_PR_SET_NAME = 15
# How a reader ends when the executor has, and when another should take over. Any other end, 0 as well, is a program's doing.
_DONE, _REPLACE = 74, 75
_REST_S = 0.01
# Between two tries to fork a reader.
_RETRY_S, _RETRY_MAX_S = 0.05, 2.0
_SESSION_BYTES = 8
# With what a reader begins the answer to the first program that it reads, and to others; then comes when it began, in ns.
_FIRST, _NOT_FIRST = b"f", b"n"
# Of a program that are in a reader at once: as it came, in a module, and as it is written.
_COPIES = 6
_READ_S = READ_PROGRAM_NS / 1e9
# On a busy machine, or asleep.
_READ_WALL_S = 3 * _READ_S
# Then the kernel has not ended it either.
_UNANSWERED_S = _READ_WALL_S + 30.0


@dataclass(frozen=True, slots=True)
class _Unanswered:
    """How a reader ended that did not answer. `first`: it had read no other program."""

    first: bool
    took_s: float


class ModuleReader:
    """The executor's end. Made once, by the main thread, before there are others; `read` is for any thread."""

    def __init__(self) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        parent = os.getpid()
        # What is on its way to standard error would be written by both.
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _keep_a_reader(theirs, parent)
        theirs.close()

    def read(self, program: bytes, device_count: int, session: SessionNumber) -> tuple[Any, ModuleFacts]:
        """The MLIR module of a program and what is to be known of it; raises Refused with one sentence."""
        with self._lock:
            written = self._written_anew(program, device_count, session)
        try:
            module = runtime.parse_written(written)
        except Exception as error:
            cause = " ".join(str(error).split())
            raise refuse(Reason.COMPILE_ERROR, f"the program cannot be written anew ({cause}); mend it") from error
        return module, read_module(module)

    def close(self) -> None:
        """Ends the processes; for tests, an executor's end with it."""
        self._channel.close()
        os.waitpid(self.pid, 0)

    def _written_anew(self, program: bytes, device_count: int, session: SessionNumber) -> bytes:
        question = device_count.to_bytes(8, "little") + program
        answer = self._ask(question, session)
        if isinstance(answer, _Unanswered) and not answer.first:
            # It may have ended for what it read before.
            answer = self._ask(question, session)
        if isinstance(answer, _Unanswered):
            if answer.took_s >= _READ_S:
                raise _refused(f"it was not read within {_READ_S:g} s of a core's time")
            raise _refused("the process that reads programs did not survive it")
        failure, written = answer
        if failure.reason:
            raise Refused(failure)
        return written

    def _ask(self, question: bytes, session: SessionNumber) -> tuple[types_pb2.Failure, bytes] | _Unanswered:
        ours, theirs = socket.socketpair()
        begun, begun_ns = None, time.monotonic_ns()
        with ours:
            with theirs:
                try:
                    socket.send_fds(self._channel, [session.to_bytes(_SESSION_BYTES, "little")], [theirs.fileno()])
                except OSError as error:
                    _end_executor(f"the process that reads programs is gone ({error.strerror})")
            ours.settimeout(_UNANSWERED_S)
            answers = FrameReader(ours)
            try:
                write_frame(ours, question)
                # It takes as long as reading a small one does: meanwhile.
                runtime.prepare_context()
                begun = answers.read()
                told, written = answers.read(), answers.read()
                if told is not None and written is not None:
                    return types_pb2.Failure.FromString(told), written
            except TimeoutError:
                _end_executor("the process that reads programs does not answer")
            except (OSError, DecodeError):
                pass
        if self._keeper_ended():
            _end_executor("the process that reads programs is gone")
        if begun is not None:
            begun_ns = int.from_bytes(begun[1:], "little")
        return _Unanswered(begun is not None and begun[:1] == _FIRST, (time.monotonic_ns() - begun_ns) / 1e9)

    def _keeper_ended(self) -> bool:
        """Whether the process that forks readers is gone, and took its reader with it; leaves it to `close` to reap."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            # Another process's child: who was forked from this one asks too, in fuzzing.
            return False


def _refused(what: str) -> Refused:
    return refuse(Reason.PROGRAM_REFUSED, f"the program is refused because {what}; it is damaged, make it anew")


def _end_executor(why: str) -> NoReturn:
    """Without a reader it can load nothing any more; by this exit code no program is blamed."""
    print(f"executor ends: {why}", file=sys.stderr, flush=True)
    os._exit(1)


_READER: list[ModuleReader] = []


def start() -> None:
    """From now on programs are read by a process of their own. Once, before this one has threads of its own."""
    if not _READER:
        _READER.append(ModuleReader())


def read(program: bytes, device_count: int, session: SessionNumber) -> tuple[Any, ModuleFacts]:
    """The module of a client's program and its facts; raises Refused. Read in this process only where none was started for it."""
    if len(program) > PROGRAM_BYTES_MAX:
        raise refuse(Reason.PROGRAM_REFUSED, f"the program has {len(program)} bytes; at most {PROGRAM_BYTES_MAX} are compiled")
    if _READER:
        return _READER[0].read(program, device_count, session)
    module = read_program(program, device_count)
    return module, read_module(module)


# ---- the process ---------------------------------------------------------------------------------------------------------


def _keep_a_reader(channel: socket.socket, parent: int) -> NoReturn:
    """Replaces the reader whenever it ends, until the executor does."""
    code = 1
    try:
        die_with_parent(parent)
        _let_go_of_all_but(channel)
        # Every reader has it from here, and need not make its own.
        runtime.prepare_context(alone=True)
        while (ended := _one_reader(channel)) != _DONE:
            if ended != _REPLACE:
                how = signal.Signals(-ended).name if ended < 0 else f"exit code {ended}"
                print(f"a program ended the process that read it: {how}; another reads on", file=sys.stderr, flush=True)
                time.sleep(_REST_S)
        code = 0
    except BrokenPipeError:
        pass  # nobody reads what we say: the executor is gone, and its daemon
    except BaseException:
        _say_why()
    finally:
        os._exit(code)


def _say_why() -> None:
    with suppress(OSError):
        print(f"a process that reads programs ends:\n{traceback.format_exc()}", file=sys.stderr, flush=True)


def _let_go_of_all_but(channel: socket.socket) -> None:
    """What the executor holds open is none of our business, and would not be seen to close."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != channel.fileno():
            with suppress(OSError):
                os.close(int(name))
    faulthandler.unregister(STACKS_SIGNAL)
    signal.signal(STACKS_SIGNAL, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(_PR_SET_NAME, NAME, 0, 0, 0)
    gc.freeze()


def _one_reader(channel: socket.socket) -> int:
    """Its exit code, or minus the signal that ended it."""
    parent = os.getpid()
    pid = _fork()
    if pid == 0:
        code = 1
        try:
            die_with_parent(parent)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            code = _serve(channel)
        except BaseException:
            _say_why()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _fork() -> int:
    """Tries until it succeeds, for as long as the executor lives: it waits for a reader only so long."""
    pause_s = _RETRY_S
    while True:
        try:
            return os.fork()
        except OSError as error:
            why = f"no process to read programs can be forked ({error.strerror}); tried again in {pause_s:g} s"
            print(why, file=sys.stderr, flush=True)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _RETRY_MAX_S)


def _memory_bytes() -> int:
    """What of this process is mapped, as RLIMIT_AS counts it."""
    with open("/proc/self/statm") as figures:
        return int(figures.read().split()[0]) * resource.getpagesize()


def _limit_memory(most_bytes: int) -> None:
    """Within the limit that this process was given, which it may not raise."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most_bytes if hard == resource.RLIM_INFINITY else min(most_bytes, hard), hard))


def _serve(channel: socket.socket) -> int:
    """Reads programs of one session until the executor ends or another reader should take over."""
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, signal.SIG_DFL)
    at_first_bytes = _memory_bytes()
    session = None
    for _ in range(READER_PROGRAMS_MAX):
        runtime.prepare_context(alone=True)
        asked_for = channel.recv(_SESSION_BYTES, socket.MSG_PEEK)
        if not asked_for:
            return _DONE
        first = session is None
        if not first and asked_for != session:
            # Left where it is, for the next reader.
            return _REPLACE
        session, descriptors, _, _ = socket.recv_fds(channel, _SESSION_BYTES, 1)
        # The kernel ends who takes too long, also in native code.
        signal.setitimer(signal.ITIMER_PROF, _READ_S)
        signal.setitimer(signal.ITIMER_REAL, _READ_WALL_S)
        size_bytes = 0
        # Whoever asked may be gone.
        with socket.socket(fileno=descriptors[0]) as asker, suppress(OSError):
            write_frame(asker, (_FIRST if first else _NOT_FIRST) + time.monotonic_ns().to_bytes(8, "little"))
            question = FrameReader(asker).read()
            if question is not None:
                size_bytes = len(question)
                _limit_memory(at_first_bytes + READER_MEMORY_BYTES + _COPIES * size_bytes)
                failure, written = _answer(question)
                del question
                write_frame(asker, failure)
                write_frame(asker, written)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if size_bytes > READER_PROGRAM_BYTES:
            break
    return _REPLACE


def _answer(question: bytes) -> tuple[bytes, bytes]:
    """A failure, empty if there is none, and the program written anew."""
    device_count, program = int.from_bytes(question[:8], "little"), question[8:]
    try:
        module = read_program(program, device_count)
        read_module(module)
        return b"", runtime.write_module(module)
    except Refused as refusal:
        failure = refusal.failure
    except Exception as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        failure = make_failure(Reason.COMPILE_ERROR, f"the program could not be read ({cause}); make it anew")
    return failure.SerializeToString(), b""
