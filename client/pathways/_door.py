"""The near door: a process of ours beside this one, alive exactly as long as this one needs it.

It ends when its standard input ends, so the write end of that pipe is the leash: closed by `close`, by the last moment of the
interpreter (after every atexit function, because JAX still needs the door in its own), or by the kernel. The kernel also kills
it when the *thread* that started it ends, so a thread starts it that then waits for nothing but its end: one that woke for
anything else while the interpreter shuts down would be ended, and the door with it.
A forked child inherits nothing of it: not the leash, and not JAX's connection, over which it would take leave in the parent's
name when it ends.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import secrets
import select
import socket
import stat
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pathways_common.model.colocated import PRINTED
from pathways_common.model.failure import Failure, Reason

from pathways import errors
from pathways._target import Target

START_TIMEOUT_S = 60.0
_GRACE_S = 3.0
_STDERR_LINES = 40
_ANCHOR = "_pathways_door"
# How long an error waits for the news that the door has ended, of which it may be the first sign.
_NEWS_S = 1.0
_LOG = logging.getLogger("pathways")


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a door says once it has a session."""

    address: str
    session_number: int
    device_count: int
    # What this process, the controller and its workers are made of, in one line, and in what they differ.
    versions: str = ""
    differences: tuple[str, ...] = ()
    # The abstract socket where shared memory is brought; empty if there is none.
    bulk_socket: str = ""


class Door:
    """A running near door."""

    def __init__(
        self,
        announcement: Announcement,
        secret: str,
        leash: _Leash,
        stderr: deque[str],
        heard: threading.Event,
        ended: Future[int],
    ) -> None:
        self.announcement = announcement
        self.secret = secret
        self._leash = leash
        self._stderr = stderr
        self._heard = heard
        self._ended = ended
        ended.add_done_callback(self._on_ended)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._leash.pid

    def last_words(self) -> str:
        """The end of what it wrote to stderr."""
        return "\n".join(self._stderr)

    def obituary(self) -> str:
        """One sentence if the process has ended by itself or was killed, else empty. Waits a moment for that news."""
        if self._leash.held:
            with suppress(TimeoutError):
                self._ended.result(_NEWS_S)
        if not self._leash.held or not self._ended.done():
            return ""
        self._heard.wait(_NEWS_S)
        status = self._ended.result()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with exit code {status}"
        last = next((line for line in reversed(self._stderr) if line.strip()), "")
        words = f"; its last words: {last}" if last and status >= 0 else ""
        return (
            f"the door of this process (process {self.pid}) {how}, and the session and its arrays with it: connect again{words}"
        )

    def _on_ended(self, _: Future[int]) -> None:
        """In the keeper's thread: nothing else would tell the user before the next use of JAX."""
        if text := self.obituary():
            _LOG.warning("%s", text)

    def close(self) -> None:
        """Ends the session and the process; waits a few seconds, then kills. Does nothing in a forked child."""
        self._leash.close()


class _Leash:
    """Holds the pipe. `close` also runs at the very end of the interpreter and uses nothing global."""

    def __init__(self, pid: int, descriptor: int) -> None:
        self.pid = pid
        self.port = 0
        self._descriptor = descriptor
        self._owner = os.getpid()
        self._close = _close
        _LEASHES.add(self)
        setattr(sys, _ANCHOR, _Anchor(self))

    @property
    def held(self) -> bool:
        """Whether the door shall live."""
        return self._descriptor >= 0

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self._close(self.pid, descriptor, self._owner)

    def disown(self) -> None:
        """In a forked child: let go without a word."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            with suppress(OSError):
                os.close(descriptor)
            _cut_off(self.port)


class _Anchor:
    """Dies when the interpreter clears the names of `sys`, which it does last of all.

    A name in this module would not do: JAX keeps functions of ours, and with them their modules' names, beyond the end.
    """

    def __init__(self, leash: _Leash) -> None:
        self._leash = leash

    def __del__(self) -> None:
        self._leash.close()


def _close(
    pid: int,
    descriptor: int,
    owner: int,
    *,
    close: Any = os.close,
    getpid: Any = os.getpid,
    waitpid: Any = os.waitpid,
    kill: Any = os.kill,
    clock: Any = time.monotonic,
    sleep: Any = time.sleep,
    no_hang: int = os.WNOHANG,
    grace_s: float = _GRACE_S,
) -> None:
    try:
        close(descriptor)
        if getpid() != owner:
            return
        deadline = clock() + grace_s
        while clock() < deadline:
            if waitpid(pid, no_hang)[0] == pid:
                return
            sleep(0.005)
        kill(pid, 9)
        waitpid(pid, 0)
    except OSError:  # already closed, or reaped by somebody else
        return


_LEASHES: weakref.WeakSet[_Leash] = weakref.WeakSet()


def _cut_off(port: int) -> None:
    """Replaces this process's connections to a port of this machine by descriptors that lead nowhere; the parent's stay."""
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as connection:
                peer = connection.getpeername()
            if isinstance(peer, tuple) and peer[1] == port and peer[0].endswith("127.0.0.1"):  # gRPC says ::ffff:127.0.0.1
                os.dup2(nowhere, descriptor, inheritable=False)
    os.close(nowhere)


def _forget_in_child() -> None:
    for leash in list(_LEASHES):
        leash.disown()


os.register_at_fork(after_in_child=_forget_in_child)


def start_door(target: Target, jaxlib_version: str, timeout_s: float = START_TIMEOUT_S, command: Sequence[str] = ()) -> Door:
    """Starts a door and waits until it has a session. Raises errors.PathwaysError with the door's own sentence if it gets none.

    `command` replaces `python -m pathways_door` in tests.
    """
    secret = secrets.token_hex(16)
    # -P: a `random.py` beside the user's script must not become a module of the door.
    line = [*(command or (sys.executable, "-P", "-m", "pathways_door")), "--controller", target.controller]
    line += ["--client", describe_client(), "--jaxlib-version", jaxlib_version]
    if target.islands:
        line += ["--islands", target.islands]
    started: Future[subprocess.Popen[bytes]] = Future()
    stderr: deque[str] = deque(maxlen=_STDERR_LINES)
    ended = threading.Event()
    status: Future[int] = Future()
    arguments = line, _environment(target, secret), started, status
    keeper = threading.Thread(target=_keep, args=arguments, name="pathways-door", daemon=True)
    keeper.start()
    try:
        process = started.result(timeout=timeout_s)
    except OSError as error:
        raise _unavailable(f"the door process could not be started ({error.strerror}): {line[0]}") from None
    reader = threading.Thread(target=_listen, args=(process, stderr, ended), name="pathways-door-stderr", daemon=True)
    reader.start()
    assert process.stdin is not None
    leash = _Leash(process.pid, os.dup(process.stdin.fileno()))
    process.stdin.close()
    try:
        announcement = _read_announcement(process, timeout_s, stderr, ended)
        port = announcement.address.rpartition(":")[2]
        leash.port = int(port) if port.isdecimal() else 0
        if announcement.versions:
            _LOG.log(logging.WARNING if announcement.differences else logging.INFO, "%s", announcement.versions)
        return Door(announcement, secret, leash, stderr, ended, status)
    except errors.UnavailableError as error:
        leash.close()
        raise _unavailable(f"no session with the controller at grpc://{target.controller}: {error}") from None
    except BaseException:
        leash.close()
        raise


def describe_client() -> str:
    """User, machine, process and script, for people who read `pathways status`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    script = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    return f"{user}@{socket.gethostname()} {os.getpid()} {script}"


def _environment(target: Target, secret: str) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PATHWAYS_TOKEN", "PATHWAYS_TOKEN_FILE")}
    # The start-up hook of `pathways run` is for the user's Python, not for ours.
    hook = environment.pop("PATHWAYS_STARTUP_HOOK", None)
    if hook is not None:
        paths = [path for path in environment.get("PYTHONPATH", "").split(os.pathsep) if path and path != hook]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    if target.token:
        environment["PATHWAYS_TOKEN"] = target.token
    environment["PATHWAYS_DOOR_SECRET"] = secret
    return environment


def _keep(line: list[str], environment: dict[str, str], started: Future[subprocess.Popen[bytes]], status: Future[int]) -> None:
    try:
        process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the script
        )
    except OSError as error:
        started.set_exception(error)
        return
    started.set_result(process)
    status.set_result(process.wait())


def _heard(line: str, stderr: deque[str]) -> None:
    """What colocated Python printed on a host is shown; the door's own lines are kept."""
    if line.startswith(PRINTED):
        print(line.removeprefix(PRINTED), flush=True)
    else:
        stderr.append(line)


def _listen(process: subprocess.Popen[bytes], stderr: deque[str], ended: threading.Event) -> None:
    assert process.stderr is not None
    descriptor = process.stderr.fileno()
    rest = b""
    # os.read and not readline: a thread stopped inside a buffered reader aborts the interpreter's shutdown.
    while chunk := os.read(descriptor, 65536):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            _heard(line.decode(errors="replace"), stderr)
    if rest:
        stderr.append(rest.decode(errors="replace"))
    ended.set()


def _read_announcement(
    process: subprocess.Popen[bytes], timeout_s: float, stderr: deque[str], ended: threading.Event
) -> Announcement:
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    deadline = time.monotonic() + timeout_s
    text = b""
    while b"\n" not in text:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
            raise errors.from_failure(
                Failure(Reason.TIMED_OUT, f"the door process had no session with the cluster after {timeout_s:g} s"),
                at_start=True,
            )
        chunk = os.read(descriptor, 65536)
        if not chunk:
            ended.wait(timeout=2.0)
            last = next((line for line in reversed(stderr) if line.strip()), "it wrote nothing to stderr")
            raise _unavailable(f"the door process ended before it had a session with the cluster; its last words: {last}")
        text += chunk
    return _announcement(text.split(b"\n", 1)[0])


def _announcement(line: bytes) -> Announcement:
    try:
        said = json.loads(line)
        if "failure" not in said:
            differences = tuple(map(str, said.get("differences", ())))
            return Announcement(
                str(said["address"]),
                int(said["session_number"]),
                int(said["devices"]),
                str(said.get("versions", "")),
                differences,
                str(said.get("bulk", "")),
            )
        failure = said["failure"]
        reason = Reason.__members__.get(str(failure["reason"]), Reason.INTERNAL)
        message = str(failure["message"])
    except (ValueError, KeyError, TypeError):
        raise _unavailable(f"the door process spoke no address but {line[:200].decode(errors='replace')!r}") from None
    raise errors.from_failure(Failure(reason, message), at_start=True)


def _unavailable(sentence: str) -> errors.PathwaysError:
    return errors.from_failure(Failure(Reason.UNAVAILABLE, sentence, retryable=True), at_start=True)
