"""The controller's own door is kept running, told the token by its environment, and its refusal stops the start."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import pytest
from pathways_common.model.failure import PathwaysError
from pathways_server.shell import far_door


def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Replaces the interpreter that runs the door by a script, which gets the door's arguments."""
    script = tmp_path / "door"
    script.write_text(f"#!{sys.executable}\nimport os, pathlib, sys\nhere = pathlib.Path({str(tmp_path)!r})\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setattr(far_door.sys, "executable", str(script))
    monkeypatch.setattr(far_door, "_RESTART_PAUSE_S", 0.01)


def test_the_door_is_started_with_the_token_and_started_again_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    body = """
with open(here / 'starts', 'a') as stream: print(*sys.argv[1:], os.environ['PATHWAYS_TOKEN'], file=stream)
print('{"address": "127.0.0.1:7"}', flush=True)
first = len((here / 'starts').read_text().splitlines()) == 1
if not first: sys.stdin.read(); (here / 'ended').write_text('')
"""
    stand_in(tmp_path, monkeypatch, body)

    async def scenario() -> None:
        task = asyncio.create_task(far_door.run_far_door(7, "127.0.0.1:9", "secret-token", "ads"))
        async with asyncio.timeout(30):
            while caplog.text.count("door listening") < 2:
                await asyncio.sleep(0.02)
        task.cancel()
        await asyncio.wait({task}, timeout=10)

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    starts = (tmp_path / "starts").read_text().splitlines()
    wanted = "-m pathways_door --far ads --listen 127.0.0.1:7 --controller 127.0.0.1:9 secret-token"
    assert starts == [wanted, wanted]
    assert (tmp_path / "ended").exists()


def test_a_door_that_refuses_at_the_start_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, """print('{"failure": {"reason": "INVALID_ARGUMENT", "message": "port 7 is in use"}}')""")
    with pytest.raises(PathwaysError, match=r"the door on 127.0.0.1:7 could not be started: port 7 is in use"):
        asyncio.run(asyncio.wait_for(far_door.run_far_door(7, "127.0.0.1:9", None), 30))
