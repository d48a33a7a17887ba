"""Stock JAX, the plugin and a real door against a controller that only says welcome: to connect, to leave, and no noise."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from pathways_proto.v1 import sessions_pb2, sessions_pb2_grpc, types_pb2


class _Sessions(sessions_pb2_grpc.SessionsServicer):  # type: ignore[misc]
    def __init__(self) -> None:
        self.hellos: list[sessions_pb2.Hello] = []
        self.ended: queue.Queue[str] = queue.Queue()

    def Connect(self, frames: Iterator[Any], context: Any) -> Iterator[Any]:  # noqa: N802
        hello = next(frames).hello
        self.hellos.append(hello)
        devices = [
            types_pb2.Device(
                device_id=index, island="a", host=f"a{index}", platform="cpu", device_kind="cpu",
                memory_kinds=["device", "pinned_host", "unpinned_host"],
            )
            for index in range(2)
        ]  # fmt: skip
        welcome = sessions_pb2.Welcome(
            session_id="5" * 32, devices=devices, platform="cpu", platform_version="1", inline_bytes_max=65536, session_number=1
        )
        yield sessions_pb2.ServerFrame(welcome=welcome)
        over = threading.Event()
        threading.Thread(target=self._read, args=(frames, over), daemon=True).start()
        over.wait(timeout=60)

    def _read(self, frames: Iterator[Any], over: threading.Event) -> None:
        reason = "no goodbye"
        try:
            for frame in frames:
                for operation in frame.operations:
                    if operation.HasField("goodbye"):
                        reason = operation.goodbye.reason
        except Exception:
            pass
        self.ended.put(reason)
        over.set()


@pytest.fixture
def controller() -> Iterator[tuple[_Sessions, str]]:
    server = grpc.server(ThreadPoolExecutor(4))
    sessions = _Sessions()
    sessions_pb2_grpc.add_SessionsServicer_to_server(sessions, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield sessions, f"grpc://127.0.0.1:{port}"
    server.stop(0.2).wait(timeout=5)


def _python(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_", "IFRT_", "PATHWAYS_"))}
    clean |= {"PATHWAYS_STATE_DIR": "/nonexistent", **environment}
    return subprocess.run([sys.executable, "-c", program], env=clean, capture_output=True, text=True, timeout=120, check=False)


_SHOW = "import jax; print([(d.id, d.host_name, d.slice_index) for d in jax.devices()], jax.process_count())"


def test_plain_script_sees_the_cluster_and_leaves_without_a_trace(controller: tuple[_Sessions, str]) -> None:
    sessions, address = controller
    done = _python(_SHOW, JAX_PLATFORMS="proxy", PATHWAYS_ADDRESS=address, PATHWAYS_TOKEN="t")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout == "[(0, 'a0', 0), (1, 'a1', 0)] 1\n"
    assert sessions.hellos[0].client.endswith(" -c")
    assert sessions.ended.get(timeout=60) != "no goodbye"


def test_first_use_of_jax_in_a_thread_that_ends_keeps_the_session(controller: tuple[_Sessions, str]) -> None:
    sessions, address = controller
    program = (
        "import threading, time, jax; t = threading.Thread(target=jax.devices); t.start(); t.join(); time.sleep(0.5)\n"
        "from pathways import _plugin; import os; os.kill(_plugin.current_door().pid, 0); print(len(jax.devices()))"
    )
    done = _python(program, JAX_PLATFORMS="proxy,cpu", PATHWAYS_ADDRESS=address)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("2\n", "")
    sessions.ended.get(timeout=60)


def test_forked_child_ends_as_it_wants_and_leaves_the_session_alone(controller: tuple[_Sessions, str]) -> None:
    sessions, address = controller
    program = (
        "import os, sys, time, warnings, jax; warnings.simplefilter('ignore'); jax.devices(); child = os.fork()\n"
        "if child == 0: sys.exit(3)\n"
        "deadline = time.monotonic() + 30\n"
        "while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline: time.sleep(0.05)\n"
        "print(ended[0] == child and os.waitstatus_to_exitcode(ended[1]))\n"
        "from pathways import _plugin; os.kill(_plugin.current_door().pid, 0)"
    )
    done = _python(program, JAX_PLATFORMS="proxy", PATHWAYS_ADDRESS=address)
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("3\n", "")
    assert sessions.ended.get(timeout=60) != "no goodbye"


def test_connection_opens_and_closes_its_session(controller: tuple[_Sessions, str]) -> None:
    sessions, address = controller
    program = f"""
import pathways as pw
for islands in ("all", ["a"]):
    with pw.connect("{address}", islands=islands) as connection:
        import jax
        assert jax.device_count() == connection.device_count == 2
        assert len(jax.devices("cpu")) == 1
assert jax.device_count() == 1
"""
    done = _python(program)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert [list(hello.islands) for hello in sessions.hellos] == [["*"], ["a"]]
    for _ in range(2):
        assert sessions.ended.get(timeout=60) != "no goodbye"


def test_a_connection_stays_when_another_library_registers_its_own_client(controller: tuple[_Sessions, str]) -> None:
    _, address = controller
    # What `pathwaysutils.initialize()` does once JAX is told of a proxy.
    program = f"""
import pathways as pw
from jax.extend import backend
with pw.connect("{address}"):
    backend.register_backend_factory("proxy", lambda: 1 / 0, priority=-1)
    import jax
    print([d.host_name for d in jax.devices()])
"""
    done = _python(program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['a0', 'a1']\n"


def test_errors_after_a_door_was_killed_name_it(controller: tuple[_Sessions, str]) -> None:
    _, address = controller
    program = f"""
import os, signal, sys, pathways as pw
connection = pw.connect("{address}")
import jax, numpy as np
device, door = jax.devices()[0], connection._door.pid
os.kill(door, signal.SIGKILL)
for work in (lambda: np.asarray(jax.device_put(np.ones(2), device)), lambda: pw.make_virtual_device_set().add_slice(devices=1)):
    try:
        work()
    except Exception as error:
        found = pw.errors.of(error)
        print(type(found).__name__, str(found).replace(str(door), "N"))
"""
    done = _python(program)
    assert done.returncode == 0, done.stderr
    sentence = (
        "the door of this process (process N) was killed by signal 9, and the session and its arrays with it: connect again"
    )
    assert done.stdout.splitlines() == [f"UnavailableError {sentence}"] * 2
    assert "was killed by signal 9" in done.stderr


def test_callback_stream_reaches_a_real_door(controller: tuple[_Sessions, str]) -> None:
    _, address = controller
    program = """
import jax
jax.devices()
from pathways import _plugin
host = _plugin.callback_host()
host.add([lambda: ()])
assert host._stream is not None and not host._stream.broken
"""
    done = _python(program, JAX_PLATFORMS="proxy,cpu", PATHWAYS_ADDRESS=address)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
