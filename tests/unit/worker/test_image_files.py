"""Files of images: whole or not there, bound to key, compiler and secret, and within their bound."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from pathways_worker.app import App
from pathways_worker.shell.image_files import ImageFolder
from pathways_worker.shell.spill_files import Broken

from tests.unit.worker.fake_controller import FakeController, joined, run, until
from tests.unit.worker.test_worker_image_transfers import IMAGE, KEY, load, loaded, loads

COMPILER = "jaxlib on this processor"
MEGABYTE = 1 << 20


def folder_at(path: Path, secret: str = "secret", bytes_max: int = MEGABYTE) -> ImageFolder:
    return ImageFolder(path / "images", secret, bytes_max)


def only_file(path: Path) -> Path:
    [file] = (path / "images").iterdir()
    return file


def test_an_image_is_read_as_it_was_written_by_whoever_has_the_secret(tmp_path: Path) -> None:
    folder = folder_at(tmp_path)
    assert not folder.has(KEY, COMPILER)
    folder.write(KEY, COMPILER, IMAGE)
    assert folder.has(KEY, COMPILER)
    assert folder_at(tmp_path).read(KEY, COMPILER) == IMAGE
    assert not folder.has("other/0x1", COMPILER)
    assert not folder.has(KEY, "jaxlib on another processor")
    assert [oct(path.stat().st_mode)[-3:] for path in (tmp_path / "images", only_file(tmp_path))] == ["700", "600"]
    folder.erase(KEY, COMPILER)
    assert not folder.has(KEY, COMPILER)


@pytest.mark.parametrize("what", ["flipped", "cut", "empty", "appended", "moved", "another secret", "gone"])
def test_bytes_that_no_worker_of_this_cluster_wrote_there_are_refused(tmp_path: Path, what: str) -> None:
    folder = folder_at(tmp_path)
    folder.write(KEY, COMPILER, IMAGE)
    file = only_file(tmp_path)
    content = file.read_bytes()
    asked = KEY
    if what == "flipped":
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif what == "cut":
        file.write_bytes(content[:-1])
    elif what == "empty":
        file.write_bytes(b"")
    elif what == "appended":
        file.write_bytes(content + b"x")
    elif what == "moved":
        folder.write("other/0x1", COMPILER, b"another program")
        [other] = [each for each in file.parent.iterdir() if each != file]
        other.replace(file)
    elif what == "gone":
        file.unlink()
    reader = folder_at(tmp_path, secret="not this one") if what == "another secret" else folder
    with pytest.raises(Broken, match="was not written by a worker" if what != "gone" else "cannot be read"):
        reader.read(asked, COMPILER)


def test_the_longest_unused_files_make_room(tmp_path: Path) -> None:
    folder = folder_at(tmp_path, bytes_max=3000)
    for age, key in ((30, "a"), (20, "b")):
        folder.write(key, COMPILER, bytes(1200))
        newest = max((tmp_path / "images").iterdir(), key=lambda file: file.stat().st_mtime_ns)
        os.utime(newest, (newest.stat().st_mtime - age,) * 2)
    folder.read("a", COMPILER)  # used now
    folder.write("c", COMPILER, bytes(1200))
    assert [folder.has(key, COMPILER) for key in "abc"] == [True, False, True]
    assert sum(file.stat().st_size for file in (tmp_path / "images").iterdir()) <= 3000
    folder.write("d", COMPILER, bytes(3000))
    assert [folder.has(key, COMPILER) for key in "acd"] == [True, True, False], "too large to be kept, and nothing goes for it"


def test_what_a_killed_writer_left_aside_goes_and_what_another_writes_now_stays(tmp_path: Path) -> None:
    folder = folder_at(tmp_path)
    folder.write("a", COMPILER, IMAGE)
    old, new = (tmp_path / "images" / name for name in ("x.1.new", "y.2.new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (old.stat().st_mtime - 3600,) * 2)
    folder.write("b", COMPILER, IMAGE)
    assert (old.exists(), new.exists()) == (False, True)


def test_a_full_disk_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.raises(OSError, match="1000 bytes are free there"):
        folder_at(tmp_path).write(KEY, COMPILER, IMAGE)


async def stored(app: App, count: int) -> None:
    """Waits until that many images are on disk."""
    path = app.agent.images._folder.path  # type: ignore[union-attr]
    await until(lambda: path.is_dir() and len(list(path.glob("*.image"))) == count, "images on disk")


def with_secret(path: Path) -> str:
    path.mkdir(mode=0o700, exist_ok=True)
    (path / "secret").write_text("a secret\n")
    return "a secret"


async def one_load(controller: FakeController, number: int = 1) -> bool:
    await controller.enter()
    await controller.send(load(number))
    return bool((await loaded(controller, number)).reused)


def test_the_next_daemon_compiles_nothing_that_one_before_compiled(tmp_path: Path) -> None:
    with_secret(tmp_path)

    async def scenario() -> None:
        async with joined(tmp_path, auth=True) as (controller, app):
            assert not await one_load(controller)
            await stored(app, 1)
        async with joined(tmp_path, auth=True, host="other") as (controller, app):
            assert await one_load(controller)
            assert loads(controller) == ["load 1 image of program"]
            assert (app.counters.images_read, app.counters.executables_compiled) == (1, 0)

    run(scenario())


def test_a_poisoned_file_costs_a_compilation_and_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with_secret(tmp_path)

    async def scenario() -> None:
        async with joined(tmp_path, auth=True) as (controller, app):
            await one_load(controller)
            await stored(app, 1)
        file = only_file(tmp_path)
        written = file.read_bytes()
        file.write_bytes(written[:-5] + b"wrong")
        async with joined(tmp_path, auth=True) as (controller, app):
            assert not await one_load(controller)
            await until(lambda: file.read_bytes() == written, "the file of the new image")
            assert app.counters.images_read == 0

    run(scenario())
    assert [record.message for record in caplog.records].count("no image from disk; the program is compiled here") == 1


def test_an_image_that_an_executor_died_of_leaves_the_disk(tmp_path: Path) -> None:
    with_secret(tmp_path)

    async def scenario() -> None:
        folder = folder_at(tmp_path, "a secret")
        folder.write(KEY, "fake", b"broken")
        async with joined(tmp_path, auth=True) as (controller, _):
            await controller.enter()
            await controller.send(load(1))
            assert (await controller.event("executor_died")).exit == "signal 9"
            await until(lambda: not folder.has(KEY, "fake"), "the file to go")
            await controller.enter(2)
            await controller.send(load(2))
            assert not (await loaded(controller, 2)).reused

    run(scenario())


@pytest.mark.parametrize("settings", [{"auth": False}, {"auth": True, "image_disk": 0}])
def test_without_a_secret_or_room_nothing_is_written(tmp_path: Path, settings: dict[str, object]) -> None:
    with_secret(tmp_path)

    async def scenario() -> None:
        async with joined(tmp_path, **settings) as (controller, app):
            assert not await one_load(controller)
            assert app.agent.images._folder is None

    run(scenario())
    assert not (tmp_path / "images").exists()


def test_a_disk_that_fails_costs_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with_secret(tmp_path)
    (tmp_path / "images").write_text("a file where the folder should be")

    async def scenario() -> None:
        async with joined(tmp_path, auth=True) as (controller, _):
            assert not await one_load(controller)
            words = "an image was not written; choose another --image-dir, or --image-disk 0"
            await until(lambda: any(record.message == words for record in caplog.records), "the line")

    run(scenario())
