"""pathways-server as a process: one line when up, an orderly end by signal, one sentence for each thing that can be wrong."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest


def start(tmp_path: Path, *arguments: str) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PATHWAYS_")}
    environment["PATHWAYS_STATE_DIR"] = str(tmp_path / "state")
    command = [sys.executable, "-m", "pathways_server.main", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def refused(tmp_path: Path, *arguments: str) -> str:
    """The stderr of a start that fails."""
    with start(tmp_path, *arguments) as process:
        out, error = process.communicate(timeout=60)
    assert process.returncode == 1, error
    assert out == ""
    assert "Traceback" not in error
    return error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_controller_says_where_it_listens_and_ends_with_code_zero(tmp_path: Path, number: signal.Signals) -> None:
    with start(tmp_path, "--listen", "127.0.0.1:0") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            assert line.startswith("listening grpc://127.0.0.1:")
            with socket.create_connection(("127.0.0.1", int(line.rpartition(":")[2])), timeout=10):
                pass
            process.send_signal(number)
            out, error = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out) == (0, ""), error
    assert '"message": "controller up"' in error
    assert "Traceback" not in error


def test_a_port_in_use_is_one_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error = refused(tmp_path, "--listen", address)
    sentence = f"cannot listen on {address} (Address already in use); stop what uses it or choose another --listen"
    assert error == f"pathways-server: {sentence}\n"


def test_a_bad_setting_is_one_sentence(tmp_path: Path) -> None:
    error = refused(tmp_path, "--listen", "nowhere")
    assert error == "pathways-server: listen is 'nowhere' on the command line; it must be HOST:PORT\n"
