"""A near door lives exactly as long as its owner needs it, and its failures arrive as sentences."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from pathways import _door, _plugin, errors
from pathways._target import Target

_FAKE = [sys.executable, "-P", str(Path(__file__).with_name("fakes") / "fake_door.py")]
WAIT_S = 60.0
_TARGET = Target("127.0.0.1:29000", "the-token", "a,b")


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FAKE_DOOR_RECORD", str(tmp_path / "door"))
    monkeypatch.setenv("FAKE_DOOR", "works")
    return tmp_path / "door"


def _start(timeout_s: float = 30.0) -> _door.Door:
    return _door.start_door(_TARGET, "0.10.2", timeout_s, _FAKE)


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _wait(path: Path) -> str:
    """What is in it, once there is something."""
    deadline = time.monotonic() + WAIT_S
    while not (path.exists() and path.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return path.read_text()


def test_announcement_is_read_and_secrets_travel_in_the_environment_only(record: Path) -> None:
    door = _start()
    try:
        assert door.announcement == _door.Announcement("127.0.0.1:1", 7, 4)
        arguments = json.loads(record.with_suffix(".arguments").read_text())
        environment = json.loads(record.with_suffix(".environment").read_text())
    finally:
        door.close()
    assert arguments[arguments.index("--controller") + 1] == "127.0.0.1:29000"
    assert arguments[arguments.index("--islands") + 1] == "a,b"
    assert environment["PATHWAYS_TOKEN"] == "the-token"
    assert environment["PATHWAYS_DOOR_SECRET"] == door.secret
    assert not {"the-token", door.secret} & set(arguments)


def test_versions_that_differ_are_a_warning_in_one_line(
    record: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAKE_DOOR", "differs")
    door = _start()
    door.close()
    assert [(each.levelname, each.message) for each in caplog.records if "jaxlib" in each.message] == [
        ("WARNING", "client: jaxlib 1; worker a0: jaxlib 2")
    ]
    assert door.announcement.differences == ("jaxlib",)


def test_close_ends_it_gently_and_may_be_repeated(record: Path) -> None:
    door = _start()
    door.close()
    door.close()
    assert record.with_suffix(".ended").read_text() == "gently"
    assert not _alive(door.pid)


def test_door_that_clings_to_life_is_killed(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_DOOR", "clings")
    door = _start()
    door._leash._close = lambda *arguments: _door._close(*arguments, grace_s=0.2)
    door.close()
    assert not _alive(door.pid)


@pytest.mark.parametrize(
    ("behaviour", "kind", "words"),
    [
        ("fails", errors.UnauthenticatedError, "the token is wrong"),
        ("dies", errors.UnavailableError, "its last words: no module named so"),
        ("babbles", errors.UnavailableError, "spoke no address but 'hello'"),
        ("silent", errors.TimedOutError, "had no session with the cluster after 1 s"),
    ],
)
def test_each_way_to_fail_has_its_sentence(
    record: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str, kind: type[errors.PathwaysError], words: str
) -> None:
    monkeypatch.setenv("FAKE_DOOR", behaviour)
    with pytest.raises(kind, match=words) as caught:
        _start(1.0 if behaviour == "silent" else 30.0)
    assert caught.value.at_start


def test_missing_program_is_a_sentence(record: Path) -> None:
    with pytest.raises(errors.UnavailableError, match="could not be started"):
        _door.start_door(_TARGET, "0.10.2", 10.0, ["/nonexistent/python"])


@pytest.mark.filterwarnings("ignore:os.fork")
def test_forked_child_leaves_the_door_alone(record: Path) -> None:
    door = _start()
    try:
        child = os.fork()
        if child == 0:
            door.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert _alive(door.pid)
        assert not record.with_suffix(".ended").exists()
    finally:
        door.close()


def test_door_started_by_a_thread_outlives_that_thread(record: Path) -> None:
    doors: list[_door.Door] = []
    thread = threading.Thread(target=lambda: doors.append(_start()))
    thread.start()
    thread.join(timeout=30)
    try:
        assert not record.with_suffix(".ended").exists()
        assert _alive(doors[0].pid)
    finally:
        doors[0].close()


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What users hear by themselves, in the moment."""
    deadline = time.monotonic() + WAIT_S
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.02)
    return [record.getMessage() for record in caplog.records]


def test_door_that_is_killed_is_named_in_a_warning_and_in_every_error_after(
    record: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    door = _start()
    monkeypatch.setattr(_plugin, "current_door", lambda: door)
    assert str(errors.of(ValueError("UNAVAILABLE: writes no longer allowed"))).startswith("UNAVAILABLE: writes")
    os.kill(door.pid, signal.SIGKILL)
    sentence = (
        f"the door of this process (process {door.pid}) was killed by signal 9, and the session and its arrays with it: "
        "connect again"
    )
    error = errors.of(ValueError("UNAVAILABLE: Connection to IFRT proxy server was terminated: writes no longer allowed"))
    assert (type(error), str(error), error.retryable) == (errors.UnavailableError, sentence, True)
    assert _told(caplog) == [sentence]
    # What has another cause keeps it.
    assert isinstance(errors.of(ValueError("INTERNAL: 7 is odd")), errors.ExecutionError)
    labelled = errors.of(ValueError("CANCELLED: no\n[pathways reason=CANCELLED host=- id=f1]"))
    assert isinstance(labelled, errors.CancelledError)
    door.close()
    assert door.obituary() == ""


def test_door_that_ends_by_itself_is_told_with_its_last_words(
    record: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FAKE_DOOR", "ends")
    door = _start()
    (told,) = _told(caplog)
    assert told.startswith(f"the door of this process (process {door.pid}) ended with exit code 3, ")
    assert told.endswith("connect again; its last words: no room left")
    door.close()


def test_door_that_is_closed_is_not_mourned(record: Path, caplog: pytest.LogCaptureFixture) -> None:
    door = _start()
    door.close()
    assert door._ended.result(WAIT_S) is not None
    assert (door.obituary(), caplog.records) == ("", [])


_OWNER = """
import sys
from pathways import _door
from pathways._target import Target
import atexit, os
door = _door.start_door(Target("127.0.0.1:1", None, ""), "0", 30.0, sys.argv[1:])
atexit.register(lambda: print("at exit", os.path.exists(f"/proc/{door.pid}"), flush=True))
"""


def test_interpreter_ends_the_door_gently_after_its_exit_functions(record: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _OWNER, *_FAKE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "at exit True\n", "")
    assert _wait(record.with_suffix(".ended")) == "gently"


def test_start_up_hook_of_run_is_not_passed_on(record: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATHWAYS_STARTUP_HOOK", "/hook")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/hook", "/mine"]))
    _start().close()
    environment = json.loads(record.with_suffix(".environment").read_text())
    assert environment["PYTHONPATH"] == "/mine"
    assert "PATHWAYS_STARTUP_HOOK" not in environment
