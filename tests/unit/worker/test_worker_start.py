"""How `pathways-worker` starts and ends as a process: settings, one sentence when it cannot, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
from pathways_common.model.failure import PathwaysError
from pathways_common.process.child import start_time
from pathways_common.process.state import default_state_dir
from pathways_proto.v1 import types_pb2, workers_pb2
from pathways_worker import main
from pathways_worker.config import parse_arguments

from tests.unit.worker.fake_controller import EXECUTOR, LIMIT_S, FakeController, run, until

NEEDED = ["--controller", "grpc://127.0.0.1:29000", "--island", "a"]
# The real daemon with the fake executor.
PROGRAM = f"""
import sys, uvloop
from pathways_worker import app, main
real = app.App
main.serve.__globals__["App"] = lambda config: real(config, {EXECUTOR!r}, ("false",))
main.main()
"""


def test_defaults_file_environment_and_flags_in_that_order(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text('controller = "10.0.0.1:1"\nisland = "x"\nhost = "x0"\ndevices = 2\njoin_timeout_s = 5\nkeep_spare = false\n')
    environment = {"PATHWAYS_WORKER_DEVICES": "4", "PATHWAYS_WORKER_CONFIG": str(file), "PATHWAYS_STATE_DIR": str(tmp_path)}
    config = parse_arguments(["--island", "b", "--device-memory", "1000", "--no-auth"], environment)
    assert (config.controller, config.island, config.host) == ("10.0.0.1:1", "b", "x0")
    assert (config.devices, config.join_timeout_s, config.device_memory) == (4, 5, 1000)
    assert (config.keep_spare, config.auth, config.state_dir) == (False, False, tmp_path)
    plain = parse_arguments(NEEDED, {})
    assert (plain.devices, plain.join_timeout_s, plain.data_listen, plain.device_memory) == (1, 60, "127.0.0.1:0", 0)
    assert plain.host == socket.gethostname().partition(".")[0]


def test_what_spilled_arrays_may_take_up_is_set_like_the_rest(tmp_path: Path) -> None:
    plain = parse_arguments(NEEDED, {})
    total_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < plain.spill_memory <= total_bytes // 4
    assert (plain.spill_disk, plain.spill_dir) == (10 << 30, None)
    flags = ["--spill-memory", "100", "--spill-disk", "0", "--spill-dir", str(tmp_path)]
    config = parse_arguments([*NEEDED, *flags], {"PATHWAYS_WORKER_SPILL_DISK": "7"})
    assert (config.spill_memory, config.spill_disk, config.spill_dir) == (100, 0, tmp_path)
    with pytest.raises(PathwaysError, match="spill_dir is '' in PATHWAYS_WORKER_SPILL_DIR; it must be the path of a directory"):
        parse_arguments(NEEDED, {"PATHWAYS_WORKER_SPILL_DIR": ""})


def test_what_images_may_take_up_on_disk_is_set_like_the_rest(tmp_path: Path) -> None:
    plain = parse_arguments(NEEDED, {})
    assert (plain.image_disk, plain.image_dir) == (1 << 30, None)
    config = parse_arguments([*NEEDED, "--image-disk", "0", "--image-dir", str(tmp_path)], {})
    assert (config.image_disk, config.image_dir) == (0, tmp_path)


def test_a_host_says_where_its_devices_are_and_what_they_are_called(tmp_path: Path) -> None:
    flags = ["--devices", "2", "--topology", "2x2", "--coordinates", "0,0:1,0", "--device-kind", "fast one"]
    config = parse_arguments([*NEEDED, *flags], {})
    assert (config.topology, config.coordinates, config.device_kind) == ((2, 2), ((0, 0), (1, 0)), "fast one")
    file = tmp_path / "worker.toml"
    file.write_text("devices = 2\ntopology = [2, 2]\ncoordinates = [[0, 0], [1, 0]]\n")
    assert parse_arguments([*NEEDED, "--config", str(file)], {}).coordinates == ((0, 0), (1, 0))
    file.write_text('topology = "3"\ncoordinates = [2]\n')
    assert parse_arguments([*NEEDED, "--config", str(file)], {}).coordinates == ((2,),)
    plain = parse_arguments(NEEDED, {})
    assert (plain.topology, plain.coordinates, plain.device_kind) == ((), (), "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([*NEEDED, "--topology", "2x0"], "topology is '2x0' on the command line; it must be one to three sizes from 1 to 4096"),
        (
            [*NEEDED, "--coordinates", "0;1"],
            "coordinates is '0;1' on the command line; it must be one coordinate for each device",
        ),
        ([*NEEDED, "--device-kind", " "], "device_kind is ' ' on the command line; it must be 1 to 64 characters"),
        ([*NEEDED, "--topology", "2x2"], "topology is given without coordinates; give both, or neither"),
        ([*NEEDED, "--coordinates", "0"], "coordinates is given without topology; give both, or neither"),
        (
            [*NEEDED, "--topology", "2", "--coordinates", "0:1"],
            "coordinates has 2 entries and devices is 1; give one for each device",
        ),
        (
            [*NEEDED, "--topology", "2x2", "--coordinates", "0,2"],
            "coordinates holds 0,2, which is no place of topology 2x2; give each size an index below it",
        ),
        (["--island", "a"], "no controller is given; start the worker with --controller grpc://HOST:PORT"),
        (["--controller", "127.0.0.1:1"], "no island is given; start the worker with --island a"),
        ([*NEEDED, "--controller", "http://x"], "controller is 'http://x' on the command line; it must be grpc://HOST:PORT"),
        ([*NEEDED, "--devices", "0"], "devices is '0' on the command line; it must be a whole number from 1 to 1024"),
        ([*NEEDED, "--host", "a/../b"], "host is 'a/../b' on the command line; it must be 1 to 64 letters"),
        (
            [*NEEDED, "--config", "/nowhere.toml"],
            "the configuration file /nowhere.toml cannot be read (No such file or directory)",
        ),
        (
            [*NEEDED, "--thread-placement", "apart"],
            "thread_placement is 'apart' on the command line; it must be none or split",
        ),
        (
            [*NEEDED, "--ffi-libraries", "/nowhere.so"],
            "ffi_libraries names /nowhere.so on the command line, and there is no such file; correct the path or leave it out",
        ),
    ],
)
def test_a_wrong_setting_is_one_sentence(arguments: list[str], sentence: str) -> None:
    with pytest.raises(PathwaysError) as caught:
        parse_arguments(arguments, {})
    assert caught.value.failure.message.startswith(sentence)


@pytest.mark.parametrize("value", ['""', '" "', "5"])
def test_a_state_directory_that_is_no_path_is_refused_and_not_the_current_one(tmp_path: Path, value: str) -> None:
    file = tmp_path / "worker.toml"
    file.write_text(f"state_dir = {value}\n")
    with pytest.raises(PathwaysError, match="it must be the path of a directory"):
        parse_arguments([*NEEDED, "--config", str(file)], {})
    with pytest.raises(PathwaysError, match="it must be the path of a directory"):
        parse_arguments([*NEEDED, "--state-dir", ""], {})


def test_libraries_of_native_code_come_from_the_executor_table_of_the_file(tmp_path: Path) -> None:
    library = tmp_path / "ours.so"
    library.touch()
    file = tmp_path / "worker.toml"
    file.write_text(f'executor.ffi_libraries = ["{library}"]\n')
    assert parse_arguments([*NEEDED, "--config", str(file)], {}).ffi_libraries == (library,)
    both = {"PATHWAYS_WORKER_FFI_LIBRARIES": f"{library}:{library}"}
    assert parse_arguments(NEEDED, both).ffi_libraries == (library, library)
    file.write_text("executor.ffi_libraries = 5\n")
    with pytest.raises(PathwaysError, match=r"ffi_libraries is 5 in .*worker\.toml; it must be the paths of libraries"):
        parse_arguments([*NEEDED, "--config", str(file)], {})


def test_threads_are_placed_only_where_a_file_a_variable_or_a_flag_says_so(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text('executor.thread_placement = "split"\n')
    from_file = [*NEEDED, "--config", str(file)]
    assert parse_arguments(NEEDED, {}).thread_placement == "none"
    assert parse_arguments(from_file, {}).thread_placement == "split"
    assert parse_arguments(NEEDED, {"PATHWAYS_WORKER_THREAD_PLACEMENT": "split"}).thread_placement == "split"
    assert parse_arguments([*from_file, "--thread-placement", "none"], {}).thread_placement == "none"
    for text in ('thread_placement = ["split"]\n', "executor.thread_placement = true\n", 'thread_placement = ""\n'):
        file.write_text(text)
        with pytest.raises(PathwaysError, match=r"thread_placement is .* in .*worker\.toml; it must be none or split"):
            parse_arguments(from_file, {})
    file.write_text('executor.thread_placement = "split"\nexecutor.niceness = 3\n')
    with pytest.raises(PathwaysError, match="has the unknown setting 'executor'"):
        parse_arguments(from_file, {})


def test_executors_take_no_core_from_others_only_where_a_file_a_variable_or_a_flag_says_so(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text('executor.thread_scheduling = "batch"\n')
    from_file = [*NEEDED, "--config", str(file)]
    assert parse_arguments(NEEDED, {}).thread_scheduling == "normal"
    assert parse_arguments(from_file, {}).thread_scheduling == "batch"
    assert parse_arguments(NEEDED, {"PATHWAYS_WORKER_THREAD_SCHEDULING": "batch"}).thread_scheduling == "batch"
    assert parse_arguments([*from_file, "--thread-scheduling", "normal"], {}).thread_scheduling == "normal"
    with pytest.raises(PathwaysError, match=r"thread_scheduling is 'idle' on the command line; it must be normal or batch"):
        parse_arguments([*NEEDED, "--thread-scheduling", "idle"], {})


def test_an_empty_variable_names_no_state_directory() -> None:
    assert parse_arguments([*NEEDED], {"PATHWAYS_STATE_DIR": ""}).state_dir == default_state_dir().path


def test_a_name_in_the_file_that_is_a_number_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text("host = 7\n")
    with pytest.raises(PathwaysError, match=r"host is 7 in .*worker\.toml; it must be 1 to 64 letters"):
        parse_arguments([*NEEDED, "--config", str(file)], {})


def test_an_unknown_setting_is_named(tmp_path: Path) -> None:
    file = tmp_path / "worker.toml"
    file.write_text("colour = 1\n")
    with pytest.raises(PathwaysError, match="unknown setting 'colour'"):
        parse_arguments([*NEEDED, "--config", str(file)], {})


async def start(state: Path, controller: FakeController, *flags: str) -> asyncio.subprocess.Process:
    address = f"grpc://127.0.0.1:{controller.port}"
    arguments = ["--controller", address, "--island", "a", "--host", "a0", "--state-dir", str(state), "--no-auth", *flags]
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )


def executor_pids(controller: FakeController) -> list[int]:
    return [int(line.removeprefix("pid=")) for line in controller.log_lines() if line.startswith("pid=")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_daemon_and_its_executor(tmp_path: Path, number: signal.Signals) -> None:
    async def scenario() -> None:
        controller = FakeController()
        await controller.start()
        process = await start(tmp_path, controller)
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), LIMIT_S) == b"joined a0\n"
        await controller.enter()
        (executor,) = await until(lambda: executor_pids(controller), "the executor")
        process.send_signal(number)
        _, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
        assert process.returncode == 0, errors.decode()
        assert b"Traceback" not in errors
        assert start_time(executor) is None
        await controller.stop()

    asyncio.run(asyncio.wait_for(scenario(), 3 * LIMIT_S))


def test_no_executor_outlives_a_daemon_that_was_killed(tmp_path: Path) -> None:
    async def scenario() -> None:
        controller = FakeController()
        await controller.start()
        process = await start(tmp_path, controller)
        await controller.enter()
        (executor,) = await until(lambda: executor_pids(controller), "the executor")
        process.kill()
        await process.wait()
        await until(lambda: start_time(executor) is None, "the executor to end")
        await controller.stop()

    asyncio.run(asyncio.wait_for(scenario(), 3 * LIMIT_S))


def test_what_keeps_it_from_starting_is_one_sentence_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    async def scenario() -> None:
        controller = FakeController()
        await controller.start()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen(1)
            port = taken.getsockname()[1]
            for flag, word in (("--data-listen", f"127.0.0.1:{port}"), ("--metrics-port", str(port))):
                process = await start(tmp_path, controller, flag, word)
                _, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
                last = errors.decode().splitlines()[-1]
                assert process.returncode == 1
                assert last.startswith("pathways-worker: ")
                assert str(port) in last
                assert flag in last
                assert b"Traceback" not in errors
        await controller.stop()
        process = await start(tmp_path, controller, "--join-timeout", "0")
        _, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
        assert process.returncode == 1
        assert "could not be joined within 0 s" in errors.decode().splitlines()[-1]
        assert b"Traceback" not in errors

    asyncio.run(asyncio.wait_for(scenario(), 3 * LIMIT_S))


def test_a_host_with_another_jaxlib_ends_with_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    older = types_pb2.Versions(jaxlib="0.9.2")
    monkeypatch.setattr(main, "own_versions", lambda with_jax: older)
    monkeypatch.setattr(main, "setup", lambda name: None)
    assert main.run([*NEEDED, "--state-dir", str(tmp_path)]) == 1
    sentence = "this host has jaxlib 0.9.2, and workers compute with 0.10 from 0.10.2 on: install jax and jaxlib 0.10.2 here"
    assert capsys.readouterr().err == f"pathways-worker: {sentence}\n"


def test_a_host_that_is_turned_away_ends_with_one_sentence_on_stderr_and_exit_code_1(tmp_path: Path) -> None:
    async def scenario() -> None:
        controller = FakeController()
        await controller.start()
        process = await start(tmp_path, controller)
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readline(), LIMIT_S) == b"joined a0\n"
        word = workers_pb2.Shutdown(reason="host a0 has 1 devices and island a has 2 per host; start it alike", refused=True)
        await controller.send(workers_pb2.HostCommand(shutdown=word))
        _, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)
        await controller.stop()
        assert process.returncode == 1
        last = errors.decode().splitlines()[-1]
        assert last.startswith("pathways-worker: the controller at grpc://127.0.0.1:")
        assert last.endswith("turned this host away: host a0 has 1 devices and island a has 2 per host; start it alike")
        assert b"Traceback" not in errors

    asyncio.run(asyncio.wait_for(scenario(), 3 * LIMIT_S))


def test_metrics_are_served(tmp_path: Path) -> None:
    from urllib.request import urlopen

    from pathways_worker.app import App
    from pathways_worker.config import Config

    async def scenario() -> None:
        controller = FakeController()
        await controller.start()
        config = Config(
            controller=f"127.0.0.1:{controller.port}", island="a", host="a0", state_dir=tmp_path, auth=False, keep_spare=False
        )
        app = App(config, EXECUTOR, ("false",))
        await app.start()
        running = asyncio.create_task(app.run())
        await controller.enter()
        app.counters.gangs_launched = 12
        url = f"http://127.0.0.1:{app.metrics_port}/metrics"
        text = (await asyncio.to_thread(lambda: urlopen(url, timeout=LIMIT_S).read())).decode()
        assert "pathways_worker_gangs_launched_total 12.0" in text
        assert "pathways_worker_executor_starts_total 1.0" in text
        app.stop("done")
        await running
        await controller.stop()

    run(scenario())
