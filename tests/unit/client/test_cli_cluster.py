"""`up`, `down`, `status` and the clusters of `run`, with fake daemons as real processes: all is started, named, and ended."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pathways.cli.launch import GRACE_S
from pathways_common.process.child import alive

_FAKES = Path(__file__).with_name("fakes")
WAIT_S = 60.0
_COMMAND = [sys.executable, str(_FAKES / "pathways_with_fakes.py")]


class _Shell:
    """Runs commands in one environment with one state directory, and remembers every process that cluster.json ever named."""

    def __init__(self, directory: Path) -> None:
        self.state = directory / "state"
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "PATHWAYS_", "XLA_"))}
        self.environment = clean | {"PYTHONPATH": str(_FAKES), "PATHWAYS_STATE_DIR": str(self.state), "TMPDIR": str(directory)}
        self.named: list[tuple[int, int]] = []

    def run(self, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*_COMMAND, *words],
            env=self.environment | environment,
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
            check=False,
        )
        self.note()
        return done

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*_COMMAND, *words],
            env=self.environment | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def note(self, state: Path | None = None) -> dict[str, Any]:
        file = (state or self.state) / "cluster.json"
        cluster: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        self.named += [(entry["pid"], entry["start_time"]) for entry in cluster.get("processes", ())]
        return cluster

    def living(self) -> list[int]:
        return [pid for pid, started in set(self.named) if alive(pid, started)]

    def wait(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, f"waited {WAIT_S} s for {what}"
            time.sleep(0.02)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[_Shell]:
    shell = _Shell(tmp_path)
    yield shell
    shell.run("down")
    left = shell.living()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left


def _one_sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("pathways: ")
    return done.stderr


def test_detached_cluster_is_named_in_full_and_ended_by_down(shell: _Shell) -> None:
    done = shell.run("up", "--islands", "2", "--hosts", "2", "--port", "0", "--detach", "--topology", "2")
    assert done.returncode == 0, done.stderr
    cluster = shell.note()
    assert done.stdout == f"ready {cluster['address']}\n"
    assert [entry["name"] for entry in cluster["processes"]] == ["controller", "a0", "a1", "b0", "b1"]
    assert cluster["islands"]["b"] == {"hosts": ["b0", "b1"], "devices": 1}
    assert cluster["topology"] == "2"
    assert len(shell.living()) == 5
    assert oct(shell.state.stat().st_mode)[-3:] == "700"
    down = shell.run("down")
    assert (down.returncode, down.stdout) == (0, "stopped 5 processes\n")
    assert not shell.living()
    assert not (shell.state / "cluster.json").exists()


def test_down_without_a_cluster_says_so_and_succeeds(shell: _Shell) -> None:
    done = shell.run("down")
    assert done.returncode == 0
    assert done.stdout.startswith("nothing to stop")


@pytest.mark.slow
def test_down_ends_daemons_that_cling_to_life(shell: _Shell) -> None:
    assert shell.run("up", "--port", "0", "--detach", FAKE_WORKER="clings").returncode == 0
    assert shell.run("down").returncode == 0
    assert not shell.living()


def test_down_never_touches_a_process_that_only_has_the_number(shell: _Shell) -> None:
    shell.state.mkdir()
    entry = {"name": "a0", "pid": os.getpid(), "start_time": 1}
    (shell.state / "cluster.json").write_text(json.dumps({"address": "grpc://127.0.0.1:1", "processes": [entry]}))
    done = shell.run("down")
    assert (done.returncode, done.stdout) == (0, "nothing to stop: the cluster had ended already\n")


@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGINT, signal.SIGINT], [signal.SIGTERM]])
def test_foreground_cluster_ends_with_its_command(shell: _Shell, signals: list[signal.Signals]) -> None:
    process = shell.start("up", "--port", "0", FAKE_WORKER="clings" if len(signals) == 2 else "")
    assert process.stdout is not None
    assert process.stdout.readline().startswith("ready grpc://127.0.0.1:")
    shell.note()
    assert len(shell.living()) == 2
    began = time.monotonic()
    for count, number in enumerate(signals):
        if count:  # signals that come close after one another may be taken for one
            shell.wait(lambda: "asked to end" in (shell.state / "logs" / "a0.log").read_text(), "the first signal to be heard")
        process.send_signal(number)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert not shell.living()
    assert not (shell.state / "cluster.json").exists()
    if len(signals) == 2:
        assert time.monotonic() - began < GRACE_S, "the second signal does not wait for the grace period"


def test_down_ends_a_foreground_cluster_too(shell: _Shell) -> None:
    process = shell.start("up", "--port", "0")
    assert process.stdout is not None
    process.stdout.readline()
    assert shell.run("down").stdout == "stopped 2 processes\n"
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert not shell.living()


def test_killed_command_takes_its_daemons_with_it(shell: _Shell) -> None:
    process = shell.start("up", "--port", "0")
    assert process.stdout is not None
    process.stdout.readline()
    shell.note()
    process.kill()
    process.communicate(timeout=WAIT_S)
    shell.wait(lambda: not shell.living(), "the daemons to end with their command")


def test_interrupt_while_starting_leaves_nothing(shell: _Shell) -> None:
    process = shell.start("up", "--port", "0", FAKE_WORKER_LOST="a0")
    shell.wait(lambda: len(shell.note().get("processes", ())) == 2, "the worker to be started")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 128 + signal.SIGINT
    assert not shell.living()
    assert not (shell.state / "cluster.json").exists()


def test_second_cluster_in_a_state_directory_is_refused_and_the_first_left_alone(shell: _Shell) -> None:
    assert shell.run("up", "--port", "0", "--detach").returncode == 0
    assert "a cluster runs already at grpc://127.0.0.1:" in _one_sentence(shell.run("up", "--port", "0", "--detach"))
    assert len(shell.living()) == 2


def test_of_two_commands_at_once_one_starts_and_the_other_is_refused(shell: _Shell) -> None:
    both = [shell.start("up", "--port", "0", "--detach") for _ in range(2)]
    said = [process.communicate(timeout=WAIT_S) for process in both]
    shell.note()
    assert sorted(process.returncode for process in both) == [0, 1], said
    refusal = next(err for process, (_, err) in zip(both, said, strict=True) if process.returncode)
    assert "runs already at" in refusal or "starts a cluster in" in refusal
    assert len(shell.living()) == 2


def test_the_start_of_a_cluster_excludes_any_other_in_its_state_directory(shell: _Shell) -> None:
    shell.state.mkdir()
    with (shell.state / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        text = _one_sentence(shell.run("up", "--port", "0", "--detach"))
    assert "another `pathways up` starts a cluster in" in text
    assert not (shell.state / "cluster.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("--timeout", "nan"),
        ("--timeout", "inf"),
        ("--device-memory", "9999999999T"),
        ("--hosts", "65"),
        ("--state-dir", ""),
        ("--islands", "0"),
    ],
)
def test_absurd_numbers_are_refused_before_anything_starts(shell: _Shell, words: tuple[str, str]) -> None:
    done = shell.run("up", "--port", "0", "--detach", *words)
    assert done.returncode == 2
    assert f"Invalid value for '{words[0]}'" in done.stderr
    assert not shell.state.exists()
    assert not shell.state.exists()


@pytest.mark.parametrize(
    "entry", [{"pid": 1, "start_time": 0}, {"pid": -1, "start_time": 5, "name": "a0"}, {"pid": 10**20, "start_time": 5}, 7]
)
def test_down_forgets_a_cluster_file_that_makes_no_sense(shell: _Shell, entry: object) -> None:
    shell.state.mkdir()
    (shell.state / "cluster.json").write_text(json.dumps({"processes": [entry], "launcher": entry}))
    done = shell.run("down")
    assert (done.returncode, done.stdout) == (0, "nothing to stop: the cluster had ended already\n"), done.stderr
    (shell.state / "cluster.json").unlink(missing_ok=True)


def test_a_token_that_no_call_can_carry_is_one_sentence(shell: _Shell) -> None:
    text = _one_sentence(shell.run("status", "--address", "127.0.0.1:9", PATHWAYS_TOKEN="t\u00f6k\nen"))
    assert text.count("\n") == 1
    assert "the token holds characters that no token has" in text


def test_port_in_use_is_one_sentence(shell: _Shell) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        text = _one_sentence(shell.run("up", "--port", str(port), "--detach"))
    assert f"port {port} is in use; choose another with --port" in text


def test_worker_that_never_joins_is_named_with_the_end_of_its_log(shell: _Shell) -> None:
    text = _one_sentence(shell.run("up", "--hosts", "2", "--port", "0", "--detach", "--timeout", "8", FAKE_WORKER_LOST="a1"))
    # Time enough for the other processes to start.
    assert "host a1 did not join within 8 s" in text
    assert text.rstrip().endswith("the secret is wrong")
    assert not shell.living()


def test_daemon_that_dies_at_once_is_one_sentence_with_its_last_words(shell: _Shell) -> None:
    text = _one_sentence(shell.run("up", "--port", "0", "--detach", FAKE_CONTROLLER="dies"))
    assert "the controller ended with exit code 4 before the cluster was up" in text
    assert "the journal cannot be opened" in text


def test_topology_that_does_not_fit_is_refused(shell: _Shell) -> None:
    done = shell.run("up", "--hosts", "2", "--topology", "2x2")
    assert done.returncode == 2
    assert "--topology 2x2 has 4 places" in done.stderr


def test_hosts_are_told_where_they_are_and_what_they_are_called(shell: _Shell) -> None:
    words = ("--islands", "2", "--hosts", "2", "--devices", "2", "--topology", "2x2", "--kinds", "b=slow")
    assert shell.run("up", "--port", "0", "--detach", *words).returncode == 0
    told = {}
    for entry in shell.note()["processes"]:
        said = Path(f"/proc/{entry['pid']}/cmdline").read_text().split("\0")
        told[entry["name"]] = dict(itertools.pairwise(said))
    assert {name: each.get("--coordinates") for name, each in told.items()} == {
        "controller": None, "a0": "0,0:0,1", "a1": "1,0:1,1", "b0": "0,0:0,1", "b1": "1,0:1,1",
    }  # fmt: skip
    assert {name: each.get("--topology") for name, each in told.items()}["b1"] == "2x2"
    assert [told[name].get("--device-kind") for name in ("a0", "b0", "b1")] == [None, "slow", "slow"]


@pytest.mark.parametrize("kinds", ["fast", "c=fast", "a="])
def test_kinds_of_no_island_are_refused(shell: _Shell, kinds: str) -> None:
    done = shell.run("up", "--islands", "2", "--kinds", kinds)
    assert done.returncode == 2
    assert f"--kinds {kinds!r} is not of the form a=fast,b=slow with the islands a, b" in " ".join(done.stderr.split())


def test_status_shows_hosts_and_sessions_and_json(shell: _Shell) -> None:
    assert shell.run("up", "--hosts", "2", "--port", "0", "--detach").returncode == 0
    text = shell.run("status").stdout
    assert "a1" in text
    assert "me@here train.py" in text
    assert "up 1 min 15 s" in text
    assert "a (2x1)" in text
    assert "fast" in text
    assert "1,0" in text
    assert text.count("0.0 s") == text.count("1.5 s") == 1, "for how long others waited for a0 and for a1"
    answer = json.loads(shell.run("status", "-o", "json").stdout)
    assert [host["name"] for host in answer["islands"][0]["hosts"]] == ["a0", "a1"]
    assert answer["sessions"][0]["programs"] == "2"


def test_status_without_a_cluster_token_or_controller_is_one_sentence(shell: _Shell) -> None:
    assert "no cluster is known" in _one_sentence(shell.run("status"))
    assert "no controller answers at grpc://127.0.0.1:9" in _one_sentence(shell.run("status", "--address", "127.0.0.1:9"))
    assert "is not an address" in _one_sentence(shell.run("status", "--address", "somewhere"))
    assert shell.run("up", "--port", "0", "--detach").returncode == 0
    address = shell.note()["address"]
    elsewhere = shell.run("status", "--address", address, "--state-dir", str(shell.state / "other"))
    assert "no token was sent" in _one_sentence(elsewhere)
    assert "no token was sent" in _one_sentence(shell.run("status", PATHWAYS_TOKEN="wrong"))


def test_run_starts_a_cluster_of_its_own_and_removes_it(shell: _Shell, tmp_path: Path) -> None:
    script = "import os, sys; print(os.environ['PATHWAYS_ADDRESS'], os.environ['PATHWAYS_TOKEN_FILE']); sys.exit(7)"
    done = shell.run("run", "--hosts", "2", "--", sys.executable, "-c", script)
    assert done.returncode == 7, done.stderr
    assert done.stderr == ""
    address, token_file = done.stdout.split()
    assert address.startswith("grpc://127.0.0.1:")
    assert not Path(token_file).parent.exists()
    assert not list(tmp_path.glob("pathways-*"))


def test_run_uses_the_cluster_that_is_up_and_leaves_it(shell: _Shell) -> None:
    assert shell.run("up", "--port", "0", "--detach").returncode == 0
    address = shell.note()["address"]
    done = shell.run("run", "--", sys.executable, "-c", "import os; print(os.environ['PATHWAYS_ADDRESS'])")
    assert (done.returncode, done.stdout) == (0, f"{address}\n"), done.stderr
    assert len(shell.living()) == 2


def test_run_shows_all_islands_only_when_it_was_asked_for_several(shell: _Shell) -> None:
    script = "import os; print(os.environ.get('PATHWAYS_ISLANDS'))"
    assert shell.run("run", "--islands", "2", "--", sys.executable, "-c", script).stdout == "all\n"
    assert shell.run("run", "--", sys.executable, "-c", script).stdout == "None\n"


@pytest.mark.parametrize("count", [1, 2])
def test_interrupted_run_ends_script_and_cluster(shell: _Shell, tmp_path: Path, count: int) -> None:
    heard = "signal.signal(signal.SIGINT, lambda *_: print('heard', flush=True));"
    stubborn = f"import signal, time; {heard}" if count == 2 else "import time;"
    process = shell.start("run", "--", sys.executable, "-c", f"{stubborn} print('going', flush=True); time.sleep(60)")
    assert process.stdout is not None
    assert process.stdout.readline() == "going\n"
    (state,) = tmp_path.glob("pathways-*")
    assert len(shell.note(state)["processes"]) == 2
    for number in range(count):
        if number:  # signals that come close after one another may be taken for one
            assert process.stdout.readline() == "heard\n"
        process.send_signal(signal.SIGINT)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 128 + (signal.SIGINT if count == 1 else signal.SIGTERM)
    assert not shell.living()
    assert not state.exists()
